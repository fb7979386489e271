// Results of a part of a tile's keys: normalised fp32 rows and the states of their softmax, kept in the
// workspace for the merge entry. Not the LSE: where it is large, its rounding would weigh the parts.
namespace jfa::kernel {

__device__ inline i64 partial_row(i32 part, i32 heads, i32 head, i32 row) {
  return (static_cast<i64>(part) * heads + head) * kTileRows + row;
}

__device__ inline PartialState partial_state(const RowState& row) { return {row.reference, row.sum}; }

}  // namespace jfa::kernel
