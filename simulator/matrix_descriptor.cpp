#include "simulator/matrix_descriptor.h"

#include <fmt/format.h>

#include <optional>

namespace jfa::simulator {
namespace {

constexpr std::uint32_t kChunkBytes = 16;

template <class Word>
constexpr std::uint32_t field(Word bits, int high, int low) {
  return static_cast<std::uint32_t>((bits >> low) & ((Word{1} << (high - low + 1)) - 1));
}

template <class... Args>
Status descriptor_error(std::uint64_t bits, fmt::format_string<Args...> format, Args&&... args) {
  return Status::invalid_argument(fmt::format("shared-memory matrix descriptor 0x{:016x}: {}", bits,
                                              fmt::format(format, std::forward<Args>(args)...)));
}

template <class... Args>
Status instruction_error(std::uint32_t bits, fmt::format_string<Args...> format, Args&&... args) {
  return Status::invalid_argument(fmt::format("instruction descriptor 0x{:08x}: {}", bits,
                                              fmt::format(format, std::forward<Args>(args)...)));
}

// Offset before swizzling of element (mn, k) from the start address.
std::uint32_t linear_offset(const MatrixDescriptor& d, MatrixMajor major, std::uint32_t mn, std::uint32_t k,
                            std::uint32_t bytes) {
  const std::uint32_t width = d.swizzle_bytes;
  const std::uint32_t chunk = kChunkBytes / bytes;  // elements
  if (major == MatrixMajor::kK) {
    if (width == 0) {
      return (mn % 8) * kChunkBytes + (mn / 8) * d.stride_byte_offset + (k / chunk) * d.leading_byte_offset +
             (k % chunk) * bytes;
    }
    return (mn % 8) * width + (mn / 8) * d.stride_byte_offset + k * bytes;
  }
  if (width == 0) {
    return (mn % chunk) * bytes + (mn / chunk) * d.stride_byte_offset + (k % 8) * kChunkBytes +
           (k / 8) * d.leading_byte_offset;
  }
  const std::uint32_t atom = width / bytes;
  return (mn % atom) * bytes + (mn / atom) * d.leading_byte_offset + (k % 8) * width +
         (k / 8) * d.stride_byte_offset;
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
      if (code == 0) return MmaElement::kE4M3;
      if (code == 1) return MmaElement::kE5M2;
      break;
    case MmaKind::kI8:
      if (code == 0) return MmaElement::kU8;
      if (code == 1) return MmaElement::kS8;
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
      return "neither 0 (e4m3) nor 1 (e5m2); 6- and 4-bit elements are not supported";
    case MmaKind::kI8:
      return "neither 0 (u8) nor 1 (s8)";
  }
  return "";
}

}  // namespace

Result<MatrixDescriptor> decode_matrix_descriptor(std::uint64_t bits, DescriptorVersion version) {
  const bool sm90 = version == DescriptorVersion::kSm90;
  const std::uint32_t version_bits = field(bits, 48, 46);
  if (version_bits != (sm90 ? 0 : 1)) {
    return descriptor_error(bits, "bits 48:46 are {} and must be {} (the {} version)", version_bits,
                            sm90 ? 0 : 1, sm90 ? "sm_90" : "sm_100");
  }
  if (field(bits, 15, 14) != 0) return descriptor_error(bits, "reserved bits 15:14 are set");
  if (field(bits, 31, 30) != 0) return descriptor_error(bits, "reserved bits 31:30 are set");
  if (field(bits, 60, 53) != 0) return descriptor_error(bits, "reserved bits 60:53 are set");
  if (field(bits, 52, 52) != 0) {
    return descriptor_error(bits, "bit 52 (absolute leading-dimension address) needs an sm_103a K = 96 mma");
  }
  MatrixDescriptor descriptor;
  // Two bits on sm_90; the third that sm_100 puts below them must then be 0.
  const std::uint32_t swizzle = field(bits, 63, 61);
  switch (swizzle) {
    case 0:
      descriptor.swizzle_bytes = 0;
      break;
    case 2:
      descriptor.swizzle_bytes = 128;
      break;
    case 4:
      descriptor.swizzle_bytes = 64;
      break;
    case 6:
      descriptor.swizzle_bytes = 32;
      break;
    default:
      if (sm90) return descriptor_error(bits, "reserved bit 61 is set");
      if (swizzle == 1)
        return descriptor_error(bits, "swizzle 1 (128 bytes in 32-byte atoms) needs 32-bit elements");
      return descriptor_error(bits, "swizzle code {} (bits 63:61) does not exist", swizzle);
  }
  descriptor.start_address = field(bits, 13, 0) << 4;
  descriptor.leading_byte_offset = field(bits, 29, 16) << 4;
  descriptor.stride_byte_offset = field(bits, 45, 32) << 4;
  descriptor.base_offset = field(bits, 51, 49);
  return descriptor;
}

