// Numbers inside the tensor core: taken apart, summed in fixed point, and put together again.
#pragma once

#include <algorithm>
#include <cstdint>

#include "simulator/tensor_core/matrix_descriptor.h"

namespace jfa::simulator {

/// A binary format by its fields; bits above its sign are ignored.
struct MmaFormat {
  int exponent_bits;
  int fraction_bits;
  bool has_specials = true;  // else the highest exponent is an ordinary one
};
inline constexpr MmaFormat kMmaF32{8, 23};
inline constexpr MmaFormat kMmaF16{5, 10};

constexpr MmaFormat mma_format(MmaElement type) {
  switch (type) {
    case MmaElement::kF16:
      return kMmaF16;
    case MmaElement::kBF16:
      return {8, 7};
    case MmaElement::kTF32:
      return {8, 10};
    case MmaElement::kE4M3:
      return {4, 3};
    case MmaElement::kE5M2:
      return {5, 2};
    case MmaElement::kE2M3:
      return {2, 3, false};
    case MmaElement::kE3M2:
      return {3, 2, false};
    case MmaElement::kE2M1:
      return {2, 1, false};
    case MmaElement::kU8:
    case MmaElement::kS8:
      break;
  }
  return {0, 8};
}

/// A finite number is (negative ? -1 : 1) * significand * 2^(exponent - fraction bits of its type).
/// Subnormals have the format's smallest exponent, zeros that of f32.
struct MmaNumber {
  enum Kind : std::uint8_t { kFinite, kInfinite, kNan } kind = kFinite;
  bool negative = false;
  std::int16_t exponent = 0;
  std::uint32_t significand = 0;
};

MmaNumber unpack(std::uint32_t bits, MmaFormat format);
MmaNumber unpack(MmaElement type, std::uint32_t bits);

/// Scale factors of blocks: a power of two, or an e4m3 whose sign is not looked at.
enum class ScaleType : std::uint8_t { kUe4m3 = 0, kUe8m0 = 1 };
/// A scale factor with three fraction bits, normalised; a zero has the smallest exponent.
MmaNumber unpack_scale(ScaleType type, std::uint8_t bits);

/// The exact sum of aligned, truncated terms, sum * 2^(exponent - aligned bits), or a special value.
struct AlignedSum {
  enum Kind : std::uint8_t { kFinite, kPositiveInfinity, kNegativeInfinity, kNan } kind = kFinite;
  std::int64_t sum = 0;
  int exponent = 0;
  int aligned_bits = 25;

  /// significand * 2^(term_exponent - fraction_bits) in units of the sum, cut toward zero. The term's
  /// exponent must not be above that of the sum.
  std::int64_t align(bool negative, std::uint64_t significand, int term_exponent, int fraction_bits) const {
    const int shift = exponent - term_exponent - (aligned_bits - fraction_bits);
    const auto magnitude =
        static_cast<std::int64_t>(shift <= 0 ? significand << -shift : significand >> std::min(shift, 63));
    return negative ? -magnitude : magnitude;
  }
};

/// Rounds a sum to a binary format; `nearest` to nearest even, else toward zero. The sum is below 2^62.
std::uint32_t pack(const AlignedSum& value, MmaFormat format, bool nearest);

}  // namespace jfa::simulator
