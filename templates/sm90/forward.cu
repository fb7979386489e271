// The forward entry for compute capability 9.0: one CTA an SM, one query tile at a time.
//
//   load     one thread loads queries, keys and values
//   draw     one thread draws work items
//   consume  warpgroups: products, softmax and store of 64 query rows each
//
// A tile of at most 64 rows is shared by both consumer warpgroups: each takes every other key tile, and the
// first merges the two results. The scores of the next key tile are computed while the softmax of this one
// runs.
namespace jfa::kernel {

using Config = config::Forward;
constexpr int kConsumerWarps = Config::ConsumeWarps::kCount;
constexpr int kConsumers = 32 * kConsumerWarps / kWarpgroupThreads;
constexpr int kConsumerRows = kTileRows / kConsumers;
static_assert(kConsumerRows == kMmaRows);
constexpr int kOutputRegisters = config::kPaddedDim / 2;

// Named barriers; 0 is __syncthreads.
constexpr int kStagingBarrier = 1;  // + consumer
constexpr int kMergeBarrier = kStagingBarrier + kConsumers;

struct Control {
  Pipeline pipeline;
  RowState merged[kConsumerRows];  // of the second consumer's rows
};

// One consumer warpgroup's view of an item.
struct Share {
  int first_row;   // of the query tile
  int first_tile;  // of the key tiles, and then every `step`-th
  int step;
  bool idle;  // nothing to compute
};

__device__ inline Share share_of(const QueryTile& tile, int count, int consumer) {
  if (tile.rows > kConsumerRows) return {consumer * kConsumerRows, 0, 1, count == 0};
  return {0, consumer, kConsumers, consumer >= count};
}

__device__ inline bool keys_are_split(const QueryTile& tile, int count) {
  return tile.rows <= kConsumerRows && count > 1;
}

// The key and value tile of the other consumer.
__device__ inline void pass_tile(Pipeline& pipeline, Ring<kKeyValueStages>& tiles) {
  for (int i = 0; i < 2; ++i) pass(pipeline.key_value_full, pipeline.key_value_empty, tiles);
}

using QueriesTile = Config::Queries::Stage;
using KeysTile = Config::KeysAndValues::Stage;
constexpr int kProbabilitySteps = KeysTile::kRows / kMmaDepth;

__device__ inline void multiply_keys(float (&scores)[kScoreRegisters], QueriesTile query, KeysTile keys) {
  mma_abt(scores, query, keys);
  wgmma_commit_group();
}

__device__ inline void multiply_values(float (&output)[kOutputRegisters],
                                       const u32 (&probabilities)[kProbabilitySteps][4], KeysTile values,
                                       bool accumulate) {
  mma_ab(output, probabilities, values, accumulate);
  wgmma_commit_group();
}

// All key tiles of a share: unnormalised output and row states.
__device__ inline void attend(const Shared<Control>& shared, const QueryTile& tile, const Share& share,
                              int count, QueriesTile query, float scale_log2, Ring<kKeyValueStages>& tiles,
                              float (&output)[kOutputRegisters], RowState (&rows)[2]) {
  Pipeline& pipeline = shared.control->pipeline;
  const int row = share.first_row + fragment_first_row();
  const Intervals seen[2] = {keys_of_query(tile.query_position + row - tile.key_position, tile.key_count),
                             keys_of_query(tile.query_position + row + 8 - tile.key_position, tile.key_count)};
  auto keys_of = [&](int j, Intervals(&keys)[2]) {
    for (int r = 0; r < 2; ++r) keys[r] = seen[r].from(j * kTileRows);
  };

  float scores[kScoreRegisters];
  float factor[2];
  u32 probabilities[kProbabilitySteps][4];
  Intervals keys[2];

  for (int j = 0; j < share.first_tile; ++j) pass_tile(pipeline, tiles);
  tiles.wait_full(pipeline.key_value_full);
  wgmma_fence();
  multiply_keys(scores, query, shared.keys_and_values[tiles.slot]);
  wgmma_wait_group<0>();
  pin(scores);
  release(pipeline.key_value_empty, tiles.slot);
  tiles.advance();
  keys_of(share.first_tile, keys);
  softmax_fragment(scores, keys, scale_log2, rows, factor);
  pack_fragment(scores, probabilities);
  Ring<kKeyValueStages> values = tiles;
  tiles.advance();

  bool accumulate = false;
  int j = share.first_tile + 1;
  for (; j + share.step - 1 < count; j += share.step) {
    for (int skip = 1; skip < share.step; ++skip) pass_tile(pipeline, tiles);
    tiles.wait_full(pipeline.key_value_full);
    values.wait_full(pipeline.key_value_full);
    pin(output);
    wgmma_fence();
    multiply_keys(scores, query, shared.keys_and_values[tiles.slot]);
    multiply_values(output, probabilities, shared.keys_and_values[values.slot], accumulate);
    accumulate = true;
    wgmma_wait_group<1>();
    pin(scores);
    release(pipeline.key_value_empty, tiles.slot);
    tiles.advance();
    keys_of(j + share.step - 1, keys);
    softmax_fragment(scores, keys, scale_log2, rows, factor);
    wgmma_wait_group<0>();
    pin(output);
    release(pipeline.key_value_empty, values.slot);
    scale_rows(output, factor);
    pack_fragment(scores, probabilities);
    values = tiles;
    tiles.advance();
  }
  values.wait_full(pipeline.key_value_full);
  pin(output);
  wgmma_fence();
  multiply_values(output, probabilities, shared.keys_and_values[values.slot], accumulate);
  wgmma_wait_group<0>();
  pin(output);
  release(pipeline.key_value_empty, values.slot);
  for (; j < count; ++j) pass_tile(pipeline, tiles);
  for (RowState& state : rows) state.sum = quad_sum(state.sum);
}

// Adds the second consumer's result to the first's. Both call it; the staging tile carries the accumulator.
__device__ inline void merge(const Shared<Control>& shared, int consumer, float (&output)[kOutputRegisters],
                             RowState (&rows)[2]) {
  const int thread = threadIdx.x % kWarpgroupThreads;
  const int row = fragment_first_row();
  RowState* states = shared.control->merged;
  const u32 staging = shared.output.address + thread * 4;
  bar_sync(kMergeBarrier, kConsumers * kWarpgroupThreads);  // the staging tile is free
  if (consumer == 1) {
#pragma unroll
    for (int i = 0; i < kOutputRegisters; ++i) st_shared(staging + i * kWarpgroupThreads * 4, output[i]);
    if (thread % 4 == 0) {
      states[row] = rows[0];
      states[row + 8] = rows[1];
    }
  }
  bar_sync(kMergeBarrier, kConsumers * kWarpgroupThreads);
  if (consumer == 1) {
    // Its half of the staging tile is its own again once the first consumer has read it.
    bar_sync(kMergeBarrier, kConsumers * kWarpgroupThreads);
    return;
  }
  float mine[2], theirs[2];
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    const RowState other = states[row + 8 * r];
    const float reference = fmaxf(rows[r].reference, other.reference);
    const float finite = reference == kMinusInfinity ? 0.0f : reference;
    mine[r] = ex2_approx(rows[r].reference - finite);
    theirs[r] = ex2_approx(other.reference - finite);
    rows[r] = {reference, rows[r].sum * mine[r] + other.sum * theirs[r]};
  }
#pragma unroll
  for (int i = 0; i < kOutputRegisters; ++i) {
    const float other = ld_shared(staging + i * kWarpgroupThreads * 4);
    output[i] = output[i] * mine[fragment_row(i)] + other * theirs[fragment_row(i)];
  }
  bar_arrive(kMergeBarrier, kConsumers * kWarpgroupThreads);
}

