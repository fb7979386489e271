#include "simulator/tensor_core/mma_f4.h"

#include <algorithm>

#include "simulator/tensor_core/mma.h"

namespace jfa::simulator {
namespace {

constexpr int kAlignedBits = 35;
constexpr std::int8_t kHalvesOfE2M1[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};
// A sum of products is in quarters, and each scale factor has three fraction bits.
constexpr int kTermFractionBits = 2 + 2 * 3;

}  // namespace

void negate_packed_f4(std::span<std::uint16_t> words) {
  for (std::uint16_t& word : words) word ^= 0x8888;
}

std::vector<PackedF4Operands::Row> PackedF4Operands::unpack_rows(std::span<const std::uint16_t> words,
                                                                 ScaleType scale_type, std::uint32_t scales,
                                                                 std::span<const std::uint8_t> factors) {
  std::vector<Row> rows(words.size() / kMmaK);
  for (std::size_t r = 0; r < rows.size(); ++r) {
    for (std::size_t k = 0; k < kGroups * kGroupElements; ++k)
      rows[r].halves[k] = kHalvesOfE2M1[words[r * kMmaK + k / 4] >> 4 * (k % 4) & 0xf];
    for (std::size_t group = 0; group < kGroups; ++group) {
      rows[r].scale[group] = unpack_scale(scale_type, factors[r * scales + group * scales / kGroups]);
      rows[r].nan |= rows[r].scale[group].kind == MmaNumber::kNan;
    }
  }
  return rows;
}

void PackedF4Operands::load(std::span<const std::uint16_t> a, std::span<const std::uint16_t> b,
                            ScaleType scale_type, std::uint32_t scales,
                            std::span<const std::uint8_t> a_scales, std::span<const std::uint8_t> b_scales) {
  a_ = unpack_rows(a, scale_type, scales, a_scales);
  b_ = unpack_rows(b, scale_type, scales, b_scales);
}

void PackedF4Operands::accumulate_row(int m, std::uint32_t* d_row) const {
  const Row& a = a_[static_cast<std::size_t>(m)];
  for (std::size_t n = 0; n < b_.size(); ++n) {
    const Row& b = b_[n];
    const MmaNumber c = unpack(d_row[n], kMmaF32);
    if (a.nan || b.nan || c.kind == MmaNumber::kNan) {
      d_row[n] = kMmaNanF32;
      continue;
    }
    if (c.kind == MmaNumber::kInfinite) continue;  // the terms are finite
    AlignedSum result;
    result.aligned_bits = kAlignedBits;
    result.exponent = c.exponent;
    std::int32_t dot[kGroups] = {};
    std::uint32_t scale[kGroups];
    int exponent[kGroups];
    for (std::size_t group = 0; group < kGroups; ++group) {
      for (std::size_t k = group * kGroupElements; k < (group + 1) * kGroupElements; ++k)
        dot[group] += a.halves[k] * b.halves[k];
      scale[group] = a.scale[group].significand * b.scale[group].significand;
      exponent[group] = a.scale[group].exponent + b.scale[group].exponent;
      // A sum of zero raises the exponent too, a scale factor of zero does not.
      if (scale[group] != 0) result.exponent = std::max(result.exponent, exponent[group]);
    }
    result.sum = result.align(c.negative, c.significand, c.exponent, kMmaF32.fraction_bits);
    for (std::size_t group = 0; group < kGroups; ++group) {
      const auto magnitude = static_cast<std::uint64_t>(std::abs(dot[group])) * scale[group];
      if (magnitude != 0)
        result.sum += result.align(dot[group] < 0, magnitude, exponent[group], kTermFractionBits);
    }
    d_row[n] = pack(result, kMmaF32, /*nearest=*/false);
  }
}

}  // namespace jfa::simulator
