// Binary floating-point formats of up to 32 bits: to and from double, with every rounding mode PTX has.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

namespace jfa::simulator {

struct FloatFormat {
  int exponent_bits;
  int mantissa_bits;
  bool has_infinity = true;  // else the top exponent holds numbers, and NaN (if any) is all ones
  bool has_nan = true;
  int total_bits() const { return 1 + exponent_bits + mantissa_bits; }
  int bias() const { return (1 << (exponent_bits - 1)) - 1; }
};

inline constexpr FloatFormat kFloat32{8, 23};
inline constexpr FloatFormat kFloat16{5, 10};
inline constexpr FloatFormat kBfloat16{8, 7};
inline constexpr FloatFormat kTensorFloat32{8, 10};
inline constexpr FloatFormat kE5m2{5, 2};
inline constexpr FloatFormat kE4m3{4, 3, false, true};
inline constexpr FloatFormat kE3m2{3, 2, false, false};
inline constexpr FloatFormat kE2m3{2, 3, false, false};
inline constexpr FloatFormat kE2m1{2, 1, false, false};

enum class Rounding : std::uint8_t { kNearest, kZero, kDown, kUp, kNearestAway };

/// The value of a bit pattern, exactly.
double decode_float(std::uint32_t bits, const FloatFormat& format);

/// Rounds to the format. Overflow: by the rounding mode to infinity or the largest number; `saturate`: always
/// to the largest number; formats without infinity saturate. NaN: the canonical one (0x7fff… as the device
/// makes it; the largest number where the format has none).
std::uint32_t encode_float(double value, const FloatFormat& format, Rounding rounding, bool saturate = false);

/// a·b + c in a double whose last bit is sticky (round to odd): a second rounding of it to 24 bits or fewer
/// is correct. For factors of at most 24 bits.
inline double fma_round_to_odd(double a, double b, double c) {
  const double product = a * b;  // exact
  const double sum = product + c;
  const double back = sum - product;
  const double error = (product - (sum - back)) + (c - back);  // Knuth's two-sum: sum + error is exact
  if (error == 0 || !std::isfinite(sum)) return sum;
  std::uint64_t bits = std::bit_cast<std::uint64_t>(sum);
  if ((bits & 1) == 0) bits += (error > 0) == (sum > 0) ? 1 : ~std::uint64_t{0};
  return std::bit_cast<double>(bits);
}

inline float flush_to_zero(float value) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(value);
  return (bits & 0x7f80'0000u) == 0 ? std::bit_cast<float>(bits & 0x8000'0000u) : value;
}

}  // namespace jfa::simulator
