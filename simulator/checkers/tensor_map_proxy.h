// The tensormap proxy: copies read their tensor maps through it, so that a map which the grid itself has
// changed in global memory is stale until the writer has released it and the user acquired it.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <utility>

#include "simulator/machine/machine.h"

namespace jfa::simulator {

/// Of a grid: which maps in global memory it has changed by tensormap.replace or tensormap.cp_fenceproxy.
/// Other stores into maps are not looked at. It tells what Observer says of tensor maps.
class TensorMapProxy {
 public:
  /// `lane` has changed the map at the address. `released`: with its release in the same instruction.
  void change(const Warp& warp, int lane, std::uint64_t address, bool released);
  /// fence.proxy.tensormap::generic.release: covers every change of its cluster that happened before it.
  void release(const Warp& warp, LaneMask lanes);
  /// fence.proxy.tensormap::generic.acquire of one lane.
  void acquire(const Warp& warp, int lane, std::uint64_t address);
  /// A copy uses the map: throws kMissingFence if the change was not released, or if nobody in the cluster
  /// has acquired it before.
  void check_use(const Warp& warp, std::uint64_t address, const ProgramPoint& point) const;

 private:
  struct Change {
    ClusterId cluster = 0;
    Epoch event;
    bool released = false;
    /// By cluster and strand, the tick of each lane's first acquire; 0: none.
    std::map<std::pair<ClusterId, Strand>, std::array<std::uint32_t, kWarpSize>> acquired;
  };
  std::map<std::uint64_t, Change> changes_;  // the last of each address
};

}  // namespace jfa::simulator
