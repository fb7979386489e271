// All gradients in one pass for compute capability 9.0, of sequences whose keys fit one tile.
//
//   load     one thread loads tiles
//   draw     one thread draws items
//   stats    LSE of the queries
//   store    one thread stores gradients
//   consume  warpgroups, 64 keys each: scores and their gradient, transposed, and the products of their keys;
//            delta of every other half of the queries; of the query's gradient every other column block, from
//            all keys
namespace jfa::kernel::short_keys {

static_assert(Config::ConsumeWarps::kCount == kConsumerWarps);
using ScoreGradTile = Config::RoundedScoreGrads::Stage;
using QueryGradTile = Config::StagedQueryGrad::Stage;
constexpr int kOwnBoxes = (StationaryTile::kBoxes + kConsumers - 1) / kConsumers;
constexpr int kBoxRegisters = StationaryTile::kBoxDim / 2;

struct Control {
  Pipeline pipeline;
  alignas(16) QueryStats stats[kStages][kStreamedRows];
};

// Whether this consumer's `own`-th column block exists.
__device__ inline bool has_box(int own, int consumer) {
  return (own + 1) * kConsumers <= StationaryTile::kBoxes ||
         own * kConsumers + consumer < StationaryTile::kBoxes;
}

// What this thread's two keys see of the streamed tile that starts at `first`. Computed anew for every tile:
// registers are short.
__device__ inline Seen seen_from(const KeyTile& tile, int consumer, int first) {
  const int key = opaque(consumer * kConsumerRows + fragment_first_row());
  Seen seen;
#pragma unroll
  for (int r = 0; r < 2; ++r) seen.rows[r] = queries_of_key(tile, key + 8 * r);
  return seen.from(first);
}

// Column block `box` of the query's gradient.
__device__ inline void multiply_keys(float (&gradient)[kBoxRegisters], ScoreGradTile score_grads,
                                     StationaryTile keys, int box) {
  mma_atb(gradient, score_grads, keys.from_box(box));
}

__device__ inline void stage_query_grad(QueryGradTile tile, int consumer,
                                        const float (&gradient)[kOwnBoxes][kBoxRegisters], float factor) {
  const float factors[2] = {factor, factor};
#pragma unroll
  for (int own = 0; own < kOwnBoxes; ++own) {
    const int box = own * kConsumers + consumer;
    if (has_box(own, consumer)) stage_fragment(tile.from_box(box), gradient[own], factors);
  }
}

// LSE of every query and, in the place of delta, less its gradient: what add_delta() adds to.
__device__ inline void load_stats(const Shared<Control>& shared, const ShortArguments& arguments) {
  Pipeline& pipeline = shared.control->pipeline;
  Ring<kStages> streamed;
  const int lane = threadIdx.x % 32;
  for_each_chunk(pipeline.queue, [&](const KeyTile& tile, i32 head, int first) {
    const i64 row = static_cast<i64>(head) * arguments.output_rows + tile.output_row;
    const i32 queries = loaded_queries(tile);
    QueryStats stats[kChunkRows / 32] = {};
    if (sees_keys(tile, first)) {
#pragma unroll
      for (int i = 0; i < kChunkRows / 32; ++i) {
        const int query = first + lane + 32 * i;
        stats[i] = stats_before_delta(arguments, row + query, query < queries);
      }
    }
    streamed.wait_empty(pipeline.streamed_empty);
#pragma unroll
    for (int i = 0; i < kChunkRows / 32; ++i) shared.control->stats[streamed.slot][lane + 32 * i] = stats[i];
    mbarrier_arrive(&pipeline.streamed_full[streamed.slot]);
    streamed.advance();
  });
}

// Adds a row's sum of products of output and output gradient to its delta: by four neighbouring lanes, all of
// the warp together.
__device__ inline void add_delta(QueryStats* stats, StreamedTile output, StreamedTile output_grad, u32 row) {
  constexpr u32 kLanes = 4;
  constexpr u32 kLaneBytes = 8;  // at a time
  const u32 lane = opaque(threadIdx.x % kLanes);
  float sum = 0.0f;
#pragma unroll 2
  for (u32 first = 0; first < config::kPaddedDim * kElementBytes; first += kLanes * kLaneBytes) {
    const u32 byte = first + lane * kLaneBytes;
    const u32 offset = byte / StreamedTile::kSwizzleBytes * StreamedTile::kBoxBytes +
                       swizzled_offset(row, byte / 16 % kChunksPerRow) + byte % 16;
    u32 left[2], right[2];
    ld_shared_v2(left, output.address + offset);
    ld_shared_v2(right, output_grad.address + offset);
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      sum += to_float(static_cast<u16>(left[i])) * to_float(static_cast<u16>(right[i]));
      sum += to_float(static_cast<u16>(left[i] >> 16)) * to_float(static_cast<u16>(right[i] >> 16));
    }
  }
#pragma unroll
  for (u32 distance = 1; distance < kLanes; distance *= 2) sum += __shfl_xor_sync(0xffffffff, sum, distance);
  if (lane == 0) stats[row].delta += sum;
}

