// The query's gradient for compute capability 10.x: a tile of queries stays, the keys it sees stream past.
// A query that the whole batch shares stays for all sequences of a part; parts are summed
// later, in order.
namespace jfa::kernel::queries {

struct Control {
  using Config = config::Queries;
  BackwardPipeline<QueryRun> pipeline;
  ProductBarriers barriers;
  u32 tensor_memory;
};

struct Work {
  using Config = config::Queries;
  using Gradient = Config::QueryGrad;  // of what is stationary
  static constexpr bool kValueGradient = false;
  __device__ static inline int segments(const QueryRun& run) { return run.tiles; }
  // Negative: the segment is passed over.
  __device__ static inline int streamed_tiles(const BackwardArguments& arguments, const QueryRun& run,
                                              int segment) {
    const QueryTile& tile = arguments.query_tiles[run.first_tile + segment * run.tile_step];
    return skipped(run, tile) ? -1 : (tile.key_count + kStreamedRows - 1) / kStreamedRows;
  }
  // Parts of a gradient leave through global memory, a whole one through its stationary tiles.
  __device__ static inline bool leaves_stationary(const QueryRun& run) { return run.part >= 0; }
};

__device__ inline void consume(const BackwardShared<Control>& shared, TensorMemory memory,
                               const TensorMap* query_grad, const BackwardArguments& arguments) {
  Control& control = *shared.control;
  BackwardPipeline<QueryRun>& pipeline = control.pipeline;
  const int row = threadIdx.x % kGradientThreads;
  const int share = threadIdx.x / kGradientThreads - config::Queries::GradientsWarps::kFirst / kGradientWarps;
  const bool leader = row == 0 && share == 0;
  const TensorMemory lane_memory = lanes_of(memory, row);
  Ring<kItemStages> items;
  Ring<kStationaryStages> stationary;
  GradientPhases phases;
  for (;;) {
    const Item<QueryRun> item = take_item_by_warp(pipeline.queue, items);
    if (item.head < 0) break;
    const QueryRun& run = item.tile;
    QueryTile tile;
    bool empty = true;
    for (int i = 0; i < run.tiles; ++i) {
      tile = arguments.query_tiles[run.first_tile + i * run.tile_step];
      if (skipped(run, tile)) continue;
      empty = empty && tile.key_count == 0;
      const bool valid = row < loaded_rows(tile);
      const i64 place = static_cast<i64>(item.head) * arguments.output_rows + tile.output_row + row;
      const StatsOfLane stats(lse_log2_of(arguments.lse + place, valid),
                              valid ? arguments.delta[place] : 0.0f);
      const Intervals seen = keys_of_query(tile.query_position + row - tile.key_position, tile.key_count);
      for (int first = 0; first < tile.key_count; first += kStreamedRows) {
        score_operands<Work>(control.barriers, lane_memory, share, seen.from(first), arguments.scale_log2,
                             stats, phases);
      }
    }
    wait_products(control.barriers, phases);

    if (run.part >= 0) {
      if (share != 0) continue;
      const i64 partial =
          (static_cast<i64>(run.part) * arguments.query_heads + item.head) * arguments.partial_rows +
          tile.query_row + row;
      store_row(arguments.partial_query_grad + partial * config::kPaddedDim, Work::Gradient::in(lane_memory),
                arguments.scale, empty, row < tile.rows);
      continue;
    }
    const auto queries = shared.stationary[stationary.slot][0];
    stationary.wait_full(pipeline.stationary_full);
    if (share == 0) stage_row(queries, Work::Gradient::in(lane_memory), row, arguments.scale, empty);
    fence_proxy_async_shared();
    bar_sync(kGradientBarrier, kColumnShares * kGradientThreads);
    if (leader) {
      // Boxes have fewer rows than the tile.
      for (int half = 0; half < kTileRows && half < tile.rows; half += kBoxRows) {
        store_tile(query_grad, item.head, tile.query_row + half, tile.rows - half, queries.from_row(half));
      }
      cp_async_bulk_commit_group();
      cp_async_bulk_wait_group_read();
      mbarrier_arrive(&pipeline.stationary_empty[stationary.slot]);
    }
    stationary.advance();
  }
  if (leader) cp_async_bulk_wait_group();
}

}  // namespace jfa::kernel::queries

extern "C" __global__ void __launch_bounds__(jfa::kernel::config::Queries::kThreads,
                                             jfa::kernel::config::Queries::kCtas)
    jfa_backward_queries(const __grid_constant__ jfa::kernel::TensorMap query,
                         const __grid_constant__ jfa::kernel::TensorMap key,
                         const __grid_constant__ jfa::kernel::TensorMap value,
                         const __grid_constant__ jfa::kernel::TensorMap output_grad,
                         const __grid_constant__ jfa::kernel::TensorMap query_grad,
                         const __grid_constant__ jfa::kernel::BackwardArguments arguments) {
  using namespace jfa::kernel;
  extern __shared__ unsigned char shared_bytes[];
  const BackwardShared<queries::Control> shared = carve_backward<queries::Control>(shared_bytes);
  BackwardPipeline<QueryRun>& pipeline = shared.control->pipeline;
  using Config = config::Queries;
  run_roles<Config::StatsWarps>(
      &shared.control->tensor_memory,
      [&] {
        init_pipeline(pipeline, 2 + kColumnShares * kGradientWarps, 1, 0);
        init_product_barriers(shared.control->barriers);
      },
      [&](int warp, TensorMemory memory) {
        if (warp == Config::LoadWarps::kFirst) {
          if (elect_sync()) queries::load(shared, arguments, &query, &key, &value, &output_grad);
        } else if (warp == Config::MultiplyWarps::kFirst) {
          if (elect_sync()) multiply<queries::Work>(shared, memory, arguments);
        } else if (warp == Config::DrawWarps::kFirst) {
          if (elect_sync()) {
            draw_items(pipeline.queue, arguments.query_runs, &arguments.header->query_run_count,
                       arguments.query_heads, &arguments.header->next_item);
          }
        } else if (warp >= Config::GradientsWarps::kFirst) {
          queries::consume(shared, memory, &query_grad, arguments);
        }
      });
}
