#include "simulator/tensor_core/matrix_descriptor.h"

#include <fmt/format.h>

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
  const std::uint32_t rows = width / d.swizzle_atom_bytes;  // whose chunks change places differently
  const std::uint32_t group = d.swizzle_atom_bytes == kChunkBytes ? 8 : rows;
  return (mn % atom) * bytes + (mn / atom) * d.leading_byte_offset + (k % group) * width +
         (k / group) * d.stride_byte_offset;
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
      if (swizzle == 1) {
        descriptor.swizzle_bytes = 128;
        descriptor.swizzle_atom_bytes = 32;
        break;
      }
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
  // Chunks swap places within a row by the row's number: of 16 bytes, address bits 6:4 ^= bits 9:7, as many
  // of them as the row has chunks (none for no swizzle); of 32 bytes, bits 6:5 ^= bits 8:7.
  const std::uint32_t chunk = descriptor.swizzle_atom_bytes;
  const std::uint32_t mask = descriptor.swizzle_bytes == 0 ? 0 : descriptor.swizzle_bytes / chunk - 1;
  return linear ^ (((linear >> 7) - descriptor.base_offset) & mask) * chunk;
}

std::uint32_t chunk_address(const MatrixDescriptor& descriptor, MatrixMajor major, std::uint32_t mn,
                            std::uint32_t k, std::uint32_t bytes_per_element) {
  const std::uint32_t within = ~(kChunkBytes / bytes_per_element - 1);
  return major == MatrixMajor::kK ? element_address(descriptor, major, mn, k & within, bytes_per_element)
                                  : element_address(descriptor, major, mn & within, k, bytes_per_element);
}

}  // namespace jfa::simulator
