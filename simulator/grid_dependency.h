// Grids that overlap with the one before them in the stream (programmatic dependent launch): what that one
// wrote is theirs to touch only after griddepcontrol.wait. Grids run one after another here, so that the
// contract is checked instead of the overlap being simulated.
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
  void clear() { bits_.clear(); }

 private:
  std::vector<bool> bits_;  // empty: nothing
};

/// Whose accesses have to wait.
class GridDependency {
 public:
  void begin_grid(bool overlaps) {
    overlaps_ = overlaps;
    met_.clear();
  }
  /// A thread of the CTA has come back from griddepcontrol.wait. The others learn of it by the CTA's own
  /// barriers, which are checked elsewhere.
  void meet(const Cta* cta) {
    if (overlaps_) met_.insert(cta);
  }
  bool pending(const Cta* cta) const { return overlaps_ && !met_.contains(cta); }

 private:
  bool overlaps_ = false;
  std::unordered_set<const Cta*> met_;
};

}  // namespace jfa::simulator
