// The prepare entry: one CTA turns the offsets into the work list. It is their only reader, so that lengths
// are never needed on the host.
namespace jfa::kernel {

__device__ inline i64 load_offset(const void* offsets, bool is_64, i32 index) {
  return is_64 ? static_cast<const i64*>(offsets)[index] : static_cast<const i32*>(offsets)[index];
}

// Offsets as a verdict: `name` and index in one number, so that the smallest is the first bad one.
__device__ inline void report_bad(u64* first_bad, OffsetName name, i32 index) {
  atomicMin(first_bad, static_cast<u64>(name) << 32 | static_cast<u32>(index));
}

// Prefix sums must start at 0, never decrease, and stay within the tensor.
__device__ inline void check_offsets(u64* first_bad, OffsetName name, const void* offsets, bool is_64,
                                     i32 batch, i32 rows) {
  for (i32 i = threadIdx.x; i <= batch; i += blockDim.x) {
    const i64 value = load_offset(offsets, is_64, i);
    const i64 least = i == 0 ? 0 : load_offset(offsets, is_64, i - 1);
    if (value < least || value > rows || (i == 0 && value != 0)) report_bad(first_bad, name, i);
  }
}

struct Sequence {
  i32 query_row, query_rows, key_row, key_rows, output_row;
};

__device__ inline Sequence load_sequence(const PrepareArguments& a, i32 b) {
  Sequence s;
  s.key_row = static_cast<i32>(load_offset(a.key_offset, a.key_offset_is_64, b));
  s.key_rows = static_cast<i32>(load_offset(a.key_offset, a.key_offset_is_64, b + 1)) - s.key_row;
  if constexpr (config::kBroadcastQuery) {
    s.query_row = 0;
    s.query_rows = a.query_rows;
    s.output_row = b * a.query_rows;
  } else {
    s.query_row = static_cast<i32>(load_offset(a.query_offset, a.query_offset_is_64, b));
    s.query_rows = static_cast<i32>(load_offset(a.query_offset, a.query_offset_is_64, b + 1)) - s.query_row;
    s.output_row = s.query_row;
  }
  if (a.output_offset != nullptr)
    s.output_row = static_cast<i32>(load_offset(a.output_offset, a.output_offset_is_64, b));
  return s;
}

// Sequence b's output rows must hold its query rows without reaching into the next sequence's.
__device__ inline void check_output_offsets(u64* first_bad, const PrepareArguments& a) {
  for (i32 i = threadIdx.x; i <= a.batch; i += blockDim.x) {
    const i64 value = load_offset(a.output_offset, a.output_offset_is_64, i);
    i64 least = 0;
    if (i > 0) {
      least = load_offset(a.output_offset, a.output_offset_is_64, i - 1);
      if constexpr (config::kBroadcastQuery) {
        least += a.query_rows;
      } else {
        least += load_offset(a.query_offset, a.query_offset_is_64, i) -
                 load_offset(a.query_offset, a.query_offset_is_64, i - 1);
      }
    }
    if (value < least || value > a.output_rows) report_bad(first_bad, kOutputOffset, i);
  }
}

// Tiles that `rows` queries or keys take.
__device__ inline i32 tiles_of(i32 rows) { return (rows + kTileRows - 1) / kTileRows; }

// Sequences of like cost share a bucket: exact up to 32 key tiles, then by powers of two in quarters. All
// tiles of a sequence go into its bucket together, so that they read its keys while the L2 cache has them.
constexpr i32 kCostBuckets = 128;

__device__ inline i32 cost_bucket(const Sequence& s) {
  // No tile costs more than one in the middle of its sequence.
  const Interval keys = tile_interval(s.query_rows / 2, kTileRows, s.key_rows);
  const i32 tiles = tiles_of(keys.end - keys.begin);
  if (tiles < 32) return tiles;
  const i32 log2 = 31 - __clz(tiles);
  return 32 + (log2 - 5) * 4 + ((tiles >> (log2 - 2)) & 3);
}

// Calls visit(tile) for every query tile of a sequence.
template <class Visit>
__device__ inline void for_each_tile(const Sequence& s, Visit visit) {
  for (i32 position = 0; position < s.query_rows; position += kTileRows) {
    QueryTile tile;
    tile.query_row = s.query_row + position;
    tile.output_row = s.output_row + position;
    tile.rows = min(kTileRows, s.query_rows - position);
    tile.query_position = position;
    const Interval keys = tile_interval(position, tile.rows, s.key_rows);
    tile.key_row = s.key_row + keys.begin;
    tile.key_position = keys.begin;
    tile.key_count = keys.end - keys.begin;
    tile.part = -1;
    visit(tile);
  }
}

// Calls visit(sequence) for every sequence of this thread.
template <class Visit>
__device__ inline void for_each_sequence(const PrepareArguments& a, Visit visit) {
  for (i32 b = threadIdx.x; b < a.batch; b += blockDim.x) visit(load_sequence(a, b));
}

// Keys of one part of a tile, given the launch's key tiles: all of them unless the launch has few items.
__device__ inline i32 keys_per_part(const PrepareArguments& a, i64 launch_key_tiles) {
  constexpr i32 kAll = 1 << 30;
  if (a.part_capacity == 0) return kAll;
  const i64 tiles = (launch_key_tiles * a.query_heads + kSplitParts - 1) / kSplitParts;
  return static_cast<i32>(
      min(static_cast<i64>(kAll), max(tiles, static_cast<i64>(kLeastPartTiles)) * kTileRows));
}

__device__ inline i32 parts_of(i32 key_count, i32 part_keys) {
  return max(1, (key_count - 1) / part_keys + 1);
}

// The tile of part p's keys.
__device__ inline QueryTile part_of(QueryTile tile, i32 p, i32 part_keys) {
  const i32 first = p * part_keys;
  tile.key_row += first;
  tile.key_position += first;
  tile.key_count = min(part_keys, tile.key_count - first);
  return tile;
}

}  // namespace jfa::kernel

