#include "simulator/checkers/memory_meetings.h"

#include <algorithm>

#include "simulator/machine/machine.h"

namespace jfa::simulator {
namespace {

constexpr std::uint64_t kWordBytes = 4;

template <class Visit>
void for_each_word(std::uint64_t address, std::uint32_t bytes, Visit visit) {
  for (std::uint64_t word = address / kWordBytes; word <= (address + bytes - 1) / kWordBytes; ++word)
    visit(word);
}

}  // namespace

MemoryAccessor accessor_of(const ProgramPoint& point) {
  const Warp& warp = point.cta->warp(point.warp);
  return {&point.cta->cluster().order, warp.clock, std::max(point.lane, 0), warp.live()};
}

void MemoryMeetings::read(std::uint64_t address, std::uint32_t bytes, const MemoryAccessor& accessor,
                          const MemoryOrder& order) {
  if (left_.empty()) return;
  const bool wide = order.scope == MemoryScope::kGpu;
  for_each_word(address, bytes, [&](std::uint64_t word) {
    const auto found = left_.find(word);
    if (found == left_.end()) return;
    const WarpClock::Published& left = found->second;
    if (order.acquires) {
      accessor.order->learn(*accessor.clock, accessor.bit(), accessor.live, left.narrow, false);
      if (wide) accessor.order->learn(*accessor.clock, accessor.bit(), accessor.live, left.wide, true);
      return;
    }
    WarpClock::Published& observed = accessor.clock->observed(accessor.lane);
    observed.narrow = RemoteClock::join(observed.narrow, left.narrow);
    if (wide) observed.wide = RemoteClock::join(observed.wide, left.wide);
  });
}

void MemoryMeetings::write(std::uint64_t address, std::uint32_t bytes, const MemoryAccessor& accessor,
                           const MemoryOrder& order) {
  WarpClock::Published own = accessor.clock->released(accessor.lane);
  if (order.releases)
    own.wide = own.narrow = accessor.order->publish(*accessor.clock, accessor.bit(), accessor.live);
  if (order.scope != MemoryScope::kGpu) own.wide = nullptr;
  for_each_word(address, bytes, [&](std::uint64_t word) {
    const auto found = left_.find(word);
    if (found == left_.end()) {
      if (own.narrow != nullptr) left_.emplace(word, own);
    } else if (order.updates) {
      found->second.wide = RemoteClock::join(found->second.wide, own.wide);
      found->second.narrow = RemoteClock::join(found->second.narrow, own.narrow);
    } else {
      found->second = own;
    }
  });
}

}  // namespace jfa::simulator
