// Which rows of the other side a row sees, a query or a key alike: without a window all of its sequence.
namespace jfa::kernel {

struct Interval {
  i32 begin, end;  // [begin, end)
};

// What some row of a tile sees of the other side: positions within the sequence.
__device__ inline Interval tile_interval(i32 /*position*/, i32 /*rows*/, i32 other_rows) {
  return {0, other_rows};
}

// What the row at `offset`, its position less that of the first row on the other side, sees of `count` rows
// there.
__device__ inline Interval visible(i32 /*offset*/, i32 count) { return {0, count}; }

// Rows of a tile up to the last that sees any of `count` rows of the other side. 0 if none does.
__device__ inline i32 live_rows(i32 /*position*/, i32 rows, i32 /*other_position*/, i32 count) {
  return count > 0 ? rows : 0;
}

}  // namespace jfa::kernel