std::uint32_t element_address(const MatrixDescriptor& descriptor, MatrixMajor major, std::uint32_t mn,
                              std::uint32_t k, std::uint32_t bytes_per_element) {
  const std::uint32_t linear =
      descriptor.start_address + linear_offset(descriptor, major, mn, k, bytes_per_element);
  // 16-byte chunks swap places within a row by the row's number: address bits 6:4 ^= bits 9:7, as many of
  // them as the row has chunks (none for no swizzle).
  const std::uint32_t mask = descriptor.swizzle_bytes == 0 ? 0 : descriptor.swizzle_bytes / 16 - 1;
  return linear ^ ((((linear >> 7) - descriptor.base_offset) & mask) << 4);
}

std::uint32_t chunk_address(const MatrixDescriptor& descriptor, MatrixMajor major, std::uint32_t mn,
                            std::uint32_t k, std::uint32_t bytes_per_element) {
  const std::uint32_t within = ~(kChunkBytes / bytes_per_element - 1);
  return major == MatrixMajor::kK ? element_address(descriptor, major, mn, k & within, bytes_per_element)
                                  : element_address(descriptor, major, mn & within, k, bytes_per_element);
}

Result<InstructionDescriptor> decode_instruction_descriptor(std::uint32_t bits, int cta_group,
                                                            bool a_in_tensor_memory, MmaKind kind) {
  if (field(bits, 1, 0) != 0) return instruction_error(bits, "sparsity selector (bits 1:0) of a dense mma");
  if (field(bits, 2, 2) != 0) return instruction_error(bits, "sparse (bit 2) on a dense mma");
  if (field(bits, 3, 3) != 0 && kind != MmaKind::kI8)
    return instruction_error(bits, "saturate (bit 3) is for integer kinds");
  if (field(bits, 6, 6) != 0) return instruction_error(bits, "reserved bit 6 is set");
  if (field(bits, 23, 23) != 0) return instruction_error(bits, "reserved bit 23 is set");
  if (field(bits, 29, 29) != 0) return instruction_error(bits, "reserved bit 29 is set");
  if (field(bits, 31, 30) != 0) return instruction_error(bits, "maximum shift (bits 31:30) is for mma.ws");

  const std::uint32_t d_type = field(bits, 5, 4);
  const std::optional<MmaElement> a_type = element_of(kind, field(bits, 9, 7));
  const std::optional<MmaElement> b_type = element_of(kind, field(bits, 12, 10));
  if (kind == MmaKind::kI8 ? d_type != 2 : kind == MmaKind::kTF32 ? d_type != 1 : d_type > 1)
    return instruction_error(bits, "D type {} is not {}", d_type,
                             kind == MmaKind::kI8     ? "2 (s32)"
                             : kind == MmaKind::kTF32 ? "1 (f32)"
                                                      : "0 (f16) or 1 (f32)");
  if (!a_type) return instruction_error(bits, "A type {} is {}", field(bits, 9, 7), element_codes(kind));
  if (!b_type) return instruction_error(bits, "B type {} is {}", field(bits, 12, 10), element_codes(kind));

  InstructionDescriptor descriptor;
  descriptor.d_type = static_cast<MmaAccumulator>(d_type);
  descriptor.a_type = *a_type;
  descriptor.b_type = *b_type;
  descriptor.saturate = field(bits, 3, 3) != 0;
  descriptor.negate_a = field(bits, 13, 13) != 0;
  descriptor.negate_b = field(bits, 14, 14) != 0;
  descriptor.a_major = static_cast<MatrixMajor>(field(bits, 15, 15));
  descriptor.b_major = static_cast<MatrixMajor>(field(bits, 16, 16));
  descriptor.n = field(bits, 22, 17) << 3;
  descriptor.m = field(bits, 28, 24) << 4;

  if (descriptor.d_type == MmaAccumulator::kF16 &&
      (*a_type == MmaElement::kBF16 || *b_type == MmaElement::kBF16)) {
    return instruction_error(bits, "D of type f16 needs A and B of type f16");
  }
  if (kind == MmaKind::kI8 && (descriptor.negate_a || descriptor.negate_b))
    return instruction_error(bits, "negation (bits 14:13) is for floating-point kinds");
  if (a_in_tensor_memory && descriptor.a_major != MatrixMajor::kK) {
    return instruction_error(bits, "A in tensor memory must be K-major (bit 15 = 0)");
  }
  const std::uint32_t m = descriptor.m;
  const std::uint32_t n = descriptor.n;
  if (cta_group == 1 ? (m != 64 && m != 128) : (m != 128 && m != 256)) {
    return instruction_error(bits, "M = {} is not {} (cta_group::{})", m,
                             cta_group == 1 ? "64 or 128" : "128 or 256", cta_group);
  }
  const bool wide_steps = kind == MmaKind::kI8 && n > 32;
  const std::uint32_t n_step = (cta_group == 1 ? 8 : 16) * (wide_steps ? 2 : 1);
  if (n < n_step || n > 256 || n % n_step != 0) {
    return instruction_error(bits, "N = {} is not a multiple of {} from {} to 256 (cta_group::{})", n, n_step,
                             n_step, cta_group);
  }
  return descriptor;
}

}  // namespace jfa::simulator
