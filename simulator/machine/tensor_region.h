// How tensor memory is cut: its cells, and the regions of them that instructions name.
#pragma once

#include <cstdint>
#include <string>

namespace jfa::simulator {

constexpr std::uint32_t kTensorLanes = 128;
constexpr std::uint32_t kTensorColumns = 512;
/// What one warp of a warpgroup reaches.
constexpr std::uint32_t kQuarterLanes = kTensorLanes / 4;
/// Instructions touch tensor memory in blocks of this many lanes.
constexpr std::uint32_t kTensorBlockLanes = 16;
constexpr std::uint32_t kTensorBlocks = kTensorLanes / kTensorBlockLanes;

/// A tensor memory address as instructions take it: lane in bits 31:16, column in bits 15:0.
struct TensorAddress {
  std::uint32_t lane = 0;
  std::uint32_t column = 0;

  TensorAddress() = default;
  TensorAddress(std::uint32_t lane_, std::uint32_t column_) : lane(lane_), column(column_) {}
  explicit TensorAddress(std::uint32_t bits) : lane(bits >> 16), column(bits & 0xffff) {}
  std::uint32_t bits() const { return lane << 16 | column; }
};

/// Columns of some blocks of 16 lanes.
struct TensorRegion {
  std::uint32_t blocks = 0;  ///< bit b: lanes 16b … 16b + 15
  std::uint32_t first_column = 0;
  std::uint32_t end_column = 0;  ///< one past the last

  bool operator==(const TensorRegion&) const = default;
  bool overlaps(const TensorRegion& other) const {
    return (blocks & other.blocks) != 0 && first_column < other.end_column && other.first_column < end_column;
  }
  /// "lanes 32..63, columns 0..15".
  std::string describe() const;
};

}  // namespace jfa::simulator
