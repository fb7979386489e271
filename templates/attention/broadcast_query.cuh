// A backward in one pass for a query that the whole batch shares, when the queries of a group fit one tile.
// They stay, and every key tile comes by once: with all queries in one tile its gradients are complete at
// once, and the query's stays on chip from tile to tile and from sequence to sequence. An item is one part of
// the list of all key tiles for one key head; parts are summed later, in order.
//
// Heads of a group lie one below the other in their tile, in slots of arguments.slot_rows rows. The tile has
// kRows rows, one of two numbers: a launch takes the smaller one that holds its slots.
//
// One warp each draws items, loads tiles, fetches LSE and delta, and stores the gradients of keys and values;
// the rest is the target's.
namespace jfa::kernel::broadcast {

using Config = config::Broadcast;
using PairTile = Config::Pairs::Stage::Tile;
constexpr int kPairStages = Config::Pairs::kStages;  // (key, value) tiles in flight
// Queries lie in a tile of kLargeTileRows rows, or of kSmallTileRows, in the same place.
constexpr int kLargeTileRows = Config::Queries::Stage::kRows;
constexpr int kSmallTileRows = Config::OutputGrads::Stage::kRows;
constexpr int kOutputGradRows = Config::OutputGrads::kStages * kSmallTileRows;
template <int kRows>
using QueriesTile = PairTile::WithRows<kRows>;

template <int kRows>
constexpr int kOutputGradStages = kOutputGradRows / kRows;
constexpr int kMostOutputGradStages = kOutputGradStages<kSmallTileRows>;

struct Pipeline {
  ItemQueue<KeyRun> queue;
  u64 query_full[1];
  u64 query_empty[1];
  u64 output_grad_full[kMostOutputGradStages];
  u64 output_grad_empty[kMostOutputGradStages];
  u64 pair_full[kPairStages];
  u64 pair_empty[kPairStages];
  u64 gradients_full[kPairStages];  // of keys and values, in the place of the pair
};

// gradient_consumers: roles beside this file's that take items. tile_releases: arrivals that give query and
// output-gradient tiles back. gradient_arrivals: arrivals that make a pair's gradients complete.
__device__ inline void init_pipeline(Pipeline& pipeline, u32 gradient_consumers, u32 tile_releases,
                                     u32 gradient_arrivals) {
  constexpr u32 kOwnConsumers = 3;  // load, load_stats, store
  init_item_queue(pipeline.queue, kOwnConsumers + gradient_consumers);
  mbarrier_init(&pipeline.query_full[0], 1);
  mbarrier_init(&pipeline.query_empty[0], tile_releases);
  for (int i = 0; i < kMostOutputGradStages; ++i) {
    mbarrier_init(&pipeline.output_grad_full[i], 1 + 32);
    mbarrier_init(&pipeline.output_grad_empty[i], tile_releases);
  }
  for (int i = 0; i < kPairStages; ++i) {
    mbarrier_init(&pipeline.pair_full[i], 1);
    mbarrier_init(&pipeline.pair_empty[i], 1);
    mbarrier_init(&pipeline.gradients_full[i], gradient_arrivals);
  }
}

template <class Control>
struct Shared {
  Config::Queries queries;
  Config::OutputGrads output_grads;
  Config::RoundedScoreGrads score_grads;
  Config::Pairs pairs;  // keys and values
  Control* control;

