#include "simulator/tensor_core/mma_number.h"

#include <algorithm>
#include <bit>

namespace jfa::simulator {
namespace {

constexpr int kF32ZeroExponent = -126;

}  // namespace

MmaNumber unpack(std::uint32_t bits, MmaFormat format) {
  const std::uint32_t fraction = bits & ((1u << format.fraction_bits) - 1);
  const std::uint32_t highest = (1u << format.exponent_bits) - 1;
  const std::uint32_t biased = (bits >> format.fraction_bits) & highest;
  const int bias = (1 << (format.exponent_bits - 1)) - 1;
  MmaNumber number;
  number.negative = ((bits >> (format.exponent_bits + format.fraction_bits)) & 1) != 0;
  if (biased == highest && format.has_specials) {
    number.kind = fraction == 0 ? MmaNumber::kInfinite : MmaNumber::kNan;
  } else if (biased == 0 && fraction == 0) {
    number.exponent = kF32ZeroExponent;
  } else {
    number.exponent = static_cast<std::int16_t>(static_cast<int>(biased == 0 ? 1 : biased) - bias);
    number.significand = biased == 0 ? fraction : fraction | (1u << format.fraction_bits);
  }
  return number;
}

MmaNumber unpack(MmaElement type, std::uint32_t bits) {
  switch (type) {
    case MmaElement::kE4M3: {  // no infinity; its largest exponent is an ordinary one but for S.1111.111
      if ((bits & 0x7f) == 0x7f) return {MmaNumber::kNan, false, 0, 0};
      if ((bits & 0x78) != 0x78) return unpack(bits, mma_format(type));
      return {MmaNumber::kFinite, (bits & 0x80) != 0, 8, 8 | (bits & 7)};
    }
    case MmaElement::kTF32:
      return unpack(bits >> 13, mma_format(type));  // the low bits are not looked at
    default:
      return unpack(bits, mma_format(type));
  }
}

MmaNumber unpack_scale(ScaleType type, std::uint8_t bits) {
  constexpr int kFractionBits = 3;
  if (type == ScaleType::kUe8m0) {
    if (bits == 0xff) return {MmaNumber::kNan, false, 0, 0};
    return {MmaNumber::kFinite, false, static_cast<std::int16_t>(bits - 127), 1u << kFractionBits};
  }
  MmaNumber scale = unpack(MmaElement::kE4M3, bits & 0x7fu);
  while (scale.significand != 0 && scale.significand < 1u << kFractionBits) {
    scale.significand <<= 1;
    --scale.exponent;
  }
  return scale;
}

std::uint32_t pack(const AlignedSum& value, MmaFormat format, bool nearest) {
  const int exponent_bits = format.exponent_bits;
  const int target_fraction_bits = format.fraction_bits;
  const int bias = (1 << (exponent_bits - 1)) - 1;
  const std::uint32_t infinity = ((1u << exponent_bits) - 1) << target_fraction_bits;
  const std::uint32_t sign_bit = 1u << (exponent_bits + target_fraction_bits);
  if (value.kind == AlignedSum::kNan) return sign_bit - 1;
  if (value.kind == AlignedSum::kPositiveInfinity) return infinity;
  if (value.kind == AlignedSum::kNegativeInfinity) return infinity | sign_bit;
  if (value.sum == 0) return 0;
  const std::uint32_t sign = value.sum < 0 ? sign_bit : 0;
  const auto magnitude = static_cast<std::uint64_t>(value.sum < 0 ? -value.sum : value.sum);
  // The leading bit of magnitude has the weight 2^leading.
  const int leading = std::bit_width(magnitude) - 1 + value.exponent - value.aligned_bits;
  // The result is a multiple of 2^unit.
  const int unit = std::max(leading, 1 - bias) - target_fraction_bits;
  const int drop =
      unit - (value.exponent - value.aligned_bits);  // low bits of magnitude that are rounded away
  std::uint64_t kept;
  if (drop <= 0) {
    kept = magnitude << -drop;
  } else if (drop >= 64) {
    kept = 0;
  } else {
    kept = magnitude >> drop;
    const std::uint64_t rest = magnitude & ((std::uint64_t{1} << drop) - 1);
    const std::uint64_t half = std::uint64_t{1} << (drop - 1);
    if (nearest && (rest > half || (rest == half && (kept & 1) != 0))) ++kept;
  }
  // Without its implicit bit, kept adds onto the exponent field; a carry out of rounding lands right by
  // itself.
  const int exponent_field = unit + target_fraction_bits + bias;  // at least 1
  const std::uint64_t packed =
      (static_cast<std::uint64_t>(exponent_field - 1) << target_fraction_bits) + kept;
  return packed >= infinity ? infinity | sign : static_cast<std::uint32_t>(packed) | sign;
}

}  // namespace jfa::simulator
