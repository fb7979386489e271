// The inner loop of the tensor core model, in a translation unit of its own so that it is optimised whatever
// the build type, with a wider version chosen at run time.
#pragma once

#include <cstdint>

namespace jfa::simulator {

/// Columns of D that one call of the kernel computes.
constexpr int kMmaBlock = 16;

// Exponents of elements that are no finite number, so large that no sum with one looks like a finite
// exponent, and of zeros, so small that no sum with one is ever the largest.
constexpr std::int16_t kNotFiniteExponent = 16000;
constexpr std::int16_t kZeroExponent = -8000;

// Between these largest exponents, single-precision arithmetic gives the exact aligned terms.
constexpr std::int16_t kFastExponentMin = -60;
constexpr std::int16_t kFastExponentMax = 120;

/// Whether a column with this largest exponent is one the kernel computes. Below every real exponent all
/// terms are zero, and so is the sum.
constexpr bool is_fast_exponent(std::int16_t largest) {
  return (largest >= kFastExponentMin && largest <= kFastExponentMax) || largest < -1000;
}

/// One row of D against kMmaBlock columns. a_value and a_exponent hold 16 elements; b_value and b_exponent
/// have kMmaBlock columns at b_stride per k; d holds f32 bits.
///
/// Writes into `largest` each column's largest exponent among products and accumulator (zeros aside). If none
/// is above kFastExponentMax, columns with a fast exponent become the result and true is returned. All other
/// columns are left as they were, for the caller to compute.
bool mma_row_block(const float* a_value, const std::int16_t* a_exponent, const float* b_value,
                   const std::int16_t* b_exponent, std::int64_t b_stride, std::uint32_t* d,
                   std::int16_t* largest);

}  // namespace jfa::simulator
