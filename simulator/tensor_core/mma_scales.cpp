#include "simulator/tensor_core/mma_scales.h"

#include <fmt/format.h>

#include <bit>

#include "simulator/tensor_core/tensor_memory_shape.h"
#include "simulator/tensor_core/tensor_memory_state.h"

namespace jfa::simulator {
namespace {

// The column of an address whose lane must be 0.
std::uint32_t column_of(std::uint32_t bits, std::uint32_t id, const char* name, const ProgramPoint& point) {
  const std::uint32_t byte = bits >> 30;
  const TensorAddress address(bits & 0x3fff'ffff);
  if (byte != 0 && byte != id)
    fail_at(ErrorKind::kTensorMemory, point, bits,
            fmt::format("the scale factors of {} at {:#010x}: byte {} in the address, {} in the instruction "
                        "descriptor",
                        name, bits, byte, id));
  if (address.lane != 0)
    fail_at(
        ErrorKind::kTensorMemory, point, bits,
        fmt::format("the scale factors of {} at lane {} of tensor memory: it must be 0", name, address.lane));
  return address.column;
}

}  // namespace

std::vector<TensorRegion> ScaleFactors::regions() const { return scale_regions(column, rows, in_halves); }

void ScaleFactors::read(Cta& cta, std::vector<std::uint8_t>& factors, const ProgramPoint& point) const {
  TensorMemory& memory = cta.extension<CtaTensorMemory>().memory();
  const std::uint32_t mask = (count == 4 ? ~0u : (1u << 8 * count) - 1) << 8 * id;
  for (std::uint32_t row = 0; row < rows; ++row) {
    const ScalePlace place = scale_place(row, rows, in_halves);
    const auto cell = [&](std::uint32_t quarter) {
      return memory.cell(quarter * kQuarterLanes + place.cell.lane, column + place.cell.column) & mask;
    };
    const auto first = static_cast<std::uint32_t>(std::countr_zero(place.quarters));
    const std::uint32_t value = cell(first);
    for (std::uint32_t quarter = first + 1; place.quarters >> quarter != 0; ++quarter) {
      if (cell(quarter) == value) continue;
      fail_at(
          ErrorKind::kTensorMemory, point, TensorAddress(place.cell.lane, column + place.cell.column).bits(),
          fmt::format("the scale factors of row {} of {} differ between lanes {} and {} of column {}: all "
                      "quarters of the lanes must have them",
                      row, name, first * kQuarterLanes + place.cell.lane,
                      quarter * kQuarterLanes + place.cell.lane, column + place.cell.column));
    }
    for (std::uint32_t i = 0; i < count; ++i)
      factors.push_back(static_cast<std::uint8_t>(value >> 8 * (id + i)));
  }
}

ScaleFactors a_scale_factors(std::uint32_t address, const MmaForm& form,
                             const InstructionDescriptor& instruction, const ProgramPoint& point) {
  const std::uint32_t id = instruction.a_scale_id;
  const auto ctas = static_cast<std::uint32_t>(form.cta_group);
  return {"A", column_of(address, id, "A", point), instruction.m / ctas, id, form.scales, false};
}

ScaleFactors b_scale_factors(std::uint32_t address, const MmaForm& form,
                             const InstructionDescriptor& instruction, const ProgramPoint& point) {
  const std::uint32_t id = instruction.b_scale_id;
  const bool in_halves = form.cta_group == 2 && instruction.m == 128;
  // Of all columns, in both CTAs: each multiplies its rows by the whole of B.
  return {"B", column_of(address, id, "B", point), instruction.n, id, form.scales, in_halves};
}

}  // namespace jfa::simulator
