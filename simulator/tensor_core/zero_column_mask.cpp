#include "simulator/tensor_core/zero_column_mask.h"

#include <fmt/format.h>

#include "simulator/tensor_core/tensor_memory_shape.h"

namespace jfa::simulator {
namespace {

constexpr std::uint32_t field(std::uint64_t bits, int high, int low) {
  return static_cast<std::uint32_t>(bits >> low & ((std::uint64_t{1} << (high - low + 1)) - 1));
}

}  // namespace

Result<std::vector<bool>> decode_zero_column_mask(std::uint64_t bits, std::uint32_t m, std::uint32_t n) {
  const auto error = [&](const char* message) {
    return Status::invalid_argument(fmt::format("zero-column mask descriptor 0x{:016x}: {}", bits, message));
  };
  if (field(bits, 38, 36) != 0) return error("reserved bits 38:36 are set");
  if (field(bits, 63, 62) != 0) return error("reserved bits 63:62 are set");
  if (field(bits, 61, 56) != 0)
    return error("column shift (bits 61:56): which columns a shift reads is not documented");
  std::vector<bool> zero(n, false);
  if (field(bits, 39, 39) == 0) return zero;
  // Columns that are zeros and columns that are not take turns. Of the two spans the manual's table and its
  // examples say the opposite; the examples are right by the fields' names (doubt 35).
  const std::uint32_t zeros = field(bits, 47, 40) + 1, used = field(bits, 55, 48) + 1;
  const std::uint32_t piece = accumulator_columns(1, m, n, AccumulatorForm::kWeightStationary);
  for (std::uint32_t column = 0; column < n; ++column) {
    const auto i = static_cast<int>(column / piece);
    const bool zeros_first = field(bits, 32 + i, 32 + i) != 0;
    const std::uint32_t place = (field(bits, 8 * i + 7, 8 * i) + column % piece) % (zeros + used);
    zero[column] = zeros_first ? place < zeros : place >= used;
  }
  return zero;
}

}  // namespace jfa::simulator
