// Gradients of keys and values for compute capability 9.0: a tile of 128 keys stays, the queries that see it
// stream past, 64 at a time, through all heads of its group. Nothing is accumulated in memory.
//
//   warpgroup 0     warp 0: one thread loads tiles; warp 1: one thread draws items; warp 2: LSE and delta of
//   the queries warpgroups 1-2  64 keys each: scores and their gradient, transposed, then both products
namespace jfa::kernel::keys {

constexpr int kConsumers = 2;
constexpr int kConsumerRows = 64;
constexpr int kConsumerWarps = 4 * kConsumers;
constexpr int kGradientRegisters = config::kPaddedDim / 2;
constexpr int kScoreRegisters = kStreamedRows / 2;
constexpr int kStagingBarrier = 1;  // + consumer

struct Control {
  BackwardPipeline<KeyTile> pipeline;
  alignas(16) QueryStats stats[kStreamedStages][kStreamedRows];
};

// Scores become probabilities, their gradients what the key gradient is made of; both are rounded for the
// products.
__device__ inline void score_gradients(const float (&scores)[kScoreRegisters],
                                       float (&gradients)[kScoreRegisters], const QueryStats* stats,
                                       const Interval (&seen)[2], float scale_log2,
                                       u32 (&probabilities)[4][4], u32 (&score_grads)[4][4]) {
  float p[kScoreRegisters];
#pragma unroll
  for (int i = 0; i < kScoreRegisters; ++i) {
    const QueryStats& query = stats[fragment_column(i)];
    p[i] = ex2_approx(fmaf(scores[i], scale_log2, -query.lse_log2));
  }
  const bool masked =
      seen[0].begin > 0 || seen[0].end < kStreamedRows || seen[1].begin > 0 || seen[1].end < kStreamedRows;
  if (__any_sync(0xffffffff, masked)) {
#pragma unroll
    for (int i = 0; i < kScoreRegisters; ++i) {
      const Interval& row = seen[fragment_row(i)];
      if (fragment_column(i) < row.begin || fragment_column(i) >= row.end) p[i] = 0.0f;
    }
  }
#pragma unroll
  for (int i = 0; i < kScoreRegisters; ++i) {
    gradients[i] = p[i] * (gradients[i] - stats[fragment_column(i)].delta);
  }
  pack_fragment(p, probabilities);
  pack_fragment(gradients, score_grads);
}

__device__ inline void release(u64* empty, int slot) {
  if (threadIdx.x % 32 == 0) mbarrier_arrive(&empty[slot]);
}

__device__ inline void consume(const BackwardShared<Control>& shared, const TensorMap* key_grad,
                               const TensorMap* value_grad, const BackwardArguments& arguments) {
  BackwardPipeline<KeyTile>& pipeline = shared.control->pipeline;
  const int consumer = threadIdx.x / kWarpgroupThreads - 1;
  const bool leader = threadIdx.x % kWarpgroupThreads == 0;
  const u32 half = box_bytes(consumer * kConsumerRows);
  Ring<kItemStages> items;
  Ring<kStationaryStages> stationary;
  Ring<kStreamedStages> streamed;
  for (;;) {
    const Item<KeyTile> item = take_item_by_warp(pipeline.queue, items);
    if (item.head < 0) break;
    const KeyTile& tile = item.tile;
    const u32 keys = shared.stationary_tile(stationary.slot, 0) + half;
    const u32 values = shared.stationary_tile(stationary.slot, 1) + half;
    const int row = consumer * kConsumerRows + fragment_first_row();
    const Interval seen[2] = {visible(tile.key_position + row - tile.query_position, tile.query_count),
                              visible(tile.key_position + row + 8 - tile.query_position, tile.query_count)};
    float key_gradient[kGradientRegisters], value_gradient[kGradientRegisters];
#pragma unroll
    for (int i = 0; i < kGradientRegisters; ++i) key_gradient[i] = value_gradient[i] = 0.0f;

    stationary.wait_full(pipeline.stationary_full);
    for (int g = 0; g < config::kGroups; ++g) {
      for (int first = 0; first < tile.query_count; first += kStreamedRows) {
        const u32 queries = shared.streamed_tile(streamed.slot, 0);
        const u32 output_grads = shared.streamed_tile(streamed.slot, 1);
        float scores[kScoreRegisters], gradients[kScoreRegisters];
        u32 probabilities[4][4], score_grads[4][4];
        streamed.wait_full(pipeline.streamed_full);
        wgmma_fence();
#pragma unroll
        for (int k = 0; k < config::kPaddedDim / 16; ++k)
          wgmma_ss(scores, descriptor_k_major<kTileRows>(keys, k),
                   descriptor_k_major<kStreamedRows>(queries, k), k > 0);
#pragma unroll
        for (int k = 0; k < config::kPaddedDim / 16; ++k)
          wgmma_ss(gradients, descriptor_k_major<kTileRows>(values, k),
                   descriptor_k_major<kStreamedRows>(output_grads, k), k > 0);
        wgmma_commit_group();
        wgmma_wait_group<0>();
        pin(scores);
        pin(gradients);
        const Interval here[2] = {{seen[0].begin - first, seen[0].end - first},
                                  {seen[1].begin - first, seen[1].end - first}};
        score_gradients(scores, gradients, shared.control->stats[streamed.slot], here, arguments.scale_log2,
                        probabilities, score_grads);
        pin(value_gradient);
        pin(key_gradient);
        wgmma_fence();
#pragma unroll
        for (int k = 0; k < kStreamedRows / 16; ++k)
          wgmma_rs(value_gradient, probabilities[k], descriptor_n_major<kStreamedRows>(output_grads, k),
                   true);
#pragma unroll
        for (int k = 0; k < kStreamedRows / 16; ++k)
          wgmma_rs(key_gradient, score_grads[k], descriptor_n_major<kStreamedRows>(queries, k), true);
        wgmma_commit_group();
        wgmma_wait_group<0>();
        pin(value_gradient);
        pin(key_gradient);
        release(pipeline.streamed_empty, streamed.slot);
        streamed.advance();
      }
    }

    // Both consumers have their own rows of the stationary tiles to themselves.
    const int valid_rows = tile.rows - consumer * kConsumerRows;
    if (valid_rows > 0) {
      const float key_factor[2] = {arguments.scale, arguments.scale};
      const float value_factor[2] = {1.0f, 1.0f};
      bar_sync(kStagingBarrier + consumer, kWarpgroupThreads);  // all warps are done with the rows
      stage_fragment<kTileRows>(keys, key_gradient, key_factor);
      stage_fragment<kTileRows>(values, value_gradient, value_factor);
      fence_proxy_async_shared();
      bar_sync(kStagingBarrier + consumer, kWarpgroupThreads);
      if (leader) {
        const int first_row = tile.key_row + consumer * kConsumerRows;
        store_tile<kTileRows, kConsumerRows>(key_grad, item.head, first_row, valid_rows, keys);
        store_tile<kTileRows, kConsumerRows>(value_grad, item.head, first_row, valid_rows, values);
        cp_async_bulk_commit_group();
        cp_async_bulk_wait_group_read();
      }
      __syncwarp();
    }
    release(pipeline.stationary_empty, stationary.slot);
    stationary.advance();
  }
  if (leader) cp_async_bulk_wait_group();
}

}  // namespace jfa::kernel::keys

