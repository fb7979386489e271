// Gradients of keys and values for compute capability 9.0: a tile of keys stays, the queries that see it
// stream past through all heads of its group. Nothing is accumulated in memory.
//
//   load     one thread loads tiles
//   draw     one thread draws items
//   stats    LSE and delta of the queries
//   consume  warpgroups, 64 keys each: scores and their gradient, transposed, then both products. Of at most
//            64 keys each takes every other tile of queries
namespace jfa::kernel::keys {

using Config = config::Keys;

struct Control {
  using Config = config::Keys;
  BackwardPipeline<KeyTile> pipeline;
  alignas(16) QueryStats stats[kStreamedStages][kStreamedRows];
};

// What this thread's two keys see of the streamed tile that starts at `first`. Computed anew for every tile:
// registers are short.
__device__ inline Seen seen_from(const KeyTile& tile, const Share& share, int first) {
  const int row = opaque(share.first_row + fragment_first_row()) + tile.key_position - tile.query_position;
  const Seen seen = {{queries_of_key(row, tile.query_count), queries_of_key(row + 8, tile.query_count)}};
  return seen.from(first);
}

__device__ inline void consume(const BackwardShared<Control>& shared, const TensorMap* key_grad,
                               const TensorMap* value_grad, const BackwardArguments& arguments) {
  BackwardPipeline<KeyTile>& pipeline = shared.control->pipeline;
  const int consumer = threadIdx.x / kWarpgroupThreads - 1;
  const bool leader = threadIdx.x % kWarpgroupThreads == 0;
  Ring<kItemStages> items;
  Ring<kStationaryStages> stationary;
  Ring<kStreamedStages> streamed;
  for (;;) {
    const Item<KeyTile> item = take_item_by_warp(pipeline.queue, items);
    if (item.head < 0) break;
    const KeyTile& tile = item.tile;
    const Share share = share_of(tile.rows, consumer);
    const StationaryTile stationary_tiles[2] = {
        shared.stationary[stationary.slot][0].from_row(share.first_row),
        shared.stationary[stationary.slot][1].from_row(share.first_row)};
    float key_gradient[kGradientRegisters], value_gradient[kGradientRegisters];
#pragma unroll
    for (int i = 0; i < kGradientRegisters; ++i) key_gradient[i] = value_gradient[i] = 0.0f;

    stationary.wait_full(pipeline.stationary_full);
#pragma unroll 1
    for (int g = 0; g < config::kGroups; ++g) {
      for (int first = 0; first < tile.query_count; first += kStreamedRows) {
        if (!share.has(streamed.turn(), consumer)) {
          pass(pipeline.streamed_full, pipeline.streamed_empty, streamed);
          continue;
        }
        const StreamedTile streamed_tiles[2] = {shared.streamed[streamed.slot][0],
                                                shared.streamed[streamed.slot][1]};
        float scores[kScoreRegisters], gradients[kScoreRegisters];
        u32 probabilities[kStreamedSteps][4], score_grads[kStreamedSteps][4];
        streamed.wait_full(pipeline.streamed_full);
        issue_scores(scores, gradients, {opaque(stationary_tiles[0]), opaque(stationary_tiles[1])},
                     streamed_tiles);
        const Seen seen = seen_from(tile, share, first);
        const QueryStats* stats = shared.control->stats[streamed.slot];
        exponentiate(
            scores, [&](int i) { return stats[fragment_column(i)].lse_log2; },
            __any_sync(0xffffffff, !seen.all()), [&](int i, int column) { return seen.contains(i, column); },
            arguments.scale_log2);
        pack_fragment(scores, probabilities);
        differentiate(scores, gradients, [&](int i) { return stats[fragment_column(i)].delta; });
        pack_fragment(gradients, score_grads);
        multiply_streamed(value_gradient, probabilities, streamed_tiles[1]);
        multiply_streamed(key_gradient, score_grads, streamed_tiles[0]);
        wgmma_wait_group<0>();
        pin(value_gradient);
        pin(key_gradient);
        __syncwarp();  // every lane has read the stats
        release(pipeline.streamed_empty, streamed.slot);
        streamed.advance();
      }
    }

    if (share.split) {
      const SpareRows place{shared.stationary[stationary.slot].address};
      add_consumers(key_gradient, consumer, place);
      add_consumers(value_gradient, consumer, place);
      fence_proxy_async_shared();
    }
    // Both consumers have their own rows of the stationary tiles to themselves.
    const int valid_rows = tile.rows - consumer * kConsumerRows;
    if (valid_rows > 0) {
      begin_store(consumer);
      stage_gradient(stationary_tiles[0], key_gradient, arguments.scale);
      stage_gradient(stationary_tiles[1], value_gradient, 1.0f);
      end_store(consumer, item.head, tile.key_row + consumer * kConsumerRows, valid_rows,
                {{key_grad, stationary_tiles[0]}, {value_grad, stationary_tiles[1]}});
    }
    release(pipeline.stationary_empty, stationary.slot);
    stationary.advance();
  }
  if (leader) cp_async_bulk_wait_group();
}

}  // namespace jfa::kernel::keys

extern "C" __global__ void __launch_bounds__(jfa::kernel::config::Keys::kThreads,
                                             jfa::kernel::config::Keys::kCtas)
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
    setmaxnreg_dec<Config::LoadWarps::kRegisters>();
    const int warp = threadIdx.x / 32;
    if (warp == Config::LoadWarps::kFirst) {
      if (elect_sync()) load(shared, &query, &key, &value, &output_grad);
    } else if (warp == Config::DrawWarps::kFirst) {
      if (elect_sync()) {
        draw_items(pipeline.queue, arguments.key_tiles, &arguments.header->key_tile_count,
                   arguments.query_heads / config::kGroups, &arguments.header->next_key_item);
      }
    } else if (warp == Config::StatsWarps::kFirst) {
      load_stats(shared, arguments);
    }
  } else {
    setmaxnreg_inc<Config::ConsumeWarps::kRegisters>();
    consume(shared, &key_grad, &value_grad, arguments);
  }
}
