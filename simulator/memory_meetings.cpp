#include "simulator/memory_meetings.h"

#include <algorithm>
#include <utility>

#include "simulator/machine.h"

namespace jfa::simulator {
namespace {

constexpr std::uint64_t kWordBytes = 4;

}  // namespace

MemoryAccessor accessor_of(const ProgramPoint& point) {
  const Warp& warp = point.cta->warp(point.warp);
  return {&point.cta->cluster().order, warp.clock, std::max(point.lane, 0), warp.live()};
}

void MemoryMeetings::read(std::uint64_t address, const MemoryAccessor& accessor, const MemoryOrder& order) {
  const auto found = left_.find(address / kWordBytes);
  if (found == left_.end()) return;
  const WarpClock::Published& left = found->second;
  const bool wide = order.scope == MemoryScope::kGpu;
  if (order.acquires) {
    accessor.order->learn(*accessor.clock, accessor.bit(), accessor.live, left.narrow, false);
    if (wide) accessor.order->learn(*accessor.clock, accessor.bit(), accessor.live, left.wide, true);
    return;
  }
  WarpClock::Published& observed = accessor.clock->observed(accessor.lane);
  observed.narrow = RemoteClock::join(observed.narrow, left.narrow);
  if (wide) observed.wide = RemoteClock::join(observed.wide, left.wide);
}

void MemoryMeetings::write(std::uint64_t address, const MemoryAccessor& accessor, const MemoryOrder& order) {
  WarpClock::Published own = accessor.clock->released(accessor.lane);
  if (order.releases)
    own.wide = own.narrow = accessor.order->publish(*accessor.clock, accessor.bit(), accessor.live);
  if (order.scope != MemoryScope::kGpu) own.wide = nullptr;
  const std::uint64_t word = address / kWordBytes;
  const auto found = left_.find(word);
  if (found == left_.end()) {
    if (own.narrow != nullptr) left_.emplace(word, std::move(own));
  } else if (order.updates) {
    found->second.wide = RemoteClock::join(found->second.wide, own.wide);
    found->second.narrow = RemoteClock::join(found->second.narrow, own.narrow);
  } else {
    found->second = std::move(own);
  }
}

}  // namespace jfa::simulator