extern "C" __global__ void __launch_bounds__(384, 1)
    jfa_backward_keys(const __grid_constant__ jfa::kernel::TensorMap query,
                      const __grid_constant__ jfa::kernel::TensorMap key,
                      const __grid_constant__ jfa::kernel::TensorMap value,
                      const __grid_constant__ jfa::kernel::TensorMap output_grad,
                      const __grid_constant__ jfa::kernel::TensorMap key_grad,
                      const __grid_constant__ jfa::kernel::TensorMap value_grad,
                      const __grid_constant__ jfa::kernel::BackwardArguments arguments) {
  using namespace jfa::kernel;
  using namespace jfa::kernel::keys;
  extern __shared__ unsigned char shared_bytes[];
  const BackwardShared<keys::Control> shared = carve_backward<keys::Control>(shared_bytes);
  BackwardPipeline<KeyTile>& pipeline = shared.control->pipeline;
  if (threadIdx.x == 0) {
    init_pipeline(pipeline, 2 + kConsumerWarps, kConsumerWarps, 32);
    fence_mbarrier_init();
  }
  __syncthreads();

  if (threadIdx.x < kWarpgroupThreads) {
    setmaxnreg_dec<24>();
    const int warp = threadIdx.x / 32;
    if (warp == 0) {
      if (elect_sync()) load(shared, &query, &key, &value, &output_grad);
    } else if (warp == 1) {
      if (elect_sync()) {
        draw_items(pipeline.queue, arguments.key_tiles, arguments.header->key_tile_count,
                   arguments.query_heads / config::kGroups, &arguments.header->next_key_item);
      }
    } else if (warp == 2) {
      load_stats(shared, arguments);
    }
  } else {
    setmaxnreg_inc<240>();
    consume(shared, &key_grad, &value_grad, arguments);
  }
}
