// tcgen05.shift.down: rows of tensor memory move by one lane.
#pragma once

#include <cstdint>

#include "simulator/machine/machine.h"

namespace jfa::simulator {

/// Starts a shift of 32 bytes, eight columns, of the 32 lanes from the address on: each lane but the last
/// gets what the next one holds, and the last keeps its own. Throws like issue_mma, and kTensorMemory for an
/// address whose lane does not begin a quarter.
void issue_tensor_shift(Warp& warp, int cta_group, std::uint32_t address, const ProgramPoint& point);

}  // namespace jfa::simulator
