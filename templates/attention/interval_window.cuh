// Which keys a query row sees through a window: |i - j| <= kWindow, both counted from their sequence's start.
namespace jfa::kernel {

struct Interval {
  i32 begin, end;  // [begin, end)
};

// Keys that some row of a tile sees: positions within the sequence. Empty if the window lies behind the keys.
__device__ inline Interval tile_interval(i32 query_position, i32 rows, i32 key_length) {
  const i32 begin = max(query_position - config::kWindow, 0);
  const i32 end = min(query_position + rows + config::kWindow, key_length);
  return {begin, max(begin, end)};
}

// Keys that row `row` of the tile sees, counted from the tile's first key.
__device__ inline Interval row_interval(const QueryTile& tile, i32 row) {
  const i32 position = tile.query_position + row - tile.key_position;
  return {max(position - config::kWindow, 0), min(position + config::kWindow + 1, tile.key_count)};
}

}  // namespace jfa::kernel
