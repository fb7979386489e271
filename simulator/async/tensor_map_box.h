// A box of a tensor map as the rows a TMA engine moves: where each lies in global memory, where in shared
// memory, and how much of it is inside the tensor.
#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "simulator/async/tensor_map.h"

namespace jfa::simulator {

using BoxCoordinates = std::array<int32_t, kMaxTensorRank>;

/// One row: box[0] elements along dimension 0.
struct BoxRow {
  uint64_t global_address = 0;  // of the row's first element, modulo 2^64; meaningless where valid_bytes is 0
  uint32_t shared_offset = 0;   // from the box's shared address, before the swizzle
  uint32_t skip_bytes = 0;      // leading bytes that lie before the tensor
  uint32_t valid_bytes = 0;     // bytes inside the tensor, after those
};

/// What the hardware faults on: a start not 16-byte aligned in global memory, a negative coordinate of a
/// store or reduction, a shared address not 128-byte aligned. Empty if nothing.
std::string check_box(const TensorMap& map, const BoxCoordinates& coordinates, uint32_t shared_address,
                      bool is_store);

/// Calls visit(row) for every row of the box, dimension 1 fastest. gathered: the positions of its rows along
/// dimension 1, if they do not follow each other.
template <class Visit>
void for_each_box_row(const TensorMap& map, const BoxCoordinates& coordinates, Visit&& visit,
                      const int32_t* gathered = nullptr) {
  const int64_t first = coordinates[0];
  const int64_t box = map.box[0];
  const int64_t dim = static_cast<int64_t>(map.dim[0]);
  const int64_t begin = first < 0 ? (-first < box ? -first : box) : 0;
  const int64_t end = dim - first < box ? dim - first : box;
  BoxRow row;
  row.skip_bytes = static_cast<uint32_t>(map.row_bytes(begin));
  const uint32_t inner_bytes = end > begin ? static_cast<uint32_t>(map.row_bytes(end - begin)) : 0;
  const uint32_t pitch = map.shared_pitch_bytes();
  // Addresses are computed modulo 2^64, as by the hardware: a stride may stand for a negative one.
  const auto start = [&](int d, uint32_t index) {
    return coordinates[d] + static_cast<int64_t>(index) * map.element_stride[d];
  };
  const auto inside = [&](int d, int64_t position) {
    return position >= 0 && static_cast<uint64_t>(position) < map.dim[d];
  };
  const auto offset = [&](int d, int64_t position) {
    return static_cast<uint64_t>(position) * map.stride_bytes[d];
  };
  const uint64_t base = map.global_address + static_cast<uint64_t>(map.row_bytes(first));
  for (uint32_t i4 = 0; i4 < map.box_elements(4); ++i4) {
    const int64_t p4 = start(4, i4);
    for (uint32_t i3 = 0; i3 < map.box_elements(3); ++i3) {
      const int64_t p3 = start(3, i3);
      for (uint32_t i2 = 0; i2 < map.box_elements(2); ++i2) {
        const int64_t p2 = start(2, i2);
        const bool inside_outer = inside(2, p2) && inside(3, p3) && inside(4, p4);
        const uint64_t outer = base + offset(2, p2) + offset(3, p3) + offset(4, p4);
        for (uint32_t i1 = 0; i1 < map.box_elements(1); ++i1) {
          const int64_t p1 = gathered != nullptr ? gathered[i1] : start(1, i1);
          row.global_address = outer + offset(1, p1);
          row.valid_bytes = inside_outer && inside(1, p1) ? inner_bytes : 0;
          visit(static_cast<const BoxRow&>(row));
          row.shared_offset += pitch;
        }
      }
    }
  }
}

/// Bytes of a row that a store or reduction writes: the inner dimension is clipped at 16-byte granularity, so
/// up to 14 bytes behind the tensor's edge are written too.
inline uint32_t stored_bytes(const TensorMap& map, const BoxRow& row) {
  const uint32_t rounded = (row.valid_bytes + 15) / 16 * 16;
  const uint32_t row_bytes = map.box_row_bytes();
  return rounded < row_bytes ? rounded : row_bytes;
}

}  // namespace jfa::simulator
