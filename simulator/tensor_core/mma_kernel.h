// The inner loop of the tensor core model: one row of D at a time, in vector code for the CPU at hand.
#pragma once

#include <cstdint>
#include <span>

namespace jfa::simulator {

/// Columns come in whole blocks.
constexpr int kMmaBlock = 32;

// Exponents of elements that are no finite number, so large that no sum with one looks like a finite
// exponent, and of zeros, so small that no sum with one is ever the largest.
constexpr std::int16_t kNotFiniteExponent = 16000;
constexpr std::int16_t kZeroExponent = -8000;

/// One row of A against columns of B, `elements` of each: finite numbers of at most 11 significant bits, 0.0f
/// for others, and beside each its exponent. B has an element of every column at `stride`.
struct MmaRow {
  const float* a_value = nullptr;
  const std::int16_t* a_exponent = nullptr;
  const float* b_value = nullptr;
  const std::int16_t* b_exponent = nullptr;
  std::int64_t stride = 0;
  int aligned_bits = 0, result_bits = 0;  // see MmaPrecision
};

/// Replaces d[0 … columns), f32 bits, by the row's sums. `columns` is a multiple of kMmaBlock. A column whose
/// largest exponent (of products and accumulator, zeros aside) is beyond what single-precision arithmetic can
/// align exactly stays as it was, with left[column] = -1, for the caller to compute; 0 for the others.
/// Returns whether there are such columns.
using MmaRowKernel = bool (*)(const MmaRow& row, int columns, std::uint32_t* d, std::int32_t* left);

/// The kernel for rows of 8, 16 or 32 elements; null for others.
MmaRowKernel mma_row_kernel(int elements);

/// What this CPU can run instead, the fastest first: all give the same bits.
using MmaRowKernelChoice = MmaRowKernel (*)(int elements);
std::span<const MmaRowKernelChoice> mma_row_kernels();

}  // namespace jfa::simulator
