#include "simulator/tensor_core/tensor_memory_shape.h"

namespace jfa::simulator {

int registers_per_repetition(TensorShape shape) {
  switch (shape) {
    case TensorShape::k16x128b:
      return 2;
    case TensorShape::k16x256b:
      return 4;
    default:
      return 1;
  }
}

int columns_per_repetition(TensorShape shape) {
  switch (shape) {
    case TensorShape::k16x64b:
      return 2;
    case TensorShape::k16x128b:
      return 4;
    case TensorShape::k16x256b:
      return 8;
    default:
      return 1;
  }
}

std::uint32_t shape_lanes(TensorShape shape) { return shape == TensorShape::k32x32b ? 32 : 16; }

TensorCell register_cell(TensorShape shape, int index, int lane, std::uint32_t half_split, bool packed) {
  const auto r = static_cast<std::uint32_t>(index);
  const auto t = static_cast<std::uint32_t>(lane);
  const std::uint32_t width = packed ? 2 : 1;  // cells a register covers
  switch (shape) {
    case TensorShape::k32x32b:
      return {t, width * r};
    case TensorShape::k16x64b:
      return {t / 4 + 8 * (t & 1), width * (2 * r + (t >> 1 & 1))};
    case TensorShape::k16x128b:
      return {t / 4 + 8 * (r & 1), width * (4 * (r / 2) + t % 4)};
    case TensorShape::k16x256b:
      return {t / 4 + 8 * (r >> 1 & 1), width * (8 * (r / 4) + 2 * (t % 4) + (r & 1))};
    case TensorShape::k16x32bx2:
      break;
  }
  // The split is in real columns, whether packed or not.
  return {t % 16, width * r + (t < 16 ? 0 : half_split)};
}

AccumulatorPlace accumulator_place(int cta_group, std::uint32_t m_extent, std::uint32_t n_extent,
                                   std::uint32_t m, std::uint32_t n, AccumulatorForm form) {
  // Pieces of the columns lie side by side in the lanes, where one piece does not take all of them.
  const std::uint32_t columns = accumulator_columns(cta_group, m_extent, n_extent, form);
  const std::uint32_t rows = m_extent / static_cast<std::uint32_t>(cta_group);
  const std::uint32_t row = m % rows;
  const std::uint32_t lane = half_datapath(cta_group, m_extent, form) ? row % 16 + 32 * (row / 16) : row;
  return {m / rows, {lane + rows * (n / columns), n % columns}};
}

std::uint32_t accumulator_columns(int cta_group, std::uint32_t m_extent, std::uint32_t n_extent,
                                  AccumulatorForm form) {
  if (form == AccumulatorForm::kWeightStationary) return n_extent / (kTensorLanes / m_extent);
  return cta_group == 2 && m_extent == 128 && form == AccumulatorForm::kDense ? n_extent / 2 : n_extent;
}

bool half_datapath(int cta_group, std::uint32_t m_extent, AccumulatorForm form) {
  if (form == AccumulatorForm::kWeightStationary) return false;
  return cta_group == 1 ? m_extent == 64 : m_extent == 128 && form == AccumulatorForm::kSparse;
}

std::uint32_t accumulator_blocks(int cta_group, std::uint32_t m_extent, AccumulatorForm form) {
  return half_datapath(cta_group, m_extent, form) ? 0b01010101 : 0xff;
}

ScalePlace scale_place(std::uint32_t row, std::uint32_t rows, bool in_halves) {
  if (!in_halves) return {0b1111, {row % kQuarterLanes, row / kQuarterLanes}};
  const std::uint32_t half = row / (rows / 2);
  const std::uint32_t rest = row % (rows / 2);
  return {0b11u << 2 * half, {rest % kQuarterLanes, rest / kQuarterLanes}};
}

std::vector<TensorRegion> scale_regions(std::uint32_t column, std::uint32_t rows, bool in_halves) {
  const std::uint32_t lanes = in_halves ? rows / 2 : rows;
  const std::uint32_t full_columns = lanes / kQuarterLanes;
  std::vector<TensorRegion> regions;
  if (full_columns != 0) regions.push_back({0xff, column, column + full_columns});
  const std::uint32_t rest = lanes % kQuarterLanes;
  if (rest != 0) {
    const std::uint32_t blocks = rest > kTensorBlockLanes ? 0xff : 0b01010101;
    regions.push_back({blocks, column + full_columns, column + full_columns + 1});
  }
  return regions;
}

}  // namespace jfa::simulator
