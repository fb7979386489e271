#include "simulator/checkers/tensor_map_proxy.h"

namespace jfa::simulator {
namespace {

const HappensBefore& order_of(const Warp& warp) { return warp.cta().cluster().order; }

}  // namespace

void TensorMapProxy::change(const Warp& warp, int lane, std::uint64_t address, bool released) {
  changes_[address] = {order_of(warp).cluster(), warp.event(LaneMask{1} << lane), released, {}};
}

void TensorMapProxy::release(const Warp& warp, LaneMask lanes) {
  for (auto& [address, change] : changes_) {
    if (change.released || change.cluster != order_of(warp).cluster()) continue;
    for (LaneMask rest = lanes; rest != 0 && !change.released; rest &= rest - 1)
      change.released = order_of(warp).ordered(change.event, *warp.clock, __builtin_ctz(rest), false);
  }
}

void TensorMapProxy::acquire(const Warp& warp, int lane, std::uint64_t address) {
  const auto change = changes_.find(address);
  if (change == changes_.end() || !change->second.released) return;
  auto& ticks = change->second.acquired[{order_of(warp).cluster(), warp.clock->strand()}];
  std::uint32_t& tick = ticks[static_cast<std::size_t>(lane)];
  if (tick == 0) tick = warp.clock->now();
}

void TensorMapProxy::check_use(const Warp& warp, std::uint64_t address, const ProgramPoint& point) const {
  const auto found = changes_.find(address);
  if (found == changes_.end()) return;
  const Change& change = found->second;
  if (!change.released)
    fail_at(ErrorKind::kMissingFence, point, address,
            "the tensor map was changed by tensormap.replace without "
            "fence.proxy.tensormap::generic.release behind it");
  for (const auto& [key, ticks] : change.acquired) {
    const auto [cluster, strand] = key;
    if (cluster != order_of(warp).cluster()) continue;
    for (int lane = 0; lane < kWarpSize; ++lane) {
      const std::uint32_t tick = ticks[static_cast<std::size_t>(lane)];
      if (tick == 0) continue;
      if (order_of(warp).ordered({strand, tick, LaneMask{1} << lane}, *warp.clock, point.lane, false)) return;
    }
  }
  fail_at(ErrorKind::kMissingFence, point, address,
          "the tensor map was changed by this grid, and no fence.proxy.tensormap::generic.acquire of it "
          "happened before its use");
}

}  // namespace jfa::simulator
