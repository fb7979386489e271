// The arithmetic of one tensor core step: D = A * B + D with K = 16, bit for bit as published for Blackwell
// (arXiv 2511.10909): per element of D, the 16 products and the accumulator are aligned to the largest
// exponent among them, truncated to 25 fractional bits, summed exactly, and rounded once: toward zero to f32,
// to nearest even to f16.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "simulator/matrix_descriptor.h"

namespace jfa::simulator {

constexpr int kMmaK = 16;

/// The canonical NaN of f32 and f16 results.
constexpr std::uint32_t kMmaNanF32 = 0x7fffffff;
constexpr std::uint16_t kMmaNanF16 = 0x7fff;

/// The definition, one element at a time: a[k], b[k] raw 16-bit elements, c the accumulator's bits. A NaN, an
/// infinity times zero, or infinities of both signs give the canonical NaN; overflow gives infinity; an exact
/// zero is +0.
std::uint32_t dot_accumulate_f32(MmaElement a_type, MmaElement b_type, const std::uint16_t* a,
                                 const std::uint16_t* b, std::uint32_t c);
/// The same for f16 accumulators (and f16 operands).
std::uint16_t dot_accumulate_f16(const std::uint16_t* a, const std::uint16_t* b, std::uint16_t c);

/// The operands of one step as the vector loops want them: values beside exponents.
class MmaOperands {
 public:
  /// a holds m rows of 16 elements, b holds n rows (columns of B) of 16 elements.
  void load(MmaElement a_type, MmaElement b_type, std::span<const std::uint16_t> a,
            std::span<const std::uint16_t> b);

  int m() const { return static_cast<int>(a_.size()) / kMmaK; }
  int n() const { return n_; }

  /// Replaces d_row[0 … n) of row m by the step's result; d_row holds the f32 accumulators' bits, and zeros
  /// for D = A * B.
  void accumulate_row_f32(int m, std::uint32_t* d_row) const;
  /// The same with f16 accumulators in the low halves; the high halves become 0.
  void accumulate_row_f16(int m, std::uint32_t* d_row) const;

 private:
  MmaElement a_type_ = MmaElement::kF16;
  MmaElement b_type_ = MmaElement::kF16;
  int n_ = 0;
  int padded_n_ = 0;                      // n rounded up to a whole block of columns
  std::vector<std::uint16_t> a_;          // [m][16], as loaded
  std::vector<std::uint16_t> b_;          // [n][16], as loaded
  std::vector<float> a_value_;            // [m][16]
  std::vector<std::int16_t> a_exponent_;  // [m][16]
  std::vector<float> b_value_;            // [16][padded_n]
  std::vector<std::int16_t> b_exponent_;  // [16][padded_n]
};

}  // namespace jfa::simulator
