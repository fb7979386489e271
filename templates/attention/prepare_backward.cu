// The prepare entry of a backward: one CTA turns the offsets into the work lists of the gradient entries.
// With an entry for short sequences, or one of CTA pairs, what they take goes to their lists: what it takes
// to know is in a sequence alone, so a batch may mix all kinds. Rows that no sequence owns are tiles that see
// nothing, and so get gradients of 0.
namespace jfa::kernel {

// Whether a sequence goes to the list of CTA pairs; this is asked first.
__device__ inline bool takes_two_cta(const BackwardPrepareArguments& a, const Sequence& s) {
  if (!config::kTwoCta || config::kBroadcastQuery || s.query_rows == 0 || s.key_rows == 0) return false;
  return s.key_rows >= a.two_cta_least_keys && s.key_rows <= a.two_cta_most_keys;
}

// Tiles on the short list: a tile of keys with all their queries, or tiles of a side that has no other. 0:
// the sequence, if it has any rows, goes to the other lists.
__device__ inline i32 short_tiles_of(const Sequence& s) {
  if (!config::kShortKeys) return 0;
  if (s.query_rows == 0) return tiles_of(s.key_rows);
  if (s.key_rows == 0) return tiles_of(s.query_rows);
  return s.key_rows <= kTileRows ? 1 : 0;
}

// By 16 queries: the many sequences of a batch are spread over more buckets, since those of one wait for one
// another.
__device__ inline i32 one_pass_cost(const Sequence& s) {
  return s.key_rows == 0 ? 0 : cost_bucket((s.query_rows + 15) / 16);
}

// Calls visit(tile) for every key tile of a sequence: for_each_tile with the sides exchanged.
template <class Visit>
__device__ inline void for_each_key_tile(const Sequence& s, Visit visit) {
  for (i32 first = 0; first < s.key_rows; first += kTileRows) {
    const i32 position = tile_position<kLaterKeysSeeMore>(first, s.key_rows);
    KeyTile tile;
    tile.key_row = s.key_row + position;
    tile.rows = min(kTileRows, s.key_rows - position);
    tile.key_position = position;
    const Interval queries = queries_of_keys(position - s.query_place, tile.rows, s.query_rows);
    tile.query_row = s.query_row + queries.begin;
    tile.output_row = s.output_row + queries.begin;
    tile.query_position = s.query_place + queries.begin;
    tile.query_count = queries.end - queries.begin;
    tile.reserved = 0;
    visit(tile);
  }
}

// All keys and queries of a sequence.
__device__ inline KeyTile whole_sequence(const Sequence& s) {
  return {s.key_row, s.key_rows, 0, s.query_row, s.output_row, s.query_place, s.query_rows, 0};
}

template <class Visit>
__device__ inline void for_each_short_tile(const Sequence& s, Visit visit) {
  if (s.query_rows > 0 && s.key_rows > 0) {
    visit(whole_sequence(s));
    return;
  }
  for (i32 first = 0; first < s.key_rows; first += kTileRows)
    visit(KeyTile{s.key_row + first, min(kTileRows, s.key_rows - first), first, 0, 0, 0, 0, 0});
  for (i32 first = 0; first < s.query_rows; first += kTileRows)
    visit(KeyTile{0, 0, 0, s.query_row + first, s.output_row + first, first,
                  min(kTileRows, s.query_rows - first), 0});
}

// Calls visit(sequence) for a sequence. Queries at its beginning that see no key, and keys that no query
// sees, are sequences of their own, so that no tile holds them beside others; at its end live_queries() and
// live_keys() see to it.
template <class Visit>
__device__ inline void for_each_live_part(const Sequence& s, Visit visit) {
  if (!kAlignedAtEnds || s.query_rows == 0 || s.key_rows == 0) {
    visit(s);
    return;
  }
  const i32 queries = queries_of_keys(-s.query_place, s.key_rows, s.query_rows).begin;
  const i32 keys = keys_of_queries(s.query_place, s.query_rows, s.key_rows).begin;
  if (queries > 0) visit(Sequence{s.query_row, queries, 0, 0, s.output_row, 0});
  if (keys > 0) visit(Sequence{0, 0, s.key_row, keys, 0, 0});
  visit(Sequence{s.query_row + queries, s.query_rows - queries, s.key_row + keys, s.key_rows - keys,
                 s.output_row + queries, s.query_place + queries - keys});
}

// Calls visit(sequence) for this thread's sequences. The unowned rows of either side, before the first
// sequence and behind the last, are one more each: of keys that no query sees, of queries that see no key.
template <class Visit>
__device__ inline void for_each_owner(const PrepareArguments& a, Visit visit) {
  for_each_sequence(a, [&](const Sequence& s) { for_each_live_part(s, visit); });
  if (threadIdx.x != blockDim.x - 1) return;  // the thread with the fewest sequences
  const OwnedRows keys = owned_rows(a.key_offset, a.key_offset_is_64, a.batch);
  visit(Sequence{0, 0, 0, keys.begin, 0});
  visit(Sequence{0, 0, keys.end, a.key_rows - keys.end, 0});
  if constexpr (!config::kBroadcastQuery) {
    const OwnedRows queries = owned_rows(a.query_offset, a.query_offset_is_64, a.batch);
    visit(Sequence{0, queries.begin, 0, 0, 0});
    visit(Sequence{queries.end, a.query_rows - queries.end, 0, 0, 0});
  }
}

}  // namespace jfa::kernel

