#include "simulator/mma_kernel.h"

#include <algorithm>
#include <bit>

#include "simulator/vector_clones.h"

namespace jfa::simulator {

// An aligned term is trunc(product * 2^(25 - largest)), an integer below 2^27 in magnitude. Both operands
// have at most 11 significant bits, so the product is exact in f32; scaling by a power of two is exact, or
// the term is 0 anyway; and conversion to int truncates toward zero: four operations a term.
JFA_VECTOR_CLONES
bool mma_row_block(const float* a_value, const std::int16_t* a_exponent, const float* b_value,
                   const std::int16_t* b_exponent, std::int64_t b_stride, std::uint32_t* d,
                   std::int16_t* largest) {
  constexpr int kFraction = 25;
  constexpr int kHalf = 8;

  std::int16_t top[kMmaBlock];
  for (int j = 0; j < kMmaBlock; ++j) {
    // The accumulator's exponent; subnormals count as -126, infinities and NaN as 128.
    const int biased = static_cast<int>((d[j] >> 23) & 0xff);
    top[j] = static_cast<std::int16_t>((d[j] << 1) == 0 ? kZeroExponent : std::max(biased, 1) - 127);
  }
  for (int k = 0; k < 2 * kHalf; ++k) {
    const std::int16_t* row = b_exponent + k * b_stride;
    for (int j = 0; j < kMmaBlock; ++j) {
      const auto sum = static_cast<std::int16_t>(a_exponent[k] + row[j]);
      top[j] = std::max(top[j], sum);
    }
  }
  std::int16_t highest = top[0];
  for (int j = 0; j < kMmaBlock; ++j) {
    highest = std::max(highest, top[j]);
    largest[j] = top[j];
  }
  if (highest > kFastExponentMax) return false;  // some column would overflow the int conversions

  float scale[kMmaBlock];
  double unscale[kMmaBlock];
  std::int32_t low[kMmaBlock];
  std::int32_t high[kMmaBlock];
  for (int j = 0; j < kMmaBlock; ++j) {
    const int exponent = std::max<int>(top[j], kFastExponentMin);
    scale[j] = std::bit_cast<float>(static_cast<std::uint32_t>(kFraction - exponent + 127) << 23);
    unscale[j] = std::bit_cast<double>(static_cast<std::uint64_t>(exponent - kFraction + 1023) << 52);
    // The accumulator of a column below the fast range may be anything small; its result is thrown away.
    low[j] = static_cast<std::int32_t>(std::bit_cast<float>(d[j]) * scale[j]);
    high[j] = 0;
  }
  // Eight terms fit an int32, sixteen do not.
  for (int k = 0; k < kHalf; ++k) {
    const float* low_row = b_value + k * b_stride;
    const float* high_row = b_value + (k + kHalf) * b_stride;
    for (int j = 0; j < kMmaBlock; ++j) {
      low[j] += static_cast<std::int32_t>(a_value[k] * low_row[j] * scale[j]);
      high[j] += static_cast<std::int32_t>(a_value[k + kHalf] * high_row[j] * scale[j]);
    }
  }
  // The sum is exact in double; clearing its low 29 fraction bits rounds toward zero to 24 significant bits.
  for (int j = 0; j < kMmaBlock; ++j) {
    const double sum = static_cast<double>(low[j]) + static_cast<double>(high[j]);
    const auto truncated =
        std::bit_cast<double>(std::bit_cast<std::uint64_t>(sum) & ~((std::uint64_t{1} << 29) - 1));
    const auto result = std::bit_cast<std::uint32_t>(static_cast<float>(truncated * unscale[j]));
    d[j] = is_fast_exponent(top[j]) ? result : d[j];
  }
  return true;
}

}  // namespace jfa::simulator
