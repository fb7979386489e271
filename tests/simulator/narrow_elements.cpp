#include "tests/simulator/narrow_elements.h"

#include "simulator/tensor_core/matrix_descriptor.h"

namespace jfa::test {

using namespace simulator;

const FloatFormat& float_format(MmaElement type) {
  switch (type) {
    case MmaElement::kE5M2:
      return kE5m2;
    case MmaElement::kE2M3:
      return kE2m3;
    case MmaElement::kE3M2:
      return kE3m2;
    case MmaElement::kE2M1:
      return kE2m1;
    default:
      return kE4m3;
  }
}

std::uint32_t type_code(MmaElement type, MmaKind kind) {
  if (is_packed_f4(kind)) return 1;
  switch (type) {
    case MmaElement::kE5M2:
      return 1;
    case MmaElement::kE2M3:
      return 3;
    case MmaElement::kE3M2:
      return 4;
    case MmaElement::kE2M1:
      return 5;
    default:
      return 0;
  }
}

void store_element(std::vector<std::byte>& image, MmaKind kind, MmaElement type, MatrixMajor major,
                   std::uint64_t descriptor, std::uint32_t row, std::uint32_t k, std::uint32_t bits) {
  const MatrixDescriptor decoded = *decode_matrix_descriptor(descriptor);
  std::uint32_t bit;  // in the image
  if (is_packed_f4(kind)) {
    bit = element_address(decoded, major, row, k / 2, 1) * 8 + k % 2 * 4;
  } else {
    const std::uint32_t place = major == MatrixMajor::kK ? k % 16 : row % 16;
    bit = chunk_address(decoded, major, row, k, 1) * 8 + place * element_bits(type);
  }
  for (std::uint32_t i = 0; i < element_bits(type); ++i)
    if ((bits >> i & 1) != 0) image[(bit + i) / 8] |= std::byte{1} << (bit + i) % 8;
}

void store_tensor_element(std::uint32_t* cells, MmaKind kind, MmaElement type, std::uint32_t k,
                          std::uint32_t bits) {
  const std::uint32_t width = is_packed_f4(kind) ? 4 : 8, per_cell = 32 / width;
  const std::uint32_t up = width - element_bits(type) == 4 ? 2 : 0;  // e2m1 in a byte
  std::uint32_t& cell = cells[k / per_cell];
  const std::uint32_t at = k % per_cell * width;
  cell = (cell & ~(((1u << width) - 1) << at)) | bits << (at + up);
}

double small_value(std::mt19937& random, MmaElement type) {
  static constexpr double kValues[] = {0, 0.5, 1, 1.5, 2, 3, 4, 6};
  const double value = kValues[random() % (type == MmaElement::kE2M3 ? 7 : 8)];
  return (random() & 1) != 0 ? -value : value;
}

}  // namespace jfa::test
