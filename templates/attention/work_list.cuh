// The order of work: costly sequences first, so that what is left when the others finish is cheap. All tiles
// of a sequence stay together, so that they read what they share while the L2 cache has it.
namespace jfa::kernel {

// Tiles that `rows` queries or keys take.
__device__ inline i32 tiles_of(i32 rows) { return (rows + kTileRows - 1) / kTileRows; }

// Sequences whose tiles stream about as many other tiles share a bucket: exact up to 32, then by powers of
// two in quarters.
constexpr i32 kCostBuckets = 128;

__device__ inline i32 cost_bucket(i32 streamed_tiles) {
  if (streamed_tiles < 32) return streamed_tiles;
  const i32 log2 = 31 - __clz(streamed_tiles);
  return 32 + (log2 - 5) * 4 + ((streamed_tiles >> (log2 - 2)) & 3);
}

// Tiles that a sequence's query tile streams that streams most, and a key tile.
__device__ inline i32 streamed_key_tiles(const Sequence& s) {
  const Interval seen = most_keys(s.query_place, s.query_rows, s.key_rows);
  return tiles_of(seen.end - seen.begin);
}
__device__ inline i32 streamed_query_tiles(const Sequence& s) {
  const Interval seen = most_queries(-s.query_place, s.key_rows, s.query_rows);
  return tiles_of(seen.end - seen.begin);
}

// Where the tile begins whose turn it is after `first` rows' tiles: costly ones come first.
template <bool kLaterSeeMore>
__device__ inline i32 tile_position(i32 first, i32 rows) {
  return kLaterSeeMore ? (tiles_of(rows) - 1) * kTileRows - first : first;
}

// Counting sort by cost, most costly first, by one CTA: count every item, order(), then place() every item.
struct CostOrder {
  i32 bucket[kCostBuckets];  // first items counted, then the next free place in the list

  __device__ inline void clear() {
    for (i32 i = threadIdx.x; i < kCostBuckets; i += blockDim.x) bucket[i] = 0;
  }
  __device__ inline void count(i32 cost, i32 items) { atomicAdd(&bucket[cost], items); }
  // By one warp; returns the number of items.
  __device__ inline i32 order() {
    constexpr i32 kLaneBuckets = kCostBuckets / 32;
    const i32 lane = threadIdx.x % 32;
    i32* const last = &bucket[kCostBuckets - 1 - lane * kLaneBuckets];  // the lane's most costly
    i32 items[kLaneBuckets], sum = 0;
    for (i32 i = 0; i < kLaneBuckets; ++i) sum += items[i] = last[-i];
    i32 end = sum;
    for (i32 distance = 1; distance < 32; distance *= 2) {
      const i32 before = __shfl_up_sync(0xffffffff, end, distance);
      if (lane >= distance) end += before;
    }
    i32 begin = end - sum;
    for (i32 i = 0; i < kLaneBuckets; ++i) {
      last[-i] = begin;
      begin += items[i];
    }
    return __shfl_sync(0xffffffff, end, 31);
  }
  // The same by the whole CTA, once all is counted; the number of items goes to *total.
  __device__ inline void order_by_cta(i32* total) {
    __syncthreads();
    if (threadIdx.x < 32) {
      const i32 items = order();
      if (threadIdx.x == 0) *total = items;
    }
    __syncthreads();
  }
  // The first of `items` consecutive places.
  __device__ inline i32 place(i32 cost, i32 items) { return atomicAdd(&bucket[cost], items); }
};

// Calls visit(sequence) for every sequence of this thread.
template <class Visit>
__device__ inline void for_each_sequence(const PrepareArguments& a, Visit visit) {
  for (i32 b = threadIdx.x; b < a.batch; b += blockDim.x) visit(load_sequence(a, b));
}

// The rows of a tile that are loaded. A row that sees nothing takes no part whatever it holds, so it must not
// meet the others in a product: there 0 * NaN would be NaN.
__device__ inline i32 loaded_rows(const QueryTile& tile) {
  return live_queries(tile.query_position, tile.rows, tile.key_position, tile.key_count);
}

// Calls visit(tile) for every query tile of a sequence.
template <class Visit>
__device__ inline void for_each_tile(const Sequence& s, Visit visit) {
  for (i32 first = 0; first < s.query_rows; first += kTileRows) {
    const i32 position = tile_position<kLaterQueriesSeeMore>(first, s.query_rows);
    QueryTile tile;
    tile.query_row = s.query_row + position;
    tile.output_row = s.output_row + position;
    tile.rows = min(kTileRows, s.query_rows - position);
    tile.query_position = s.query_place + position;
    const Interval keys = keys_of_queries(tile.query_position, tile.rows, s.key_rows);
    tile.key_row = s.key_row + keys.begin;
    tile.key_position = keys.begin;
    tile.key_count = keys.end - keys.begin;
    tile.part = -1;
    visit(tile);
  }
}

}  // namespace jfa::kernel
