#include "simulator/machine/float_format.h"

#include <algorithm>

namespace jfa::simulator {

double decode_float(std::uint32_t bits, const FloatFormat& f) {
  const int top = (1 << f.exponent_bits) - 1;
  const std::uint32_t mantissa_mask = (1u << f.mantissa_bits) - 1;
  const bool negative = (bits >> (f.total_bits() - 1) & 1) != 0;
  const int exponent = static_cast<int>(bits >> f.mantissa_bits) & top;
  const std::uint32_t mantissa = bits & mantissa_mask;
  double value;
  if (exponent == top && f.has_infinity) {
    value = mantissa == 0 ? INFINITY : NAN;
  } else if (exponent == top && f.has_nan && mantissa == mantissa_mask) {
    value = NAN;
  } else if (exponent == 0) {
    value = std::ldexp(static_cast<double>(mantissa), 1 - f.bias() - f.mantissa_bits);
  } else {
    value = std::ldexp(static_cast<double>(mantissa | (mantissa_mask + 1)),
                       exponent - f.bias() - f.mantissa_bits);
  }
  return negative ? -value : value;
}

std::uint32_t encode_float(double value, const FloatFormat& f, Rounding rounding, bool saturate) {
  const std::uint32_t top = (1u << f.exponent_bits) - 1;
  const std::uint32_t mantissa_mask = (1u << f.mantissa_bits) - 1;
  const std::uint32_t infinity = top << f.mantissa_bits;
  const std::uint32_t largest = f.has_infinity ? infinity - 1
                                : f.has_nan    ? (infinity | mantissa_mask) - 1
                                               : infinity | mantissa_mask;
  const bool negative = std::signbit(value);
  const std::uint32_t sign = std::uint32_t{negative} << (f.total_bits() - 1);
  // The device's NaN is 0x7fff… in every format that has one.
  if (std::isnan(value)) return f.has_nan ? infinity | mantissa_mask : largest;
  const double magnitude = std::fabs(value);
  if (magnitude == 0) return sign;
  if (std::isinf(value)) return sign | (f.has_infinity && !saturate ? infinity : largest);

  // Scale so that one unit of the result is 1.
  int exponent;
  std::frexp(magnitude, &exponent);  // magnitude in [2^(e-1), 2^e)
  const int smallest = 1 - f.bias();
  const int unit = std::max(exponent - 1, smallest) - f.mantissa_bits;
  const double scaled = std::ldexp(magnitude, -unit);
  double whole = std::floor(scaled);
  const double rest = scaled - whole;
  bool up = false;
  switch (rounding) {
    case Rounding::kNearest:
      up = rest > 0.5 || (rest == 0.5 && std::fmod(whole, 2) != 0);
      break;
    case Rounding::kNearestAway:
      up = rest >= 0.5;
      break;
    case Rounding::kZero:
      break;
    case Rounding::kDown:
      up = negative && rest > 0;
      break;
    case Rounding::kUp:
      up = !negative && rest > 0;
      break;
  }
  if (up) whole += 1;
  // Adding the integer to the biased exponent lets a carry out of the mantissa raise the exponent.
  const std::int64_t steps = static_cast<std::int64_t>(whole);
  const std::int64_t biased = unit + f.mantissa_bits - smallest;  // 0 for subnormals and the first binade
  const std::int64_t bits = (biased << f.mantissa_bits) + steps;
  if (bits <= static_cast<std::int64_t>(largest)) return sign | static_cast<std::uint32_t>(bits);
  const bool towards_zero = rounding == Rounding::kZero || (rounding == Rounding::kDown && !negative) ||
                            (rounding == Rounding::kUp && negative);
  return sign | (!f.has_infinity || saturate || towards_zero ? largest : infinity);
}

}  // namespace jfa::simulator
