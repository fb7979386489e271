// How instructions that use a tensor map get at it.
#pragma once

#include <cstddef>
#include <cstdint>

#include "simulator/machine/machine.h"

namespace jfa::simulator {

/// The 128 bytes behind a generic address, as a copy reads them: throws what read_generic does and, for a map
/// in global memory, kRace and kMissingFence (Observer::use_map).
const std::byte* use_tensor_map(Warp& warp, std::uint64_t address, const ProgramPoint& point);

}  // namespace jfa::simulator
