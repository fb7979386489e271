// The forward entry for compute capability 9.0: one CTA an SM, one query tile at a time.
//
//   load     one thread loads queries, keys and values
//   draw     one thread draws work items
//   consume  warpgroups: products, softmax and store of 64 query rows each
//
// The scores of the next key tile are computed while the softmax of this one runs.
namespace jfa::kernel {

using QueriesTile = Config::Queries::Stage;
using KeysTile = Config::KeysAndValues::Stage;
constexpr int kProbabilitySteps = KeysTile::kRows / kMmaDepth;

// Items of fewer key tiles, and split keys, whose consumers may have different numbers of them, go without
// turns.
constexpr int kLeastTurnTiles = 4;

// What a consumer carries from tile to tile.
struct Walk {
  Ring<kQueryStages> queries;
  Ring<kKeyValueStages> tiles;   // at the keys that are multiplied next, or being multiplied
  Ring<kKeyValueStages> values;  // at the values that are multiplied next, or being multiplied
  u32 probabilities[kProbabilitySteps][4];
  float output[kOutputRegisters];
  RowState rows[2];
};

// A group of products each. The other operand is a whole tile.
__device__ inline void multiply_keys(const Shared<Control>& shared, const Walk& walk, const Share& share,
                                     float (&scores)[kScoreRegisters]) {
  const QueriesTile query = shared.queries[walk.queries.slot].from_row(share.first_row);
  mma_abt(scores, query, shared.keys_and_values[walk.tiles.slot]);
  wgmma_commit_group();
}
__device__ inline void multiply_values(const Shared<Control>& shared, Walk& walk, bool accumulate) {
  mma_ab(walk.output, walk.probabilities, shared.keys_and_values[walk.values.slot], accumulate);
  wgmma_commit_group();
}

// Key and value tiles of the other consumer.
__device__ inline void pass_tiles(Pipeline& pipeline, Ring<kKeyValueStages>& tiles, int count) {
  for (int i = 0; i < 2 * count; ++i) pass(pipeline.key_value_full, pipeline.key_value_empty, tiles);
}

// Waits until the tile before has been added to the output, and gives its values back.
__device__ inline void finish_values(Pipeline& pipeline, Walk& walk) {
  wgmma_wait_group<0>();
  pin(walk.output);
  release(pipeline.key_value_empty, walk.values.slot);
}

// The usual tile, while the products of the tile before are being added to the output: scores become
// probabilities without anybody having waited for their maxima. The first half of them is made while the
// products still read those before it. False, with the scores as they were, if a row needs another reference;
// `waited`: whether the products are complete.
__device__ inline bool finish_whole_tile(Pipeline& pipeline, Walk& walk,
                                         const float (&scores)[kScoreRegisters], float scale_log2,
                                         bool& waited) {
  u32 first[kProbabilitySteps / 2][4], second[kProbabilitySteps / 2][4];
  float sum[2] = {0.0f, 0.0f};
  waited = false;
  if (half_of_probabilities<0>(scores, scale_log2, walk.rows, sum, first)) return false;
  finish_values(pipeline, walk);
  waited = true;
  if (half_of_probabilities<1>(scores, scale_log2, walk.rows, sum, second)) return false;
  for (int r = 0; r < 2; ++r) walk.rows[r].sum += sum[r];
#pragma unroll
  for (int k = 0; k < kProbabilitySteps / 2; ++k) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      walk.probabilities[k][i] = first[k][i];
      walk.probabilities[kProbabilitySteps / 2 + k][i] = second[k][i];
    }
  }
  return true;
}

// Any tile: masks and references come first. seen: keys that the thread's rows see. kFirst: of the share, so
// that no products are on their way.
template <bool kFirst>
__device__ inline void finish_tile(Pipeline& pipeline, Walk& walk, float (&scores)[kScoreRegisters],
                                   const Intervals (&seen)[2], int tile, float scale_log2, bool waited) {
  Intervals keys[2];
  for (int r = 0; r < 2; ++r) keys[r] = seen[r].from(tile * kTileRows);
  float factor[2];
  const Exponent exponent = update_references(scores, keys, scale_log2, walk.rows, factor);
  if constexpr (!kFirst) {
    wgmma_wait_group<0>();  // even if `waited`: ptxas serialises what some path does not wait for
    pin(walk.output);
    if (!waited) release(pipeline.key_value_empty, walk.values.slot);
    scale_rows(walk.output, factor);
  }
  exponentials(scores, exponent, walk.rows);
  pack_fragment(scores, walk.probabilities);
}

// The next key tile of a share begins.
__device__ inline void advance(Walk& walk) {
  walk.tiles.advance();
  walk.values = walk.tiles;
  walk.tiles.advance();
}

