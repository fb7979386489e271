// The issue of a tcgen05.mma.
#pragma once

#include <array>
#include <cstdint>

#include "simulator/machine/machine.h"
#include "simulator/tensor_core/instruction_descriptor.h"

namespace jfa::simulator {

/// The operands of one tcgen05.mma, as one thread passes them.
struct MmaArguments {
  MmaForm form;
  std::uint32_t d_address = 0;     // tensor memory
  std::uint32_t a_address = 0;     // tensor memory: the TS form
  std::uint64_t a_descriptor = 0;  // shared memory: the SS form
  std::uint64_t b_descriptor = 0;
  std::uint32_t instruction_descriptor = 0;
  bool enable_input_d = false;
  int scale_input_d = 0;  // D enters as D * 2^-scale
  /// Bit i of the concatenated words: lane i of D is not written; lanes 128 … 255 are the odd CTA's.
  std::array<std::uint32_t, 8> disable_output_lane{};
  std::uint32_t metadata_address = 0;  // tensor memory: of sparse forms
  std::uint64_t zero_column_mask = 0;  // descriptor, of mma.ws; 0: no column is zeros
  // Tensor memory: of block-scaled kinds.
  std::uint32_t a_scale_address = 0;
  std::uint32_t b_scale_address = 0;

  bool disables_lane(std::uint32_t cta, std::uint32_t lane) const {
    const std::uint32_t bit = cta * 128 + lane;
    return (disable_output_lane[bit / 32] >> bit % 32 & 1) != 0;
  }
};

/// Checks the operands, puts what the product reads and writes in flight, and hands it to the scheduler.
void issue_mma(Warp& warp, const MmaArguments& arguments, const ProgramPoint& point);

}  // namespace jfa::simulator
