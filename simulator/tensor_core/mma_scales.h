// The scale factors of a block-scaled tcgen05.mma, in tensor memory.
#pragma once

#include <cstdint>
#include <vector>

#include "simulator/machine/machine.h"
#include "simulator/tensor_core/instruction_descriptor.h"
#include "simulator/tensor_core/tensor_memory.h"

namespace jfa::simulator {

/// Of one operand: `count` bytes from byte `id` on, in the cell of each row.
struct ScaleFactors {
  const char* name = "";  // "A", for reports
  std::uint32_t column = 0;
  std::uint32_t rows = 0;  // in each CTA
  std::uint32_t id = 0;
  std::uint32_t count = 0;
  bool in_halves = false;  // see scale_place

  std::vector<TensorRegion> regions() const;
  /// Appends those of a CTA, row by row. Throws if the quarters of the lanes that must all have a factor
  /// differ in it.
  void read(Cta& cta, std::vector<std::uint8_t>& factors, const ProgramPoint& point) const;
};

/// Checks the address (lane 0; bits 31:30 may repeat the id, as CuTe's addresses do) and places the factors.
/// rows: of the whole instruction.
ScaleFactors a_scale_factors(std::uint32_t address, const MmaForm& form,
                             const InstructionDescriptor& instruction, const ProgramPoint& point);
ScaleFactors b_scale_factors(std::uint32_t address, const MmaForm& form,
                             const InstructionDescriptor& instruction, const ProgramPoint& point);

}  // namespace jfa::simulator
