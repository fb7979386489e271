#include "simulator/tensor_core/instruction_descriptor.h"

#include <fmt/format.h>

#include <optional>

namespace jfa::simulator {
namespace {

constexpr std::uint32_t field(std::uint32_t bits, int high, int low) {
  return bits >> low & ((1u << (high - low + 1)) - 1);
}

template <class... Args>
Status error(std::uint32_t bits, fmt::format_string<Args...> format, Args&&... args) {
  return Status::invalid_argument(fmt::format("instruction descriptor 0x{:08x}: {}", bits,
                                              fmt::format(format, std::forward<Args>(args)...)));
}

// The types of A and B by their code in the descriptor, or none.
std::optional<MmaElement> element_of(MmaKind kind, std::uint32_t code) {
  switch (kind) {
    case MmaKind::kF16:
      if (code == 0) return MmaElement::kF16;
      if (code == 1) return MmaElement::kBF16;
      break;
    case MmaKind::kTF32:
      if (code == 2) return MmaElement::kTF32;
      break;
    case MmaKind::kF8F6F4:
    case MmaKind::kMxF8F6F4:
      if (code == 0) return MmaElement::kE4M3;
      if (code == 1) return MmaElement::kE5M2;
      if (code == 3) return MmaElement::kE2M3;
      if (code == 4) return MmaElement::kE3M2;
      if (code == 5) return MmaElement::kE2M1;
      break;
    case MmaKind::kI8:
      if (code == 0) return MmaElement::kU8;
      if (code == 1) return MmaElement::kS8;
      break;
    case MmaKind::kMxF4:
    case MmaKind::kMxF4NvF4:
      if (code == 1) return MmaElement::kE2M1;
      break;
  }
  return std::nullopt;
}

const char* element_codes(MmaKind kind) {
  switch (kind) {
    case MmaKind::kF16:
      return "neither 0 (f16) nor 1 (bf16)";
    case MmaKind::kTF32:
      return "not 2 (tf32)";
    case MmaKind::kF8F6F4:
    case MmaKind::kMxF8F6F4:
      return "none of 0 (e4m3), 1 (e5m2), 3 (e2m3), 4 (e3m2) and 5 (e2m1)";
    case MmaKind::kI8:
      return "neither 0 (u8) nor 1 (s8)";
    case MmaKind::kMxF4:
    case MmaKind::kMxF4NvF4:
      return "not 1 (e2m1)";
  }
  return "";
}

Status decode_types(std::uint32_t bits, const MmaForm& form, InstructionDescriptor& descriptor) {
  const std::uint32_t a_code = field(bits, 9, 7);
  const std::uint32_t b_code = field(bits, 12, 10);
  const std::optional<MmaElement> a_type = element_of(form.kind, a_code);
  const std::optional<MmaElement> b_type = element_of(form.kind, b_code);
  if (!a_type) return error(bits, "A type {} is {}", a_code, element_codes(form.kind));
  if (!b_type) return error(bits, "B type {} is {}", b_code, element_codes(form.kind));
  descriptor.a_type = *a_type;
  descriptor.b_type = *b_type;
  return {};
}

Status decode_sparsity(std::uint32_t bits, const MmaForm& form, InstructionDescriptor& descriptor) {
  const bool sparse = field(bits, 2, 2) != 0;
  const std::uint32_t selector = field(bits, 1, 0);
  if (sparse && !form.sparse) return error(bits, "sparse (bit 2) on a dense mma");
  if (!sparse && form.sparse) return error(bits, "dense (bit 2) on a sparse mma");
  if (!sparse && selector != 0) return error(bits, "sparsity selector (bits 1:0) of a dense mma");
  const bool has_selector = form.kind == MmaKind::kF16 || form.kind == MmaKind::kTF32;
  if (selector > (has_selector ? 1 : 0))
    return error(bits, "sparsity selector {} (bits 1:0): it must be {}", selector,
                 has_selector ? "0 or 1" : "0");
  descriptor.sparsity_selector = selector;
  return {};
}

// Bits 3 to 6, 23 and 29 to 31 of kinds without scales.
Status decode_unscaled(std::uint32_t bits, MmaKind kind, InstructionDescriptor& descriptor) {
  if (field(bits, 3, 3) != 0 && kind != MmaKind::kI8)
    return error(bits, "saturate (bit 3) is for integer kinds");
  if (field(bits, 6, 6) != 0) return error(bits, "reserved bit 6 is set");
  if (field(bits, 23, 23) != 0) return error(bits, "reserved bit 23 is set");
  if (field(bits, 29, 29) != 0) return error(bits, "reserved bit 29 is set");
  if (field(bits, 31, 30) != 0)
    return error(bits, "maximum shift (bits 31:30) of mma.ws: which columns a shift reads is not documented");
  const std::uint32_t d_type = field(bits, 5, 4);
  if (kind == MmaKind::kI8 ? d_type != 2 : kind == MmaKind::kTF32 ? d_type != 1 : d_type > 1)
    return error(bits, "D type {} is not {}", d_type,
                 kind == MmaKind::kI8     ? "2 (s32)"
                 : kind == MmaKind::kTF32 ? "1 (f32)"
                                          : "0 (f16) or 1 (f32)");
  descriptor.d_type = static_cast<MmaAccumulator>(d_type);
  descriptor.saturate = field(bits, 3, 3) != 0;
  return {};
}

// The same bits of kinds with scales, whose D is f32.
Status decode_scaled(std::uint32_t bits, const MmaForm& form, InstructionDescriptor& descriptor) {
  if (field(bits, 3, 3) != 0) return error(bits, "reserved bit 3 is set");
  if (field(bits, 6, 6) != 0) return error(bits, "reserved bit 6 is set");
  if (field(bits, 31, 31) != 0) return error(bits, "K = 96 (bit 31) needs sm_103a");
  descriptor.scale_type = static_cast<ScaleType>(field(bits, 23, 23));
  descriptor.a_scale_id = field(bits, 30, 29);
  descriptor.b_scale_id = field(bits, 5, 4);
  if (descriptor.scale_type == ScaleType::kUe4m3 && (form.kind != MmaKind::kMxF4NvF4 || form.scales != 4))
    return error(bits, "scale type 0 (ue4m3, bit 23) is for kind::mxf4nvf4 with .scale_vec::4X");
  for (const std::uint32_t id : {descriptor.a_scale_id, descriptor.b_scale_id})
    if (id % form.scales != 0)
      return error(bits, "scale factor id {} with .scale_vec::{}X: it must be {}", id, form.scales,
                   form.scales == 2 ? "0 or 2" : "0");
  return {};
}

Status check_weight_stationary_shape(std::uint32_t bits, const MmaForm& form,
                                     const InstructionDescriptor& descriptor) {
  const std::uint32_t m = descriptor.m;
  const std::uint32_t n = descriptor.n;
  if (m != 32 && m != 64 && m != 128) return error(bits, "M = {} is not 32, 64 or 128 (mma.ws)", m);
  if (n != 64 && n != 128 && n != 256) return error(bits, "N = {} is not 64, 128 or 256 (mma.ws)", n);
  if (form.a_in_tensor_memory && m != 128)
    return error(bits, "A in tensor memory with M = {} (mma.ws): where it lies is not documented", m);
  return {};
}

Status check_shape(std::uint32_t bits, const MmaForm& form, const InstructionDescriptor& descriptor) {
  if (form.weight_stationary) return check_weight_stationary_shape(bits, form, descriptor);
  const std::uint32_t m = descriptor.m;
  const std::uint32_t n = descriptor.n;
  if (form.sparse && is_block_scaled(form.kind) && form.cta_group == 2 && m == 128)
    return error(bits,
                 "M = 128 of a pair of CTAs (sparse, block scales): where factors of B lie is not known");
  if (is_block_scaled(form.kind) && form.cta_group == 1) {
    if (m != 128) return error(bits, "M = {} is not 128 (block scales, cta_group::1)", m);
  } else if (form.cta_group == 1 ? (m != 64 && m != 128) : (m != 128 && m != 256)) {
    return error(bits, "M = {} is not {} (cta_group::{})", m,
                 form.cta_group == 1 ? "64 or 128" : "128 or 256", form.cta_group);
  }
  const bool wide_steps = form.kind == MmaKind::kI8 && n > 32;
  const std::uint32_t n_step = (form.cta_group == 1 ? 8 : 16) * (wide_steps ? 2 : 1);
  if (n < n_step || n > 256 || n % n_step != 0) {
    return error(bits, "N = {} is not a multiple of {} from {} to 256 (cta_group::{})", n, n_step, n_step,
                 form.cta_group);
  }
  return {};
}

}  // namespace

Result<InstructionDescriptor> decode_instruction_descriptor(std::uint32_t bits, const MmaForm& form) {
  InstructionDescriptor descriptor;
  Status status = decode_sparsity(bits, form, descriptor);
  if (!status.ok()) return status;
  status = is_block_scaled(form.kind) ? decode_scaled(bits, form, descriptor)
                                      : decode_unscaled(bits, form.kind, descriptor);
  if (status.ok()) status = decode_types(bits, form, descriptor);
  if (!status.ok()) return status;
  descriptor.negate_a = field(bits, 13, 13) != 0;
  descriptor.negate_b = field(bits, 14, 14) != 0;
  descriptor.a_major = static_cast<MatrixMajor>(field(bits, 15, 15));
  descriptor.b_major = static_cast<MatrixMajor>(field(bits, 16, 16));
  descriptor.n = field(bits, 22, 17) << 3;
  descriptor.m = field(bits, 28, 24) << 4;

  if (descriptor.d_type == MmaAccumulator::kF16 &&
      (descriptor.a_type == MmaElement::kBF16 || descriptor.b_type == MmaElement::kBF16)) {
    return error(bits, "D of type f16 needs A and B of type f16");
  }
  if (form.kind == MmaKind::kI8 && (descriptor.negate_a || descriptor.negate_b))
    return error(bits, "negation (bits 14:13) is for floating-point kinds");
  if (form.a_in_tensor_memory && descriptor.a_major != MatrixMajor::kK)
    return error(bits, "A in tensor memory must be K-major (bit 15 = 0)");
  if (is_packed_f4(form.kind) &&
      (descriptor.a_major != MatrixMajor::kK || descriptor.b_major != MatrixMajor::kK))
    return error(bits, "operands of packed 4-bit elements must be K-major (bits 16:15 = 0)");
  if (status = check_shape(bits, form, descriptor); !status.ok()) return status;
  return descriptor;
}

}  // namespace jfa::simulator
