// The 64-bit shared-memory matrix descriptor of tensor core instructions: where an operand's elements lie.
#pragma once

#include <cstdint>

#include "base/status.h"

namespace jfa::simulator {

/// How an operand is stored: K-major rows run along k, MN-major rows along m (of A) or n (of B).
enum class MatrixMajor : std::uint8_t { kK, kMN };

/// The element types of products. Names and order are the simulator's; encodings differ by kind.
enum class MmaElement : std::uint8_t { kF16, kBF16, kTF32, kE4M3, kE5M2, kE2M3, kE3M2, kE2M1, kU8, kS8 };
enum class MmaAccumulator : std::uint8_t { kF16 = 0, kF32 = 1, kS32 = 2 };
/// One step of a product covers 32 bytes of K of each operand, whatever the type.
inline constexpr std::uint32_t kMmaStepBytes = 32;

constexpr std::uint32_t element_bits(MmaElement element) {
  switch (element) {
    case MmaElement::kTF32:
      return 32;
    case MmaElement::kF16:
    case MmaElement::kBF16:
      return 16;
    case MmaElement::kE2M3:
    case MmaElement::kE3M2:
      return 6;
    case MmaElement::kE2M1:
      return 4;
    default:
      return 8;
  }
}

/// Of the memory that an element takes, on average: 16 elements of 6 or 4 bits are packed into the first
/// bytes of a 16-byte chunk.
constexpr std::uint32_t element_bytes(MmaElement element) {
  return element_bits(element) <= 8 ? 1 : element_bits(element) / 8;
}

/// Where the 16-byte chunks of one operand lie in shared memory.
/// Addresses and offsets are bytes in the CTA's own shared window (18 bits), multiples of 16.
struct MatrixDescriptor {
  std::uint32_t start_address = 0;
  std::uint32_t leading_byte_offset = 0;  ///< LBO
  std::uint32_t stride_byte_offset = 0;   ///< SBO
  std::uint32_t base_offset = 0;          ///< phase of the swizzle pattern's start, 0 … 7
  std::uint32_t swizzle_bytes = 0;        ///< width of the swizzled row: 0 (none), 32, 64 or 128
  std::uint32_t swizzle_atom_bytes = 16;  ///< what changes places as one: 16, or 32 of 128 bytes
};

/// The two encodings of the descriptor: of wgmma, and of tcgen05.
enum class DescriptorVersion : std::uint8_t { kSm90, kSm100 };

/// Decodes the descriptor of an operand. Errors name the field: version (bits 48:46) not 1 (not 0 for sm_90),
/// reserved bits set, an absolute leading offset (bit 52), a swizzle code that does not exist.
Result<MatrixDescriptor> decode_matrix_descriptor(std::uint64_t bits,
                                                  DescriptorVersion version = DescriptorVersion::kSm100);

/// Byte address of the 16-byte chunk that holds element (mn, k) of an operand, k within one step. Chunks run
/// along k for K-major operands, along mn for MN-major ones.
std::uint32_t chunk_address(const MatrixDescriptor& descriptor, MatrixMajor major, std::uint32_t mn,
                            std::uint32_t k, std::uint32_t bytes_per_element = 2);

/// Byte address of element (mn, k) of an operand, k within one step: 0 … 32 / bytes_per_element - 1.
std::uint32_t element_address(const MatrixDescriptor& descriptor, MatrixMajor major, std::uint32_t mn,
                              std::uint32_t k, std::uint32_t bytes_per_element = 2);

}  // namespace jfa::simulator