extern "C" __global__ void __launch_bounds__(1024, 1)
    jfa_prepare(const __grid_constant__ jfa::kernel::PrepareArguments a) {
  using namespace jfa::kernel;
  constexpr u64 kNoneBad = ~u64{0};
  __shared__ u64 first_bad;
  __shared__ i32 bucket[kCostBuckets];  // first tiles counted, then the next free place in the list
  __shared__ u64 launch_key_tiles;
  __shared__ i32 part_count, split_count;
  if (threadIdx.x == 0) {
    first_bad = kNoneBad;
    launch_key_tiles = 0;
    part_count = 0;
    split_count = 0;
  }
  if (threadIdx.x < kCostBuckets) bucket[threadIdx.x] = 0;
  __syncthreads();

  if constexpr (!config::kBroadcastQuery) {
    check_offsets(&first_bad, kQueryOffset, a.query_offset, a.query_offset_is_64, a.batch, a.query_rows);
  }
  check_offsets(&first_bad, kKeyOffset, a.key_offset, a.key_offset_is_64, a.batch, a.key_rows);
  if (a.output_offset != nullptr) check_output_offsets(&first_bad, a);
  __syncthreads();

  if (first_bad != kNoneBad) {
    if (threadIdx.x == 0) {
      const OffsetName name = static_cast<OffsetName>(first_bad >> 32);
      const i32 index = static_cast<i32>(first_bad);
      const void* offsets = name == kQueryOffset ? a.query_offset
                            : name == kKeyOffset ? a.key_offset
                                                 : a.output_offset;
      const bool is_64 = name == kQueryOffset ? a.query_offset_is_64
                         : name == kKeyOffset ? a.key_offset_is_64
                                              : a.output_offset_is_64;
      a.header->bad_offset_name = name;
      a.header->bad_offset_index = index;
      a.header->bad_offset_value = load_offset(offsets, is_64, index);
      a.header->tile_count = 0;
      a.header->next_item = 0;
      a.header->split_count = 0;
    }
    return;
  }

  if (a.part_capacity > 0) {
    for_each_sequence(a, [&](const Sequence& s) {
      for_each_tile(s, [&](const QueryTile& tile) {
        atomicAdd(&launch_key_tiles, static_cast<u64>(tiles_of(tile.key_count)));
      });
    });
    __syncthreads();
  }
  const i32 part_keys = keys_per_part(a, launch_key_tiles);
  auto items_of = [&](const Sequence& s) {
    if (a.part_capacity == 0) return tiles_of(s.query_rows);
    i32 items = 0;
    for_each_tile(s, [&](const QueryTile& tile) { items += parts_of(tile.key_count, part_keys); });
    return items;
  };
  for_each_sequence(a, [&](const Sequence& s) { atomicAdd(&bucket[cost_bucket(s)], items_of(s)); });
  __syncthreads();
  // Costly sequences first: what is left when the others finish is then cheap.
  if (threadIdx.x == 0) {
    i32 begin = 0;
    for (i32 i = kCostBuckets - 1; i >= 0; --i) {
      const i32 count = bucket[i];
      bucket[i] = begin;
      begin += count;
    }
    a.header->bad_offset_name = kNoOffset;
    a.header->bad_offset_index = 0;
    a.header->bad_offset_value = 0;
    a.header->tile_count = begin;
    a.header->next_item = 0;
  }
  __syncthreads();
  for_each_sequence(a, [&](const Sequence& s) {
    i32 place = atomicAdd(&bucket[cost_bucket(s)], items_of(s));
    for_each_tile(s, [&](const QueryTile& tile) {
      const i32 parts = parts_of(tile.key_count, part_keys);
      i32 first_part = -1;
      if (parts > 1) {
        first_part = atomicAdd(&part_count, parts);
        a.split_tiles[atomicAdd(&split_count, 1)] = {tile.output_row, tile.rows, first_part, parts};
      }
      for (i32 p = 0; p < parts; ++p) {
        QueryTile part = part_of(tile, p, part_keys);
        if (parts > 1) part.part = first_part + p;
        a.tiles[place++] = part;
      }
    });
  });
  __syncthreads();
  if (threadIdx.x == 0) a.header->split_count = split_count;
}
