// The zero-column mask descriptor of mma.ws: columns of B that count as zeros whatever they hold.
#pragma once

#include <cstdint>
#include <vector>

#include "base/status.h"

namespace jfa::simulator {

/// Whether each of n columns of B counts as zeros. The columns are split as the accumulator of m rows is,
/// each piece with a start of its own. Errors name the field: reserved bits, a column shift.
Result<std::vector<bool>> decode_zero_column_mask(std::uint64_t bits, std::uint32_t m, std::uint32_t n);

}  // namespace jfa::simulator
