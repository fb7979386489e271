// Grids that overlap with the one before them in the stream (programmatic dependent launch): what that one
// wrote is theirs to touch only after griddepcontrol.wait. What a still earlier one wrote, which that one
// overlapped with, is theirs then if that one has waited itself, and at once if it waited before it let them
// start. Grids run one after another here, so that the contract is checked instead of the overlap being
// simulated.
#pragma once

#include <algorithm>
#include <cstdint>
#include <unordered_set>
#include <vector>

namespace jfa::simulator {

class Cta;

/// Which bytes of an allocation a grid has written, to 16 bytes.
class WriteLog {
 public:
  bool contains(std::uint64_t offset, std::uint64_t bytes) const {
    const std::uint64_t end = std::min<std::uint64_t>((offset + bytes + 15) / 16, bits_.size());
    for (std::uint64_t unit = offset / 16; unit < end; ++unit)
      if (bits_[unit]) return true;
    return false;
  }
  void mark(std::uint64_t offset, std::uint64_t bytes, std::uint64_t size_bytes) {
    if (bits_.empty()) bits_.resize((size_bytes + 15) / 16);
    for (std::uint64_t unit = offset / 16; unit < (offset + bytes + 15) / 16; ++unit) bits_[unit] = true;
  }
  void add(const WriteLog& other) {
    if (bits_.size() < other.bits_.size()) bits_.resize(other.bits_.size());
    for (std::size_t unit = 0; unit < other.bits_.size(); ++unit)
      if (other.bits_[unit]) bits_[unit] = true;
  }
  bool empty() const { return bits_.empty(); }
  void clear() { bits_.clear(); }

 private:
  std::vector<bool> bits_;  // empty: nothing
};

/// Which bytes of an allocation grids may still be writing that this grid overlaps with.
struct UnfinishedWrites {
  WriteLog until_wait;  // unless a CTA has executed griddepcontrol.wait
  WriteLog after_wait;  // even then
};

/// Whose accesses have to wait.
class GridDependency {
 public:
  void begin_grid(bool overlaps) {
    overlaps_ = overlaps;
    met_.clear();
    let_go_.clear();
  }
  /// A thread of the CTA lets the next grid start, as far as this CTA goes.
  void let_go(const Cta* cta) {
    if (pending(cta)) let_go_.insert(cta);
  }
  /// A thread of the CTA has come back from griddepcontrol.wait. The others learn of it by the CTA's own
  /// barriers, which are checked elsewhere.
  void meet(const Cta* cta) {
    if (overlaps_) met_.insert(cta);
  }
  bool pending(const Cta* cta) const { return overlaps_ && !met_.contains(cta); }
  bool overlaps() const { return overlaps_; }
  /// Whether this grid's end, and whether the next one's start, comes after the end of the grid before it:
  /// the next one starts when all CTAs have let go or ended.
  bool waited() const { return !met_.empty(); }
  bool waited_before_letting_go() const {
    return std::any_of(met_.begin(), met_.end(), [&](const Cta* cta) { return !let_go_.contains(cta); });
  }

 private:
  bool overlaps_ = false;
  std::unordered_set<const Cta*> met_;
  std::unordered_set<const Cta*> let_go_;  // before they waited
};

}  // namespace jfa::simulator
