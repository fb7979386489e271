// Ragged tensor maps: a box that starts anywhere and ends with its sequence.
//
// A rank-3 map [rows, heads, head_dim] knows where the tensor ends, not where a sequence does. Two more
// dimensions over the same rows give every sequence its own end, with one map for the whole batch. With E =
// 2^30, row r of the sequence [start, start + len) is at
//
//   (column, head, E - len + r, start + len, E)
//
// The third coordinate leaves its extent E exactly when r reaches len: loads yield zeros there and stores are
// dropped. The strides of dimensions 3 and 4 take the excess out of the address again: the address is
// row_stride * (E - len + r) + row_stride * (start + len) + (2^34 - row_stride) * E, and 2^34 * E = 2^64 = 0.
#pragma once

#include <cuda.h>

#include <cstdint>

#include "base/driver_table.h"
#include "generator/plan.h"
#include "jfa/attention.h"

namespace jfa {

/// The map's extents and strides, apart from any driver.
struct RaggedMap {
  static constexpr std::uint32_t kRank = 5;
  std::uint64_t extents[kRank];
  std::uint64_t stride_bytes[kRank - 1];  // of dimensions 1 … 4
  std::uint32_t box[kRank];
};

/// tensor: normalised (see validate.h). box_rows: rows of a box, at most 256.
RaggedMap ragged_map(const Tensor& tensor, const OperandPlan& operand, int box_rows);

/// substitute: any 16-byte aligned device address; takes the place of an empty tensor's, which is never read.
CUresult encode_ragged_map(const DriverTable& driver, const Tensor& tensor, const OperandPlan& operand,
                           int box_rows, std::uint64_t substitute, CUtensorMap* map);

}  // namespace jfa
