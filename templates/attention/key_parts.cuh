// Long key ranges of a launch with few items are cut into parts, so that every multiprocessor has work; the
// merge entry puts the results together. What is long depends on the launch, so the prepare entry decides.
namespace jfa::kernel {

struct KeyParts {
  u64 launch_key_tiles;
  i32 part_count, split_count;
};

// Key tiles of all query tiles of one head, by the whole CTA; the sum starts at 0.
__device__ inline i64 count_key_tiles(const PrepareArguments& a, u64* sum) {
  u64 mine = 0;
  for_each_sequence(a, [&](const Sequence& s) {
    for_each_tile(s, [&](const QueryTile& tile) { mine += tiles_of(tile.key_count); });
  });
  for (i32 distance = 16; distance > 0; distance /= 2) mine += __shfl_xor_sync(0xffffffff, mine, distance);
  if (threadIdx.x % 32 == 0 && mine > 0) atomicAdd(sum, mine);
  __syncthreads();
  return *sum;
}

__device__ inline i32 keys_per_part(const PrepareArguments& a, i64 launch_key_tiles) {
  constexpr i64 kMost = 1 << 22;  // tiles of 2^30 keys and beyond
  const i64 tiles = (launch_key_tiles * a.query_heads + config::kSplitParts - 1) / config::kSplitParts;
  return static_cast<i32>(min(kMost, max(tiles, static_cast<i64>(config::kLeastPartTiles)))) * kTileRows;
}

__device__ inline i32 parts_of(i32 key_count, i32 part_keys) {
  return max(1, (key_count - 1) / part_keys + 1);
}

// Calls visit(part, p) for every part of a tile's keys.
template <class Visit>
__device__ inline void for_each_part(const QueryTile& tile, i32 part_keys, Visit visit) {
  const i32 parts = parts_of(tile.key_count, part_keys);
  for (i32 p = 0; p < parts; ++p) {
    QueryTile part = tile;
    part.key_row += p * part_keys;
    part.key_position += p * part_keys;
    part.key_count = min(part_keys, tile.key_count - p * part_keys);
    visit(part, p);
  }
}

// Fills the work list with parts, each with a place of its own in the order: short ones, the ends of their
// sequences, fill the gaps that long ones leave. A thread lists a sequence, so that parts of different
// sequences take turns: those of one sequence, a fixed distance apart, would meet in the same memory
// channels.
__device__ inline void list_parts(const PrepareArguments& a, CostOrder& order, KeyParts& shared) {
  const i32 part_keys = keys_per_part(a, count_key_tiles(a, &shared.launch_key_tiles));
  auto cost_of = [](const QueryTile& part) { return cost_bucket(tiles_of(part.key_count)); };
  for_each_sequence(a, [&](const Sequence& s) {
    for_each_tile(s, [&](const QueryTile& tile) {
      for_each_part(tile, part_keys, [&](const QueryTile& part, i32) { order.count(cost_of(part), 1); });
    });
  });
  order.order_by_cta(&a.header->tile_count);
  for_each_sequence(a, [&](const Sequence& s) {
    for_each_tile(s, [&](const QueryTile& tile) {
      const i32 parts = parts_of(tile.key_count, part_keys);
      i32 first_part = -1;
      if (parts > 1) {
        first_part = atomicAdd(&shared.part_count, parts);
        a.split_tiles[atomicAdd(&shared.split_count, 1)] = {tile.output_row, tile.rows, first_part, parts};
      }
      for_each_part(tile, part_keys, [&](QueryTile part, i32 p) {
        if (parts > 1) part.part = first_part + p;
        a.tiles[order.place(cost_of(part), 1)] = part;
      });
    });
  });
  __syncthreads();
  if (threadIdx.x == 0) a.header->split_count = shared.split_count;
}

}  // namespace jfa::kernel
