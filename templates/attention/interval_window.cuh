// Which rows of the other side a row sees through a window, a query or a key alike: |i - j| <= kWindow, both
// counted from the start of their own sequence.
namespace jfa::kernel {

struct Interval {
  i32 begin, end;  // [begin, end)
};

// What some row of a tile sees of the other side: positions within the sequence. Empty if the window lies
// behind its end.
__device__ inline Interval tile_interval(i32 position, i32 rows, i32 other_rows) {
  const i32 begin = max(position - config::kWindow, 0);
  const i32 end = min(position + rows + config::kWindow, other_rows);
  return {begin, max(begin, end)};
}

// What the row at `offset`, its position less that of the first row on the other side, sees of `count` rows
// there.
__device__ inline Interval visible(i32 offset, i32 count) {
  return {max(offset - config::kWindow, 0), min(offset + config::kWindow + 1, count)};
}

// Rows of a tile up to the last that sees any of `count` rows of the other side, the first of which is at
// `other_position`. 0 if none does.
__device__ inline i32 live_rows(i32 position, i32 rows, i32 other_position, i32 count) {
  const Interval seen = tile_interval(other_position, count, position + rows);
  return count > 0 && seen.begin < seen.end ? max(seen.end - position, 0) : 0;
}

}  // namespace jfa::kernel