// One streamed tile: adds to the gradients of keys and values, and stages the query's.
__device__ inline void attend(const Shared<Control>& shared, const StationaryTile (&stationary)[2],
                              const StreamedTile (&streamed)[2], QueryStats* stats, const KeyTile& tile,
                              int first, const ShortArguments& arguments, int consumer, Ring<1>& outputs,
                              Ring<1>& query_grads, float (&key_gradient)[kGradientRegisters],
                              float (&value_gradient)[kGradientRegisters]) {
  Pipeline& pipeline = shared.control->pipeline;
  const u32 half = box_bytes(consumer * kConsumerRows);
  float scores[kScoreRegisters], gradients[kScoreRegisters];
  u32 probabilities[kStreamedSteps][4], score_grads[kStreamedSteps][4];
  issue_scores(scores, gradients, {opaque(stationary[0] + half), opaque(stationary[1] + half)}, streamed);
  // Meanwhile delta, half of the rows each.
  outputs.wait_full(pipeline.output_full);
  add_delta(stats, shared.output[0], streamed[1],
            opaque(consumer * kStreamedRows / kConsumers + threadIdx.x % kWarpgroupThreads / 4));
  __syncwarp();
  release(pipeline.output_empty, outputs.slot);
  outputs.advance();
  const Seen seen = seen_from(tile, consumer, first);
  exponentiate(
      scores, [&](int i) { return stats[fragment_column(i)].lse_log2; }, __any_sync(0xffffffff, !seen.all()),
      [&](int i, int column) { return seen.contains(i, column); }, arguments.scale_log2);
  pack_fragment(scores, probabilities);
  multiply_streamed(value_gradient, probabilities, streamed[1]);
  sync_consumers();  // delta is complete
  differentiate<1>(scores, gradients, [&](int i) { return stats[fragment_column(i)].delta; });
  pack_fragment(gradients, score_grads);
  query_grads.wait_empty(pipeline.query_grad_empty);
  stage_packed(shared.score_grads[0] + half, score_grads);
  fence_proxy_async_shared();
  sync_consumers();

  float query_gradient[kOwnBoxes][kBoxRegisters];
  wgmma_fence();
#pragma unroll
  for (int own = 0; own < kOwnBoxes; ++own) {
    // A column block too few: both multiply the last one, since a product may not be left to one of them.
    const int box = min(own * kConsumers + consumer, StationaryTile::kBoxes - 1);
    multiply_keys(query_gradient[own], shared.score_grads[0], stationary[0], box);
  }
  wgmma_commit_group();
  multiply_streamed(key_gradient, score_grads, streamed[0]);
  wgmma_wait_group<1>();
#pragma unroll
  for (float(&box)[kBoxRegisters] : query_gradient) pin(box);
  sync_consumers();  // nobody reads the score gradients any more
  stage_query_grad(shared.query_grad[0], consumer, query_gradient, arguments.scale);
  wgmma_wait_group<0>();
  pin(value_gradient);
  pin(key_gradient);
}

