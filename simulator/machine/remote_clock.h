// What is known of other clusters: happens-before between CTAs that share nothing but global memory.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

namespace jfa::simulator {

class VectorClock;

/// Clusters of a grid, numbered in the order in which they start.
using ClusterId = std::uint32_t;

/// By cluster, what of it happened before. Immutable, so that clocks share it: it crosses barriers with every
/// clock and changes only where clusters synchronise.
class RemoteClock {
 public:
  using Pointer = std::shared_ptr<const RemoteClock>;

  /// Null: nothing.
  const VectorClock* of(ClusterId cluster) const;
  /// Both together; either may be null.
  static Pointer join(const Pointer& a, const Pointer& b);
  /// With a proxy fence of global memory behind all that it knows.
  static Pointer fenced(const Pointer& clock);
  /// `base`, which may be null, and the cluster's own clock.
  static Pointer with(const Pointer& base, ClusterId cluster, std::shared_ptr<const VectorClock> clock);

 private:
  struct Entry {
    ClusterId cluster = 0;
    std::shared_ptr<const VectorClock> clock;
  };
  std::vector<Entry> entries_;  // by cluster, which increases
};

}  // namespace jfa::simulator
