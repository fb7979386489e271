// The arithmetic of one tensor core step, D = A * B + D over 32 bytes of K (16 elements of 16 bits, 8 of
// tf32, 32 of 8 bits), bit for bit as published (arXiv 2511.10909): per element of D, the products and the
// accumulator are aligned to the largest exponent among them, truncated to 25 fractional bits (13 for FP8 on
// Hopper's wgmma), summed exactly, and rounded once: toward zero to f32, to nearest even to f16. Integer
// products are exact and wrap, or saturate.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "simulator/tensor_core/matrix_descriptor.h"
#include "simulator/tensor_core/mma_elements.h"
#include "simulator/tensor_core/mma_kernel.h"
#include "simulator/tensor_core/mma_number.h"

namespace jfa::simulator {

constexpr int kMmaK = 16;
constexpr int kMmaMostColumns = 256;

/// The canonical NaN of f32 and f16 results.
constexpr std::uint32_t kMmaNanF32 = 0x7fffffff;
constexpr std::uint16_t kMmaNanF16 = 0x7fff;

/// How a sum is rounded: fraction bits that the aligned terms keep, and those that an f32 result has.
struct MmaPrecision {
  int aligned_bits = 25;
  int result_bits = 23;
};
constexpr MmaPrecision kHopperFp8Precision{13, 13};

/// The definition for 16-bit types, one element at a time: a[k], b[k] raw elements, c the accumulator's bits.
/// A NaN, an infinity times zero, or infinities of both signs give the canonical NaN; overflow gives
/// infinity; an exact zero is +0.
std::uint32_t dot_accumulate_f32(MmaElement a_type, MmaElement b_type, const std::uint16_t* a,
                                 const std::uint16_t* b, std::uint32_t c);
/// The same for f16 accumulators (and f16 operands).
std::uint16_t dot_accumulate_f16(const std::uint16_t* a, const std::uint16_t* b, std::uint16_t c);

/// Flips the signs of floating-point elements, in rows of 16 words; elements of 4 or 6 bits have a byte each.
void negate_elements(MmaElement type, std::span<std::uint16_t> rows);

/// The operands of one step as the loops want them. A row of an operand is 32 bytes: 16 words.
class MmaOperands {
 public:
  /// a holds m rows, b holds n rows (columns of B), up to kMmaMostColumns.
  void load(MmaElement a_type, MmaElement b_type, std::span<const std::uint16_t> a,
            std::span<const std::uint16_t> b, MmaPrecision precision = {});

  /// Block scales, ue8m0, one for each row of A and of B: of kinds f8f6f4 only, after load.
  void scale(std::span<const std::uint8_t> a_scales, std::span<const std::uint8_t> b_scales);

  int m() const { return static_cast<int>(a_.size()) / kMmaK; }
  int n() const { return n_; }

  /// Replaces d_row[0 … n) of row m by the step's result; d_row holds the f32 accumulators' bits, and zeros
  /// for D = A * B.
  void accumulate_row_f32(int m, std::uint32_t* d_row) const;
  /// The same with f16 accumulators in the low halves; the high halves become 0.
  void accumulate_row_f16(int m, std::uint32_t* d_row) const;
  /// The same with s32 accumulators, for kU8 and kS8.
  void accumulate_row_s32(int m, std::uint32_t* d_row, bool saturate) const;
  /// The one of the three that the accumulator's type names.
  void accumulate_row(MmaAccumulator type, int m, std::uint32_t* d_row, bool saturate = false) const;
  /// What accumulate_row_f32 makes of c in column n, by the definition, one term at a time.
  std::uint32_t dot_f32(int m, int n, std::uint32_t c) const;
  /// Another kernel for accumulate_row_f32, one of mma_row_kernels(); for tests.
  void use_kernel(MmaRowKernelChoice choice) { kernel_ = choice; }

 private:
  bool is_16_bit() const { return element_bytes(a_type_) == 2; }
  int elements() const { return static_cast<int>(kMmaStepBytes / element_bytes(a_type_)); }
  void transpose_b();
  void accumulate_blocks(int m, int first, int columns, std::uint32_t* d) const;

  MmaElement a_type_ = MmaElement::kF16;
  MmaElement b_type_ = MmaElement::kF16;
  MmaPrecision precision_;
  MmaRowKernelChoice kernel_ = mma_row_kernel;
  int n_ = 0;
  int padded_n_ = 0;              // n rounded up to a whole block of columns
  std::vector<std::uint16_t> a_;  // [m][16], as loaded
  std::vector<std::uint16_t> b_;  // [n][16], as loaded
  MmaElements a_elements_;        // [m][elements]
  MmaElements b_elements_;        // [n][elements]
  MmaElements b_by_element_;      // [elements][padded_n]
};

}  // namespace jfa::simulator
