// Gradients of keys and values for compute capability 10.x: a tile of keys stays, the queries that see it
// stream past through all heads of its group. Nothing is accumulated in memory. One more warp fetches the
// queries' LSE and delta.
namespace jfa::kernel::keys {

struct Control {
  using Config = config::Keys;
  BackwardPipeline<KeyTile> pipeline;
  ProductBarriers barriers;
  u32 tensor_memory;
  ColumnStats<kStreamedRows> stats[kStreamedStages];
};

struct Work {
  using Config = config::Keys;
  using Gradient = Config::KeyGrad;  // of what is stationary
  static constexpr bool kValueGradient = true;
  __device__ static inline int segments(const KeyTile&) { return 1; }
  __device__ static inline int streamed_tiles(const BackwardArguments&, const KeyTile& tile, int) {
    return config::kGroups * ((tile.query_count + kStreamedRows - 1) / kStreamedRows);
  }
  // The stationary tiles stay until the gradients have left through them.
  __device__ static inline bool leaves_stationary(const KeyTile&) { return false; }
};

__device__ inline void consume(const BackwardShared<Control>& shared, TensorMemory memory,
                               const TensorMap* key_grad, const TensorMap* value_grad,
                               const BackwardArguments& arguments) {
  Control& control = *shared.control;
  BackwardPipeline<KeyTile>& pipeline = control.pipeline;
  const int row = threadIdx.x % kGradientThreads;
  const int share = threadIdx.x / kGradientThreads - config::Keys::GradientsWarps::kFirst / kGradientWarps;
  const bool leader = row == 0 && share == 0;
  const TensorMemory lane_memory = lanes_of(memory, row);
  Ring<kItemStages> items;
  Ring<kStationaryStages> stationary;
  Ring<kStreamedStages> streamed;
  GradientPhases phases;
  for (;;) {
    const Item<KeyTile> item = take_item_by_warp(pipeline.queue, items);
    if (item.head < 0) break;
    const KeyTile& tile = item.tile;
    const Intervals seen = queries_of_key(tile.key_position + row - tile.query_position, tile.query_count);
    stationary.wait_full(pipeline.stationary_full);
    for (int g = 0; g < config::kGroups; ++g) {
      for (int first = 0; first < tile.query_count; first += kStreamedRows) {
        streamed.wait_full(pipeline.streamed_full);
        score_operands<Work>(control.barriers, lane_memory, share, seen.from(first), arguments.scale_log2,
                             StatsOfColumns(control.stats[streamed.slot]), phases);
        streamed.advance();
      }
    }
    wait_products(control.barriers, phases);

    const bool empty = tile.query_count == 0;
    const auto keys = shared.stationary[stationary.slot][0];
    const auto values = shared.stationary[stationary.slot][1];
    if (share == 0) {
      stage_row(keys, config::Keys::KeyGrad::in(lane_memory), row, arguments.scale, empty);
    } else {
      stage_row(values, config::Keys::ValueGrad::in(lane_memory), row, 1.0f, empty);
    }
    fence_proxy_async_shared();
    bar_sync(kGradientBarrier, kColumnShares * kGradientThreads);
    if (leader) {
      // Boxes have fewer rows than the tile.
      for (int half = 0; half < kTileRows && half < tile.rows; half += kBoxRows) {
        store_tile(key_grad, item.head, tile.key_row + half, tile.rows - half, keys.from_row(half));
        store_tile(value_grad, item.head, tile.key_row + half, tile.rows - half, values.from_row(half));
      }
      cp_async_bulk_commit_group();
      cp_async_bulk_wait_group_read();
      mbarrier_arrive(&pipeline.stationary_empty[stationary.slot]);
    }
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
  extern __shared__ unsigned char shared_bytes[];
  const BackwardShared<keys::Control> shared = carve_backward<keys::Control>(shared_bytes);
  BackwardPipeline<KeyTile>& pipeline = shared.control->pipeline;
  using Config = config::Keys;
  run_roles<Config::StatsWarps>(
      &shared.control->tensor_memory,
      [&] {
        init_pipeline(pipeline, 3 + kColumnShares * kGradientWarps, 1, 32);
        init_product_barriers(shared.control->barriers);
      },
      [&](int warp, TensorMemory memory) {
        if (warp == Config::LoadWarps::kFirst) {
          if (elect_sync()) keys::load(shared, &query, &key, &value, &output_grad);
        } else if (warp == Config::MultiplyWarps::kFirst) {
          if (elect_sync()) multiply<keys::Work>(shared, memory, arguments);
        } else if (warp == Config::DrawWarps::kFirst) {
          if (elect_sync()) {
            draw_items(pipeline.queue, arguments.key_tiles, &arguments.header->key_tile_count,
                       arguments.query_heads / config::kGroups, &arguments.header->next_key_item);
          }
        } else if (warp == Config::StatsWarps::kFirst) {
          keys::load_stats(shared, arguments);
        } else {
          keys::consume(shared, memory, &key_grad, &value_grad, arguments);
        }
      });
}