extern "C" __global__ void __launch_bounds__(jfa::kernel::config::Prepare::kThreads,
                                             jfa::kernel::config::Prepare::kCtas)
    jfa_prepare_backward(const __grid_constant__ jfa::kernel::BackwardPrepareArguments arguments) {
  using namespace jfa::kernel;
  const PrepareArguments& a = arguments.common;
  __shared__ u64 first_bad;
  __shared__ CostOrder key_order, query_order, short_order, two_cta_order;
  __shared__ i32 next_delta_tile;  // query tiles of the pairs' sequences counted, then the next free place
  key_order.clear();
  query_order.clear();
  short_order.clear();
  if constexpr (config::kTwoCta) {
    two_cta_order.clear();
    if (threadIdx.x == 0) next_delta_tile = 0;
  }
  if (!offsets_are_good(a, &first_bad)) return;

  const auto key_cost = [](const Sequence& s) { return cost_bucket(streamed_query_tiles(s)); };
  const auto query_cost = [](const Sequence& s) { return cost_bucket(streamed_key_tiles(s)); };
  for_each_owner(a, [&](const Sequence& s) {
    if (takes_two_cta(arguments, s)) {
      two_cta_order.count(one_pass_cost(s), 1);
      atomicAdd(&next_delta_tile, tiles_of(s.query_rows));
    } else if (const i32 tiles = short_tiles_of(s); tiles > 0) {
      short_order.count(one_pass_cost(s), tiles);
    } else {
      key_order.count(key_cost(s), tiles_of(s.key_rows));
      if constexpr (!config::kBroadcastQuery) query_order.count(query_cost(s), tiles_of(s.query_rows));
    }
  });
  __syncthreads();
  if (threadIdx.x < 32) {
    const i32 key_tiles = key_order.order();
    const i32 runs =
        config::kBroadcastQuery ? tiles_of(a.query_rows) * arguments.query_parts : query_order.order();
    const i32 short_tiles = short_order.order();
    const i32 two_cta_tiles = config::kTwoCta ? two_cta_order.order() : 0;
    if (threadIdx.x == 0) {
      a.header->key_tile_count = key_tiles;
      a.header->query_run_count = runs;
      a.header->short_tile_count = short_tiles;
      a.header->two_cta_tile_count = two_cta_tiles;
      a.header->delta_tile_count = config::kTwoCta ? runs + next_delta_tile : runs;
      if constexpr (config::kTwoCta) next_delta_tile = runs;
    }
  }
  __syncthreads();
  for_each_owner(a, [&](const Sequence& s) {
    if (takes_two_cta(arguments, s)) {
      arguments.two_cta_tiles[two_cta_order.place(one_pass_cost(s), 1)] = whole_sequence(s);
      i32 place = atomicAdd(&next_delta_tile, tiles_of(s.query_rows));
      for_each_tile(s, [&](const QueryTile& tile) { a.tiles[place++] = tile; });
      return;
    }
    if (const i32 tiles = short_tiles_of(s); tiles > 0) {
      i32 place = short_order.place(one_pass_cost(s), tiles);
      for_each_short_tile(s, [&](const KeyTile& tile) { arguments.short_tiles[place++] = tile; });
      return;
    }
    i32 key_place = key_order.place(key_cost(s), tiles_of(s.key_rows));
    for_each_key_tile(s, [&](const KeyTile& tile) { arguments.key_tiles[key_place++] = tile; });
    if constexpr (!config::kBroadcastQuery) {
      i32 place = query_order.place(query_cost(s), tiles_of(s.query_rows));
      for_each_tile(s, [&](const QueryTile& tile) {
        a.tiles[place] = tile;
        arguments.query_runs[place] = {place, 1, 1, -1};
        ++place;
      });
    }
  });

  if constexpr (config::kBroadcastQuery) {
    // The shared query's gradient is a sum over the batch: a fixed part of the batch for every run.
    const i32 tiles = tiles_of(a.query_rows);
    for (i32 b = threadIdx.x; b < a.batch; b += blockDim.x) {
      i32 place = b * tiles;
      for_each_tile(load_sequence(a, b), [&](const QueryTile& tile) { a.tiles[place++] = tile; });
    }
    for (i32 run = threadIdx.x; run < tiles * arguments.query_parts; run += blockDim.x) {
      const i32 part = run / tiles;
      const i32 begin = static_cast<i32>(static_cast<i64>(a.batch) * part / arguments.query_parts);
      const i32 end = static_cast<i32>(static_cast<i64>(a.batch) * (part + 1) / arguments.query_parts);
      arguments.query_runs[run] = {begin * tiles + run % tiles, tiles, end - begin, part};
    }
  }
}
