// What one strand of a kernel knows about the others: the clocks of happens-before.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "simulator/machine/remote_clock.h"

namespace jfa::simulator {

/// Something whose events follow each other: a warp (with all its lanes), one lane that synchronises without
/// its warp, the phases of an mbarrier, the products that one thread issues. Numbered within a cluster.
using Strand = std::uint16_t;

/// An event: the tick-th of a strand, counted from 1; 0 is none.
struct Epoch {
  Strand strand = 0;
  std::uint32_t tick = 0;
  std::uint32_t lanes = 0;  ///< if it is a warp's: of those of its lanes. 0: of the strand as a whole
  bool operator==(const Epoch&) const = default;
};

/// Spaces that fence.proxy.async tells apart.
enum class FencedSpace : std::uint8_t { kShared, kGlobal };

class VectorClock {
 public:
  /// The last tick of the strand that happened before.
  std::uint32_t seen(Strand strand) const { return strand < seen_.size() ? seen_[strand] : 0; }
  /// The last tick of the strand whose generic writes to the space the asynchronous proxy may read: a
  /// fence.proxy.async behind them happened before, too.
  std::uint32_t fenced(Strand strand, FencedSpace space) const {
    const std::vector<std::uint32_t>& ticks = fenced_[index(space)];
    return strand < ticks.size() ? ticks[strand] : 0;
  }
  /// The last tick of the strand that is over: what it accessed may be overwritten, though perhaps not read.
  std::uint32_t settled(Strand strand) const {
    return std::max(seen(strand), strand < settled_.size() ? settled_[strand] : 0);
  }

  /// What happened before in other clusters; null: nothing.
  const RemoteClock::Pointer& remote() const { return remote_; }

  void see(Strand strand, std::uint32_t tick) { raise(seen_, strand, tick); }
  void fence(Strand strand, FencedSpace space, std::uint32_t tick) {
    raise(fenced_[index(space)], strand, tick);
  }
  void learn(const RemoteClock::Pointer& remote);
  /// Leaves other clusters out from here on.
  RemoteClock::Pointer take_remote() { return std::exchange(remote_, nullptr); }
  void join(const VectorClock& other) {
    join(seen_, other.seen_);
    for (std::size_t i = 0; i < fenced_.size(); ++i) join(fenced_[i], other.fenced_[i]);
    join(settled_, other.settled_);
    if (other.remote_ != nullptr && other.remote_ != remote_) learn(other.remote_);
  }
  /// A proxy fence: whatever has been seen, the asynchronous proxy may read.
  void fence_seen(FencedSpace space) {
    join(fenced_[index(space)], seen_);
    if (space == FencedSpace::kGlobal) remote_ = RemoteClock::fenced(remote_);
  }
  /// What was seen is only settled from here on.
  void hide() {
    join(settled_, seen_);
    seen_.clear();
    for (auto& ticks : fenced_) ticks.clear();
    remote_.reset();
  }
  void clear() {
    seen_.clear();
    for (auto& ticks : fenced_) ticks.clear();
    settled_.clear();
    remote_.reset();
  }

 private:
  static std::size_t index(FencedSpace space) { return static_cast<std::size_t>(space); }
  static void raise(std::vector<std::uint32_t>& ticks, Strand strand, std::uint32_t tick) {
    if (strand >= ticks.size()) ticks.resize(std::size_t{strand} + 1);
    ticks[strand] = std::max(ticks[strand], tick);
  }
  static void join(std::vector<std::uint32_t>& to, const std::vector<std::uint32_t>& from) {
    if (to.size() < from.size()) to.resize(from.size());
    std::uint32_t* const t = to.data();  // local pointers: the loop becomes vector code
    const std::uint32_t* const f = from.data();
    for (std::size_t i = 0; i < from.size(); ++i) t[i] = std::max(t[i], f[i]);
  }

  std::vector<std::uint32_t> seen_, settled_;
  std::array<std::vector<std::uint32_t>, 2> fenced_;  // by space
  RemoteClock::Pointer remote_;
};

}  // namespace jfa::simulator