  template <int kRows>
  __device__ inline QueriesTile<kRows> query_tile() const {
    return {queries.address};
  }
  template <int kRows>
  __device__ inline QueriesTile<kRows> output_grad_tile(int stage) const {
    return {output_grads.address + stage * QueriesTile<kRows>::kBytes};
  }
};

template <class Control>
__device__ inline Shared<Control> carve(unsigned char* bytes) {
  static_assert(sizeof(Control) <= Config::Control::kBytes);
  const u32 start = shared_address(bytes);
  const u32 tiles = first_tile(start);
  return {Config::Queries::in(tiles), Config::OutputGrads::in(tiles), Config::RoundedScoreGrads::in(tiles),
          Config::Pairs::in(tiles),
          reinterpret_cast<Control*>(bytes + (tiles - start) + Config::Control::kBegin)};
}

// Loaded rows, as loaded_rows() of a tile: of the query, of a run's output gradient, of the keys of its tile
// at `first`. A query that sees a key of any sequence is there for all of them.
__device__ inline i32 loaded_queries(const BroadcastArguments& arguments) {
  return live_queries(0, arguments.query_rows, 0, arguments.header->longest_key_rows);
}
__device__ inline i32 loaded_output_grads(const KeyRun& run, i32 query_rows) {
  return live_queries(0, query_rows, run.key_position, run.rows);
}
__device__ inline i32 loaded_keys(const KeyRun& run, i32 first, i32 query_rows) {
  return live_keys(run.key_position + first, run.rows - first, 0, query_rows);
}

__device__ inline bool has_output_grad(const KeyRun& run) { return run.rows > 0 && run.output_row >= 0; }

// No load reaches the rows below the slots, but products read them.
template <class Tile>
__device__ inline void clear_below_slots(Tile tile, i32 slot_rows) {
  const int begin = config::kGroups * slot_rows * Tile::kSwizzleBytes;
  for (int box = 0; box < Tile::kBoxes; ++box) {
    for (int byte = begin + threadIdx.x * 16; byte < Tile::kBoxBytes; byte += blockDim.x * 16)
      st_shared_v4(tile.from_box(box).address + byte, 0, 0, 0, 0);
  }
}

// By the whole CTA, before its roles begin.
template <int kRows, class Control>
__device__ inline void clear_spare_rows(const Shared<Control>& shared, i32 slot_rows) {
  clear_below_slots(shared.template query_tile<kRows>(), slot_rows);
  for (int stage = 0; stage < kOutputGradStages<kRows>; ++stage)
    clear_below_slots(shared.template output_grad_tile<kRows>(stage), slot_rows);
  fence_proxy_async_shared();
}

// Slots of one tile, `rows` rows from the row `first` on of every head of the group. The map's boxes have
// slot_rows rows.
template <class Tile>
__device__ inline void load_slots(Tile tile, const TensorMap* map, int key_head, int first, int rows,
                                  const BroadcastArguments& arguments, u64* full) {
  mbarrier_arrive_expect_tx(full, config::kGroups * arguments.slot_rows * config::kPaddedDim * kElementBytes);
  for (int box = 0; box < Tile::kBoxes; ++box) {
    for (int g = 0; g < config::kGroups; ++g) {
      cp_async_bulk_tensor_load(tile.from_box(box).from_row(g * arguments.slot_rows).address, map,
                                ragged_box(box * Tile::kBoxDim, key_head * config::kGroups + g, first, rows),
                                full);
    }
  }
}

template <int kRows, class Control>
__device__ inline void load(const Shared<Control>& shared, const BroadcastArguments& arguments,
                            const TensorMap* query, const TensorMap* key, const TensorMap* value,
                            const TensorMap* output_grad) {
  Pipeline& pipeline = shared.control->pipeline;
  Ring<kItemStages> items;
  Ring<1> queries;
  Ring<kOutputGradStages<kRows>> output_grads;
  Ring<kPairStages> pairs;
  for (;;) {
    const Item<KeyRun> item = take_item(pipeline.queue, items);
    if (item.head < 0) break;
    const KeyRun& run = item.tile;
    if (run.first) {
      queries.wait_empty(pipeline.query_empty);
      load_slots(shared.template query_tile<kRows>(), query, item.head, 0, loaded_queries(arguments),
                 arguments, &pipeline.query_full[0]);
      queries.advance();
    }
    if (has_output_grad(run)) {
      output_grads.wait_empty(pipeline.output_grad_empty);
      load_slots(shared.template output_grad_tile<kRows>(output_grads.slot), output_grad, item.head,
                 run.output_row, loaded_output_grads(run, arguments.query_rows), arguments,
                 &pipeline.output_grad_full[output_grads.slot]);
      output_grads.advance();
    }
    for (int first = 0; first < run.rows; first += kTileRows) {
      pairs.wait_empty(pipeline.pair_empty);
      u64* full = &pipeline.pair_full[pairs.slot];
      if (tile_is_seen(run, first, arguments.query_rows)) {
        load_pair(shared.pairs[pairs.slot], {{key, value}, {run.key_row + first, run.key_row + first}},
                  item.head, loaded_keys(run, first, arguments.query_rows), full);
      } else {
        mbarrier_arrive(full);
      }
      pairs.advance();
    }
  }
  drain(pipeline.query_empty, queries);
  drain(pipeline.output_grad_empty, output_grads);
}

// LSE and delta of every row of the tile; rows between the slots' queries get what makes their probabilities
// 0.
template <int kRows, class Control>
__device__ inline void load_stats(const Shared<Control>& shared, const BroadcastArguments& arguments) {
  Pipeline& pipeline = shared.control->pipeline;
  Ring<kItemStages> items;
  Ring<kOutputGradStages<kRows>> output_grads;
  const int lane = threadIdx.x % 32;
  for (;;) {
    const Item<KeyRun> item = take_item_by_warp(pipeline.queue, items);
    if (item.head < 0) break;
    const KeyRun& run = item.tile;
    if (!has_output_grad(run)) continue;
    const i32 queries = loaded_output_grads(run, arguments.query_rows);
    QueryStats stats[kRows / 32];
#pragma unroll
    for (int i = 0; i < kRows / 32; ++i) {
      const int row = lane + 32 * i;
      const int slot = row / arguments.slot_rows;
      const int query = row % arguments.slot_rows;
      const bool valid = slot < config::kGroups && query < queries;
      const i64 place = static_cast<i64>(item.head * config::kGroups + slot) * arguments.output_rows +
                        run.output_row + query;
      stats[i] = {lse_log2_of(arguments.lse + place, valid), valid ? arguments.delta[place] : 0.0f};
    }
    output_grads.wait_empty(pipeline.output_grad_empty);
#pragma unroll
    for (int i = 0; i < kRows / 32; ++i)
      shared.control->stats[output_grads.slot * kRows + lane + 32 * i] = stats[i];
    mbarrier_arrive(&pipeline.output_grad_full[output_grads.slot]);
    output_grads.advance();
  }
}

// Stores what the target staged in the place of keys and values.
template <class Control>
__device__ inline void store(const Shared<Control>& shared, const TensorMap* key_grad,
                             const TensorMap* value_grad) {
  Pipeline& pipeline = shared.control->pipeline;
  Ring<kItemStages> items;
  Ring<kPairStages> pairs;
  for (;;) {
    const Item<KeyRun> item = take_item(pipeline.queue, items);
    if (item.head < 0) break;
    const KeyRun& run = item.tile;
    for (int first = 0; first < run.rows; first += kTileRows) {
      const int rows = min(kTileRows, run.rows - first);
      pairs.wait_full(pipeline.gradients_full);
      for (int half = 0; half < rows; half += kBoxRows) {
        store_tile(key_grad, item.head, run.key_row + first + half, rows - half,
                   shared.pairs[pairs.slot][0].from_row(half));
        store_tile(value_grad, item.head, run.key_row + first + half, rows - half,
                   shared.pairs[pairs.slot][1].from_row(half));
      }
      cp_async_bulk_commit_group();
      cp_async_bulk_wait_group_read();
      mbarrier_arrive(&pipeline.pair_empty[pairs.slot]);
      pairs.advance();
    }
  }
  cp_async_bulk_wait_group();
}

// The drawing thread's whole life: every part once per key head. Heads are innermost, so that neighbouring
// CTAs read whole rows of the tensors at about the same time.
__device__ inline void draw_parts(ItemQueue<KeyRun>& queue, const BroadcastArguments& arguments) {
  const i32 heads = arguments.query_heads / config::kGroups;
  const u32 items = arguments.header->key_tile_count == 0 ? 0 : static_cast<u32>(arguments.parts) * heads;
  Ring<kItemStages> ring;
  for (;;) {
    const u32 index = atomicAdd(&arguments.header->next_key_item, 1);
    if (index >= items) break;
    draw_part(queue, ring, arguments, static_cast<i32>(index / heads), static_cast<i32>(index % heads));
  }
  push_item(queue, ring, KeyRun{}, -1);
}

}  // namespace jfa::kernel::broadcast
