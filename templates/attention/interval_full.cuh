// Which keys a query row sees, without a window: all of its sequence.
namespace jfa::kernel {

struct Interval {
  i32 begin, end;  // [begin, end)
};

// Keys that some row of a tile sees: positions within the sequence.
__device__ inline Interval tile_interval(i32 /*query_position*/, i32 /*rows*/, i32 key_length) {
  return {0, key_length};
}

// Keys that row `row` of the tile sees, counted from the tile's first key.
__device__ inline Interval row_interval(const QueryTile& tile, i32 /*row*/) { return {0, tile.key_count}; }

}  // namespace jfa::kernel
