// The 32-bit instruction descriptor of tcgen05.mma, decoded and checked against the form of the instruction.
#pragma once

#include <cstdint>

#include "base/status.h"
#include "simulator/tensor_core/matrix_descriptor.h"
#include "simulator/tensor_core/mma_number.h"

namespace jfa::simulator {

/// What an instruction multiplies: the `.kind` of tcgen05.mma. Those with "Mx" scale blocks of elements.
enum class MmaKind : std::uint8_t { kF16, kTF32, kF8F6F4, kI8, kMxF8F6F4, kMxF4, kMxF4NvF4 };

constexpr bool is_block_scaled(MmaKind kind) { return kind >= MmaKind::kMxF8F6F4; }
/// The elements are of 4 bits, two in a byte: 64 in a step of K.
constexpr bool is_packed_f4(MmaKind kind) { return kind == MmaKind::kMxF4 || kind == MmaKind::kMxF4NvF4; }

/// What the modifiers and the operands of a tcgen05.mma say.
struct MmaForm {
  MmaKind kind = MmaKind::kF16;
  int cta_group = 1;
  bool a_in_tensor_memory = false;  ///< the TS form, whose A must be K-major
  bool weight_stationary = false;   ///< mma.ws
  bool sparse = false;              ///< mma.sp, mma.ws.sp: k counts twice the elements of A
  std::uint32_t scales = 0;  ///< .scale_vec::NX: scale factors for a step of a row; 0: kind without any
};

/// m and n are those of the whole instruction (of both CTAs for cta_group::2).
struct InstructionDescriptor {
  MmaAccumulator d_type = MmaAccumulator::kF32;
  MmaElement a_type = MmaElement::kF16;
  MmaElement b_type = MmaElement::kF16;
  bool saturate = false;  // kind::i8: sums stay within s32
  bool negate_a = false;
  bool negate_b = false;
  MatrixMajor a_major = MatrixMajor::kK;
  MatrixMajor b_major = MatrixMajor::kK;
  std::uint32_t m = 0;
  std::uint32_t n = 0;
  std::uint32_t sparsity_selector = 0;  // sparse: of two columns of metadata
  // Block-scaled kinds: the first byte of the scale factors in their 32-bit cells.
  ScaleType scale_type = ScaleType::kUe8m0;
  std::uint32_t a_scale_id = 0;
  std::uint32_t b_scale_id = 0;
};

/// Decodes and checks the descriptor. Errors name the field and its value.
Result<InstructionDescriptor> decode_instruction_descriptor(std::uint32_t bits, const MmaForm& form);

}  // namespace jfa::simulator
