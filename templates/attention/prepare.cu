// The prepare entry: one CTA turns the offsets into the work list.
namespace jfa::kernel {

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
  griddepcontrol_launch_dependents();  // the main entry sets itself up meanwhile
  __shared__ u64 first_bad;
  __shared__ CostOrder order;
  __shared__ u64 launch_key_tiles;
  __shared__ i32 part_count, split_count;
  if (threadIdx.x == 0) {
    launch_key_tiles = 0;
    part_count = 0;
    split_count = 0;
  }
  order.clear();
  if (!offsets_are_good(a, &first_bad)) return;

  if (a.part_capacity > 0) {
    for_each_sequence(a, [&](const Sequence& s) {
      for_each_tile(s, [&](const QueryTile& tile) {
        atomicAdd(&launch_key_tiles, static_cast<u64>(tiles_of(tile.key_count)));
      });
    });
    __syncthreads();
  }
  const i32 part_keys = keys_per_part(a, launch_key_tiles);
  auto cost_of = [&](const Sequence& s) { return cost_bucket(streamed_tiles(s.query_rows, s.key_rows)); };
  auto items_of = [&](const Sequence& s) {
    if (a.part_capacity == 0) return tiles_of(s.query_rows);
    i32 items = 0;
    for_each_tile(s, [&](const QueryTile& tile) { items += parts_of(tile.key_count, part_keys); });
    return items;
  };
  for_each_sequence(a, [&](const Sequence& s) { order.count(cost_of(s), items_of(s)); });
  __syncthreads();
  if (threadIdx.x < 32) {
    const i32 items = order.order();
    if (threadIdx.x == 0) a.header->tile_count = items;
  }
  __syncthreads();
  for_each_sequence(a, [&](const Sequence& s) {
    i32 place = order.place(cost_of(s), items_of(s));
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
