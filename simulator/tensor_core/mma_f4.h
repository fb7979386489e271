// The arithmetic of a step of packed 4-bit elements with block scales (kinds mxf4 and mxf4nvf4), bit for bit
// as published (arXiv 2511.10909): 64 products in four groups of 16, each summed exactly and multiplied by
// its two scale factors; these four terms and the accumulator are aligned to the largest exponent of scale
// factors and accumulator, truncated to 35 fractional bits, summed exactly, and rounded toward zero to f32.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "simulator/tensor_core/mma_number.h"

namespace jfa::simulator {

/// Flips the signs of all elements.
void negate_packed_f4(std::span<std::uint16_t> words);

/// Operands of one step. A row is 32 bytes: 16 words of four e2m1 each, the first in the lowest bits.
class PackedF4Operands {
 public:
  /// a holds m rows, b holds n rows. Of scale factors each row has `scales`: 2 or 4.
  void load(std::span<const std::uint16_t> a, std::span<const std::uint16_t> b, ScaleType scale_type,
            std::uint32_t scales, std::span<const std::uint8_t> a_scales,
            std::span<const std::uint8_t> b_scales);

  /// Replaces d_row[0 … n) of row m by the step's result; d_row holds the f32 accumulators' bits.
  void accumulate_row(int m, std::uint32_t* d_row) const;

 private:
  static constexpr int kGroups = 4;
  static constexpr int kGroupElements = 16;

  /// A row of an operand: elements in halves, and the scale factor of each group.
  struct Row {
    std::int8_t halves[kGroups * kGroupElements];
    MmaNumber scale[kGroups];
    bool nan = false;  // in a scale factor
  };
  static std::vector<Row> unpack_rows(std::span<const std::uint16_t> words, ScaleType scale_type,
                                      std::uint32_t scales, std::span<const std::uint8_t> factors);

  std::vector<Row> a_, b_;
};

}  // namespace jfa::simulator
