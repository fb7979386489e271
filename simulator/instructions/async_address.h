// Addresses of instructions that hold several of them, lane by lane.
#pragma once

#include <fmt/format.h>

#include <cstdint>

#include "simulator/decode/instruction_table.h"
#include "simulator/machine/machine.h"

namespace jfa::simulator {

inline std::uint64_t address_of(Warp& warp, const AddressOperand& operand, int lane) {
  const std::uint64_t base = operand.is_64_bit ? warp.lanes<std::uint64_t>(operand.base)[lane]
                                               : warp.lanes<std::uint32_t>(operand.base)[lane];
  const std::uint64_t address = base + static_cast<std::uint64_t>(operand.displacement);
  return operand.is_64_bit ? address : static_cast<std::uint32_t>(address);
}

/// A shared::cta, shared::cluster or generic address of shared memory.
inline SharedPlace shared_place_of(Warp& warp, const AddressOperand& operand, int lane,
                                   const ProgramPoint& point) {
  return warp.machine().shared_place_any(warp.cta(), address_of(warp, operand, lane), operand.is_64_bit,
                                         point);
}

/// The same for an operand in .shared::cta: an offset in the warp's own CTA.
inline std::uint32_t own_shared_offset_of(Warp& warp, const AddressOperand& operand, int lane,
                                          const ProgramPoint& point) {
  const SharedPlace place = shared_place_of(warp, operand, lane, point);
  if (place.cta != &warp.cta())
    fail_at(ErrorKind::kOutOfBounds, point, place.offset,
            fmt::format("a .shared::cta address belongs to CTA rank {}", place.cta->rank()));
  return place.offset;
}

/// Whether the lanes have the same in an operand; in one that there is not they do.
inline bool same_in_lanes(Warp& warp, Slot slot, bool is_64_bit, LaneMask lanes) {
  if (slot == kNoSlot || lanes == 0) return true;
  const int first = __builtin_ctz(lanes);
  const auto same = [&](const auto* values) {
    for (int lane = first; lane < kWarpSize; ++lane)
      if ((lanes >> lane & 1) != 0 && values[lane] != values[first]) return false;
    return true;
  };
  return is_64_bit ? same(warp.lanes<std::uint64_t>(slot)) : same(warp.lanes<std::uint32_t>(slot));
}
inline bool same_in_lanes(Warp& warp, const AddressOperand& operand, LaneMask lanes) {
  return same_in_lanes(warp, operand.base, operand.is_64_bit, lanes);
}

/// Which of the active lanes issue something that one would issue for a whole warp, if they all want the same
/// (RunOptions::lane_issues).
template <class Same>
LaneMask issuing_lanes(const Warp& warp, LaneMask active, Same&& same) {
  if (warp.machine().config().options.lane_issues || active != warp.live() || !same()) return active;
  return active & (~active + 1);
}

/// Calls run(lane, point) for each active lane, lowest first.
template <class Run>
void for_each_lane(const Warp& warp, const Instruction& instruction, LaneMask active, Run&& run) {
  for (int lane = 0; lane < kWarpSize; ++lane)
    if (active >> lane & 1) run(lane, warp.point(instruction, lane));
}

}  // namespace jfa::simulator
