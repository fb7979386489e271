// Results of a part of a tile's keys: normalised fp32 rows and their LSE, kept in the workspace for the merge
// entry.
namespace jfa::kernel {

__device__ inline i64 partial_row(i32 part, i32 heads, i32 head, i32 row) {
  return (static_cast<i64>(part) * heads + head) * kTileRows + row;
}

}  // namespace jfa::kernel
