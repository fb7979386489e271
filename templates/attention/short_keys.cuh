// A backward in one pass for sequences whose keys fit one tile. The tile stays, the queries stream past
// through all heads of its group: gradients of keys and values as where keys are stationary, and
// with all keys at hand the query's is complete at once. Delta comes from output and output gradient on the
// way.
//
// One warp each draws items, loads tiles, fetches the LSE, and stores gradients; the rest is the target's.
namespace jfa::kernel::short_keys {

using Config = config::Short;
using StreamedTile = Config::Streamed::Stage::Tile;
constexpr int kStationaryStages = Config::Stationary::kStages;
constexpr int kStages = Config::Streamed::kStages;  // pairs of streamed tiles in flight

struct Pipeline {
  ItemQueue<KeyTile> queue;
  u64 stationary_full[kStationaryStages];
  u64 stationary_empty[kStationaryStages];
  u64 streamed_full[kStages];  // query and output gradient, and what streamed_fillers bring
  u64 streamed_empty[kStages];
  u64 output_full[1];
  u64 output_empty[1];
  u64 query_grad_full[1];  // staged in the place of the score gradients
  u64 query_grad_empty[1];
  u64 gradients_full[kStationaryStages];  // of keys and values, staged in the place of the stationary pair
};

// gradient_consumers: roles beside this file's that take items. streamed_fillers: arrivals beside the loading
// thread's that make a streamed pair complete. streamed_releases, output_releases: arrivals that give tiles
// back; query_grad_releases: the same of the query gradient's place, beside store()'s. gradient_arrivals:
// arrivals that make staged gradients complete.
__device__ inline void init_pipeline(Pipeline& pipeline, u32 gradient_consumers, u32 streamed_fillers,
                                     u32 streamed_releases, u32 output_releases, u32 query_grad_releases,
                                     u32 gradient_arrivals) {
  constexpr u32 kOwnConsumers = 3;  // load, load_stats, store
  init_item_queue(pipeline.queue, kOwnConsumers + gradient_consumers);
  for (int i = 0; i < kStationaryStages; ++i) {
    mbarrier_init(&pipeline.stationary_full[i], 1);
    mbarrier_init(&pipeline.stationary_empty[i], 1);
    mbarrier_init(&pipeline.gradients_full[i], gradient_arrivals);
  }
  for (int i = 0; i < kStages; ++i) {
    mbarrier_init(&pipeline.streamed_full[i], 1 + streamed_fillers);
    mbarrier_init(&pipeline.streamed_empty[i], streamed_releases);
  }
  mbarrier_init(&pipeline.output_full[0], 1);
  mbarrier_init(&pipeline.output_empty[0], output_releases);
  mbarrier_init(&pipeline.query_grad_full[0], gradient_arrivals);
  mbarrier_init(&pipeline.query_grad_empty[0], 1 + query_grad_releases);
}

template <class Control>
struct Shared {
  Config::Stationary stationary;  // keys and values
  Config::Streamed streamed;      // queries and output gradients
  // Score gradients of a streamed tile; then, in their place, the query's gradient.
  Config::RoundedScoreGrads score_grads;
  Config::StagedQueryGrad query_grad;
  Config::Output output;
  Control* control;
};

template <class Control>
__device__ inline Shared<Control> carve(unsigned char* bytes) {
  static_assert(sizeof(Control) <= Config::Control::kBytes);
  const u32 start = shared_address(bytes);
  const u32 tiles = first_tile(start);
  return {Config::Stationary::in(tiles),
          Config::Streamed::in(tiles),
          Config::RoundedScoreGrads::in(tiles),
          Config::StagedQueryGrad::in(tiles),
          Config::Output::in(tiles),
          reinterpret_cast<Control*>(bytes + (tiles - start) + Config::Control::kBegin)};
}

// Of the first query among the keys, all of which are in the tile.
__device__ inline i32 query_place(const KeyTile& tile) { return kAlignedAtEnds ? tile.query_position : 0; }

// What a key sees of all queries.
__device__ inline Intervals queries_of_key(const KeyTile& tile, i32 key) {
  return key < tile.rows ? kernel::queries_of_key(key - query_place(tile), tile.query_count)
                         : Intervals::none();
}

// Whether any of a streamed tile's queries from `first` on sees any key. The others' gradient is 0.
__device__ inline bool sees_keys(const KeyTile& tile, i32 first) {
  const Interval seen =
      keys_of_queries(query_place(tile) + first, min(kChunkRows, tile.query_count - first), tile.rows);
  return seen.end > seen.begin;
}

// As loaded_keys() of the queries, all of which stream past.
__device__ inline i32 loaded_queries(const KeyTile& tile) {
  return live_queries(tile.query_position, tile.query_count, tile.key_position, tile.rows);
}

template <class Control>
__device__ inline void load(const Shared<Control>& shared, const TensorMap* query, const TensorMap* key,
                            const TensorMap* value, const TensorMap* output, const TensorMap* output_grad) {
  Pipeline& pipeline = shared.control->pipeline;
  Ring<kItemStages> items;
  Ring<kStationaryStages> stationary;
  Ring<kStages> streamed;
  Ring<1> outputs;
  for (;;) {
    const Item<KeyTile> item = take_item(pipeline.queue, items);
    if (item.head < 0) break;
    const KeyTile& tile = item.tile;
    stationary.wait_empty(pipeline.stationary_empty);
    u64* stationary_full = &pipeline.stationary_full[stationary.slot];
    if (tile.query_count > 0 && tile.rows > 0) {
      load_pair(shared.stationary[stationary.slot], {{key, value}, {tile.key_row, tile.key_row}}, item.head,
                loaded_keys(tile), stationary_full);
    } else {
      mbarrier_arrive(stationary_full);
    }
    stationary.advance();
    const i32 queries = loaded_queries(tile);
    for (int g = 0; g < config::kGroups; ++g) {
      const int head = item.head * config::kGroups + g;
      for (int first = 0; first < tile.query_count; first += kChunkRows, streamed.advance()) {
        streamed.wait_empty(pipeline.streamed_empty);
        u64* streamed_full = &pipeline.streamed_full[streamed.slot];
        if (!sees_keys(tile, first)) {
          mbarrier_arrive(streamed_full);
          continue;
        }
        load_pair(shared.streamed[streamed.slot],
                  {{query, output_grad}, {tile.query_row + first, tile.output_row + first}}, head,
                  queries - first, streamed_full);
        outputs.wait_empty(pipeline.output_empty);
        mbarrier_arrive_expect_tx(&pipeline.output_full[0], Config::Output::Stage::kBytes);
        load_tile<kBoxRows>(shared.output[0], output, head, tile.output_row + first, queries - first,
                            &pipeline.output_full[0]);
        outputs.advance();
      }
    }
  }
  drain(pipeline.streamed_empty, streamed);
}

// Calls visit(tile, head, first) for all chunks of queries of all items, through the heads of their groups:
// by one warp. head: of the query; first: the chunk's first query.
template <class Visit>
__device__ inline void for_each_chunk(ItemQueue<KeyTile>& queue, Visit visit) {
  Ring<kItemStages> items;
  for (;;) {
    const Item<KeyTile> item = take_item_by_warp(queue, items);
    if (item.head < 0) break;
#pragma unroll 1
    for (int g = 0; g < config::kGroups; ++g) {
#pragma unroll 1
      for (int first = 0; first < item.tile.query_count; first += kChunkRows)
        visit(item.tile, item.head * config::kGroups + g, first);
    }
  }
}

// Of a query: LSE and, in the place of delta, less the gradient of that, which delta adds to.
__device__ inline QueryStats stats_before_delta(const ShortArguments& arguments, i64 place, bool valid) {
  return {lse_log2_of(arguments.lse + place, valid),
          valid && arguments.lse_grad != nullptr ? -arguments.lse_grad[place] : 0.0f};
}

// Stores what the target staged.
template <class Control>
__device__ inline void store(const Shared<Control>& shared, const TensorMap* query_grad,
                             const TensorMap* key_grad, const TensorMap* value_grad) {
  Pipeline& pipeline = shared.control->pipeline;
  Ring<kItemStages> items;
  Ring<kStationaryStages> stationary;
  Ring<1> query_grads;
  for (;;) {
    const Item<KeyTile> item = take_item(pipeline.queue, items);
    if (item.head < 0) break;
    const KeyTile& tile = item.tile;
#pragma unroll 1
    for (int g = 0; g < config::kGroups; ++g) {
      for (int first = 0; first < tile.query_count; first += kChunkRows) {
        query_grads.wait_full(pipeline.query_grad_full);
        for (int row = 0; row < kChunkRows; row += kBoxRows) {
          store_tile(query_grad, item.head * config::kGroups + g, tile.query_row + first + row,
                     tile.query_count - first - row, shared.query_grad[0].from_row(row));
        }
        cp_async_bulk_commit_group();
        cp_async_bulk_wait_group_read();
        mbarrier_arrive(&pipeline.query_grad_empty[0]);
        query_grads.advance();
      }
    }
    stationary.wait_full(pipeline.gradients_full);
    for (int half = 0; half < tile.rows; half += kBoxRows) {
      store_tile(key_grad, item.head, tile.key_row + half, tile.rows - half,
                 shared.stationary[stationary.slot][0].from_row(half));
      store_tile(value_grad, item.head, tile.key_row + half, tile.rows - half,
                 shared.stationary[stationary.slot][1].from_row(half));
    }
    cp_async_bulk_commit_group();
    cp_async_bulk_wait_group_read();
    mbarrier_arrive(&pipeline.stationary_empty[stationary.slot]);
    stationary.advance();
  }
  cp_async_bulk_wait_group();
}

}  // namespace jfa::kernel::short_keys