__device__ inline void consume(const Shared<Control>& shared, const TensorMap* output_map,
                               const ForwardArguments& arguments) {
  Pipeline& pipeline = shared.control->pipeline;
  const int consumer = threadIdx.x / kWarpgroupThreads - 1;
  const int thread = threadIdx.x % kWarpgroupThreads;
  const bool leader = thread == 0;
  // Each consumer has a tile of its own rows.
  using StagingTile = Config::Output::Stage::WithRows<kConsumerRows>;
  const StagingTile staging = {shared.output.address + consumer * StagingTile::kBytes};
  Ring<kItemStages> items;
  Ring<kQueryStages> queries;
  Ring<kKeyValueStages> tiles;
  for (;;) {
    const Item<QueryTile> item = take_item_by_warp(pipeline.queue, items);
    if (item.head < 0) break;
    const QueryTile& tile = item.tile;
    const int count = tiles_of(tile.key_count);
    const Share share = share_of(tile, count, consumer);
    float output[kOutputRegisters];
    RowState rows[2];
    if (count > 0) {
      queries.wait_full(pipeline.query_full);
      if (share.idle) {
        for (int j = 0; j < count; ++j) pass_tile(pipeline, tiles);
      } else {
        const QueriesTile query = shared.queries[queries.slot].from_row(share.first_row);
        attend(shared, tile, share, count, query, arguments.scale_log2, tiles, output, rows);
      }
      release(pipeline.query_empty, queries.slot);
      queries.advance();
    }
    if (share.idle) {
#pragma unroll
      for (float& value : output) value = 0.0f;
    }

    if (leader) cp_async_bulk_wait_group_read();
    if (keys_are_split(tile, count)) merge(shared, consumer, output, rows);
    const int valid_rows = tile.rows - consumer * kConsumerRows;
    if (valid_rows <= 0) continue;
    const int first_row = consumer * kConsumerRows;
    float inverse_sum[2];
    for (int r = 0; r < 2; ++r) inverse_sum[r] = rows[r].sum == 0.0f ? 0.0f : 1.0f / rows[r].sum;
    const int row = fragment_first_row();
    if (tile.part >= 0) {
      const i64 partial = partial_row(tile.part, arguments.query_heads, item.head, first_row);
      store_fragment(arguments.partial_output + partial * config::kPaddedDim, output, inverse_sum,
                     valid_rows);
      if (thread % 4 == 0) {
        for (int r = 0; r < 2; ++r)
          if (row + 8 * r < valid_rows)
            arguments.partial_states[partial + row + 8 * r] = partial_state(rows[r]);
      }
      continue;
    }
    bar_sync(kStagingBarrier + consumer, kWarpgroupThreads);
    stage_fragment(staging, output, inverse_sum);
    fence_proxy_async_shared();
    bar_sync(kStagingBarrier + consumer, kWarpgroupThreads);
    if (leader) {
      store_tile(output_map, item.head, tile.output_row + first_row, valid_rows, staging);
      cp_async_bulk_commit_group();
    }
    if (arguments.lse != nullptr && thread % 4 == 0) {
      float* lse =
          arguments.lse + static_cast<i64>(item.head) * arguments.output_rows + tile.output_row + first_row;
      for (int r = 0; r < 2; ++r)
        if (row + 8 * r < valid_rows) lse[row + 8 * r] = log_sum_exp(rows[r]);
    }
  }
  if (leader) cp_async_bulk_wait_group();
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