__device__ inline void consume(const Shared<Control>& shared, const ShortArguments& arguments) {
  Pipeline& pipeline = shared.control->pipeline;
  const int consumer = threadIdx.x / kWarpgroupThreads - 1;
  const u32 half = box_bytes(consumer * kConsumerRows);
  Ring<kItemStages> items;
  Ring<kStationaryStages> stationary;
  Ring<kStages> streamed;
  Ring<1> outputs, query_grads;
  for (;;) {
    const Item<KeyTile> item = take_item_by_warp(pipeline.queue, items);
    if (item.head < 0) break;
    const KeyTile& tile = item.tile;
    const StationaryTile stationary_tiles[2] = {shared.stationary[stationary.slot][0],
                                                shared.stationary[stationary.slot][1]};
    float key_gradient[kGradientRegisters], value_gradient[kGradientRegisters];
#pragma unroll
    for (int i = 0; i < kGradientRegisters; ++i) key_gradient[i] = value_gradient[i] = 0.0f;

    stationary.wait_full(pipeline.stationary_full);
#pragma unroll 1
    for (int g = 0; g < config::kGroups; ++g) {
      for (int first = 0; first < tile.query_count; first += kStreamedRows) {
        streamed.wait_full(pipeline.streamed_full);
        if (sees_keys(tile, first)) {
          attend(shared, stationary_tiles,
                 {shared.streamed[streamed.slot][0], shared.streamed[streamed.slot][1]},
                 shared.control->stats[streamed.slot], tile, first, arguments, consumer, outputs, query_grads,
                 key_gradient, value_gradient);
        } else {
          query_grads.wait_empty(pipeline.query_grad_empty);
          const float zeros[kOwnBoxes][kBoxRegisters] = {};
          stage_query_grad(shared.query_grad[0], consumer, zeros, 1.0f);
        }
        fence_proxy_async_shared();
        __syncwarp();
        release(pipeline.query_grad_full, query_grads.slot);
        query_grads.advance();
        release(pipeline.streamed_empty, streamed.slot);
        streamed.advance();
      }
    }

    // Both consumers have their own rows of the stationary tiles to themselves: no product reads them any
    // more.
    stage_gradient(stationary_tiles[0] + half, key_gradient, arguments.scale);
    stage_gradient(stationary_tiles[1] + half, value_gradient, 1.0f);
    fence_proxy_async_shared();
    __syncwarp();
    release(pipeline.gradients_full, stationary.slot);
    stationary.advance();
  }
}

}  // namespace jfa::kernel::short_keys

extern "C" __global__ void __launch_bounds__(jfa::kernel::config::Short::kThreads,
                                             jfa::kernel::config::Short::kCtas)
    jfa_backward_short(const __grid_constant__ jfa::kernel::TensorMap query,
                       const __grid_constant__ jfa::kernel::TensorMap key,
                       const __grid_constant__ jfa::kernel::TensorMap value,
                       const __grid_constant__ jfa::kernel::TensorMap output,
                       const __grid_constant__ jfa::kernel::TensorMap output_grad,
                       const __grid_constant__ jfa::kernel::TensorMap query_grad,
                       const __grid_constant__ jfa::kernel::TensorMap key_grad,
                       const __grid_constant__ jfa::kernel::TensorMap value_grad,
                       const __grid_constant__ jfa::kernel::ShortArguments arguments) {
  using namespace jfa::kernel;
  using namespace jfa::kernel::short_keys;
  extern __shared__ unsigned char shared_bytes[];
  const short_keys::Shared<short_keys::Control> shared = short_keys::carve<short_keys::Control>(shared_bytes);
  short_keys::Pipeline& pipeline = shared.control->pipeline;
  if (threadIdx.x == 0) {
    short_keys::init_pipeline(pipeline, kConsumerWarps, 32, kConsumerWarps, kConsumerWarps, 0,
                              kConsumerWarps);
    fence_mbarrier_init();
  }
  __syncthreads();

  if (threadIdx.x < kWarpgroupThreads) {
    setmaxnreg_dec<Config::LoadWarps::kRegisters>();
    const int warp = threadIdx.x / 32;
    if (warp == Config::LoadWarps::kFirst) {
      if (elect_sync()) short_keys::load(shared, &query, &key, &value, &output, &output_grad);
    } else if (warp == Config::DrawWarps::kFirst) {
      if (elect_sync()) {
        draw_items(pipeline.queue, arguments.tiles, &arguments.header->short_tile_count,
                   arguments.query_heads / config::kGroups, &arguments.header->next_short_item);
      }
    } else if (warp == Config::StatsWarps::kFirst) {
      load_stats(shared, arguments);
    } else {
      if (elect_sync()) short_keys::store(shared, &query_grad, &key_grad, &value_grad);
    }
  } else {
    setmaxnreg_inc<Config::ConsumeWarps::kRegisters>();
    short_keys::consume(shared, arguments);
  }
}
