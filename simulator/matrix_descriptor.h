// The two descriptors a tensor core instruction takes, decoded and checked: the 64-bit shared-memory matrix
// descriptor (where an operand's elements lie) and the 32-bit instruction descriptor of tcgen05.mma.
#pragma once

#include <cstdint>

#include "jfa/status.h"

namespace jfa::simulator {

/// How an operand is stored: K-major rows run along k, MN-major rows along m (of A) or n (of B).
enum class MatrixMajor : std::uint8_t { kK, kMN };

/// The element types of products. Names and order are the simulator's; encodings differ by kind.
enum class MmaElement : std::uint8_t { kF16, kBF16, kTF32, kE4M3, kE5M2, kU8, kS8 };
enum class MmaAccumulator : std::uint8_t { kF16 = 0, kF32 = 1, kS32 = 2 };
/// What an instruction multiplies: the `.kind` of tcgen05.mma.
enum class MmaKind : std::uint8_t { kF16, kTF32, kF8F6F4, kI8 };

/// One step of a product covers 32 bytes of K of each operand, whatever the type.
inline constexpr std::uint32_t kMmaStepBytes = 32;

constexpr std::uint32_t element_bytes(MmaElement element) {
  switch (element) {
    case MmaElement::kF16:
    case MmaElement::kBF16:
      return 2;
    case MmaElement::kTF32:
      return 4;
    default:
      return 1;
  }
}

/// Where the 16-byte chunks of one operand lie in shared memory.
/// Addresses and offsets are bytes in the CTA's own shared window (18 bits), multiples of 16.
struct MatrixDescriptor {
  std::uint32_t start_address = 0;
  std::uint32_t leading_byte_offset = 0;  ///< LBO
  std::uint32_t stride_byte_offset = 0;   ///< SBO
  std::uint32_t base_offset = 0;          ///< phase of the swizzle pattern's start, 0 … 7
  std::uint32_t swizzle_bytes = 0;        ///< width of the swizzled row: 0 (none), 32, 64 or 128
};

/// The two encodings of the descriptor: of wgmma, and of tcgen05.
enum class DescriptorVersion : std::uint8_t { kSm90, kSm100 };

/// Decodes the descriptor of an operand. Errors name the field: version (bits 48:46) not 1 (not 0 for sm_90),
/// reserved bits set, an absolute leading offset (bit 52), a swizzle code that does not exist or is not
/// modelled (128 bytes in 32-byte atoms).
Result<MatrixDescriptor> decode_matrix_descriptor(std::uint64_t bits,
                                                  DescriptorVersion version = DescriptorVersion::kSm100);

/// Byte address of the 16-byte chunk that holds element (mn, k) of an operand, k within one step. Chunks run
/// along k for K-major operands, along mn for MN-major ones.
std::uint32_t chunk_address(const MatrixDescriptor& descriptor, MatrixMajor major, std::uint32_t mn,
                            std::uint32_t k, std::uint32_t bytes_per_element = 2);

/// Byte address of element (mn, k) of an operand, k within one step: 0 … 32 / bytes_per_element - 1.
std::uint32_t element_address(const MatrixDescriptor& descriptor, MatrixMajor major, std::uint32_t mn,
                              std::uint32_t k, std::uint32_t bytes_per_element = 2);

/// The instruction descriptor of tcgen05.mma, dense. m and n are those of the whole instruction (of both CTAs
/// for cta_group::2).
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
};

/// Decodes and checks the descriptor. cta_group is 1 or 2; a_in_tensor_memory is the TS form, whose A must be
/// K-major. Errors name the field and its value.
Result<InstructionDescriptor> decode_instruction_descriptor(std::uint32_t bits, int cta_group,
                                                            bool a_in_tensor_memory,
                                                            MmaKind kind = MmaKind::kF16);

}  // namespace jfa::simulator
