// Elements of operands as they lie in memory, and decoded: by value and exponent for the kernels of
// mma_kernel.h, and as numbers for the definition.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "simulator/tensor_core/mma_number.h"

namespace jfa::simulator {

/// Element `index` of words that hold elements of the type, which is a byte for those of 4, 6 and 8 bits.
constexpr std::uint32_t element_of(MmaElement type, const std::uint16_t* words, std::size_t index) {
  switch (element_bytes(type)) {
    case 1:
      return words[index / 2] >> 8 * (index % 2) & 0xff;
    case 2:
      return words[index];
    default:
      return words[2 * index] | std::uint32_t{words[2 * index + 1]} << 16;
  }
}

struct MmaElements {
  std::vector<float> value;            // as MmaRow wants it
  std::vector<std::int16_t> exponent;  // too
  std::vector<MmaNumber> number;       // of other types than those of 16 bits

  std::size_t size() const { return value.size(); }
  /// Decodes floating-point elements, in their order.
  void decode(MmaElement type, std::span<const std::uint16_t> words);
  /// Multiplies element i by the ue8m0 scale i / elements_per_scale.
  void scale(std::span<const std::uint8_t> scales, std::size_t elements_per_scale);
  /// From `rows` rows of elements to one of `padded_rows` for each element; what fills it up are zeros.
  /// Without numbers.
  void transpose(const MmaElements& from, std::size_t rows, std::size_t padded_rows);
};

}  // namespace jfa::simulator