// All key tiles of a share: unnormalised output and row states.
__device__ inline void attend(const Shared<Control>& shared, int consumer, const QueryTile& tile,
                              const Share& share, float scale_log2, Walk& walk) {
  Pipeline& pipeline = shared.control->pipeline;
  const int offset = tile.query_position + share.first_row + fragment_first_row() - tile.key_position;
  const Intervals seen[2] = {keys_of_query(offset, tile.key_count),
                             keys_of_query(offset + 8, tile.key_count)};
  const Interval whole = whole_tiles(tile, share, scale_log2);
  float scores[kScoreRegisters];

  pass_tiles(pipeline, walk.tiles, share.first_tile);
  walk.tiles.wait_full(pipeline.key_value_full);
  wgmma_fence();
  multiply_keys(shared, walk, share, scores);
  wgmma_wait_group<0>();
  pin(scores);
  release(pipeline.key_value_empty, walk.tiles.slot);
  finish_tile<true>(pipeline, walk, scores, seen, share.first_tile, scale_log2, true);
  advance(walk);

  bool accumulate = false;
  const bool turns = share.step == 1 && share.count >= kLeastTurnTiles;
  int j = share.first_tile;
  while (j + share.step < share.count) {
    pass_tiles(pipeline, walk.tiles, share.step - 1);
    j += share.step;
    walk.tiles.wait_full(pipeline.key_value_full);
    walk.values.wait_full(pipeline.key_value_full);
    if (turns) wait_for_turn(consumer);
    pin(walk.output);
    wgmma_fence();
    multiply_keys(shared, walk, share, scores);
    multiply_values(shared, walk, accumulate);
    accumulate = true;
    if (turns) pass_turn(consumer);
    wgmma_wait_group<1>();
    pin(scores);
    release(pipeline.key_value_empty, walk.tiles.slot);
    bool waited = false;
    const bool is_whole = whole.begin <= j && j < whole.end;
    if (!is_whole || !finish_whole_tile(pipeline, walk, scores, scale_log2, waited))
      finish_tile<false>(pipeline, walk, scores, seen, j, scale_log2, waited);
    advance(walk);
  }
  walk.values.wait_full(pipeline.key_value_full);
  pin(walk.output);
  wgmma_fence();
  multiply_values(shared, walk, accumulate);
  finish_values(pipeline, walk);
  pass_tiles(pipeline, walk.tiles, share.count - 1 - j);
  for (RowState& state : walk.rows) state.sum = quad_sum(state.sum);
}

__device__ inline void consume(const Shared<Control>& shared, const TensorMap* output_map,
                               const ForwardArguments& arguments) {
  Pipeline& pipeline = shared.control->pipeline;
  const int consumer = threadIdx.x / kWarpgroupThreads - 1;
  if (consumer == kConsumers - 1) pass_turn(consumer);
  Ring<kItemStages> items;
  Walk walk;
  for (;;) {
    const Item<QueryTile> item = take_item_by_warp(pipeline.queue, items);
    if (item.head < 0) break;
    const Share share = share_of(item.tile, consumer);
    walk.rows[0] = walk.rows[1] = RowState{};
    if (share.count > 0) {
      walk.queries.wait_full(pipeline.query_full);
      if (share.live())
        attend(shared, consumer, item.tile, share, arguments.scale_log2, walk);
      else
        pass_tiles(pipeline, walk.tiles, share.count);
      release(pipeline.query_empty, walk.queries.slot);
      walk.queries.advance();
    }
    if (!share.live()) {
#pragma unroll
      for (float& value : walk.output) value = 0.0f;
    }
    store(shared, output_map, arguments, consumer, item, share, walk.output, walk.rows);
  }
  if (consumer == 0) wait_for_turn(consumer);  // the arrival that nobody else waits for
  if (threadIdx.x % kWarpgroupThreads == 0) cp_async_bulk_wait_group();
}

}  // namespace jfa::kernel

extern "C" __global__ void __launch_bounds__(jfa::kernel::config::Forward::kThreads,
                                             jfa::kernel::config::Forward::kCtas)
    jfa_forward(const __grid_constant__ jfa::kernel::TensorMap query,
                const __grid_constant__ jfa::kernel::TensorMap key,
                const __grid_constant__ jfa::kernel::TensorMap value,
                const __grid_constant__ jfa::kernel::TensorMap output,
                const __grid_constant__ jfa::kernel::ForwardArguments arguments) {
  using namespace jfa::kernel;
  griddepcontrol_launch_dependents();  // the merge entry's CTAs wait until this one's leave room
  extern __shared__ unsigned char shared_bytes[];
  const Shared<Control> shared = carve<Control>(shared_bytes);
  Pipeline& pipeline = shared.control->pipeline;
  if (threadIdx.x == 0) {
    init_pipeline(pipeline, 1 + kConsumerWarps, kConsumerWarps);
    fence_mbarrier_init();
  }
  __syncthreads();

  if (threadIdx.x < kWarpgroupThreads) {
    setmaxnreg_dec<Config::LoadWarps::kRegisters>();
    if (threadIdx.x / 32 == Config::LoadWarps::kFirst) {
      if (elect_sync()) load(shared, pipeline, &query, &key, &value);
    } else if (threadIdx.x / 32 == Config::DrawWarps::kFirst) {
      if (elect_sync())
        draw_items(pipeline.queue, arguments.tiles, &arguments.header->tile_count, arguments.query_heads,
                   &arguments.header->next_item);
    }
  } else {
    setmaxnreg_inc<Config::ConsumeWarps::kRegisters>();
    consume(shared, &output, arguments);
  }
}
