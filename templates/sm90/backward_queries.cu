// The query's gradient for compute capability 9.0: a tile of queries stays, the keys it sees stream past. A
// query that the whole batch shares stays for all sequences of a part; parts are summed
// later, in order.
//
//   load     one thread loads tiles
//   draw     one thread draws items
//   consume  warpgroups, 64 queries each: scores, their gradient, and its product with the keys. Of at most
//            64 queries each takes every other tile of keys
namespace jfa::kernel::queries {

using Config = config::Queries;

struct Control {
  using Config = config::Queries;
  BackwardPipeline<QueryRun> pipeline;
};

// One tile of a run: adds to the gradient.
__device__ inline void attend(const BackwardShared<Control>& shared, const QueryTile& tile, int head,
                              const Share& share, int consumer, const BackwardArguments& arguments,
                              const StationaryTile (&stationary_tiles)[2], Ring<kStreamedStages>& streamed,
                              float (&gradient)[kGradientRegisters]) {
  BackwardPipeline<QueryRun>& pipeline = shared.control->pipeline;
  const int first_row = share.first_row + fragment_first_row();
  float lse_log2[2], delta[2];
  Seen seen;
  for (int r = 0; r < 2; ++r) {
    const int row = first_row + 8 * r;
    const bool valid = row < loaded_rows(tile);
    const i64 place = static_cast<i64>(head) * arguments.output_rows + tile.output_row + row;
    lse_log2[r] = lse_log2_of(arguments.lse + place, valid);
    delta[r] = valid ? arguments.delta[place] : 0.0f;
    seen.rows[r] = keys_of_query(tile.query_position + row - tile.key_position, tile.key_count);
  }
  // The scores of the next keys are issued behind the product with these, which they do not wait for. With a
  // pair of tiles kept for it, and one of the other consumer's between, the next one still has a place.
  static_assert(kStreamedStages > kConsumers);
  int multiplied = -1;  // the place whose keys that product reads
  for (int first = 0; first < tile.key_count; first += kStreamedRows) {
    if (!share.has(streamed.turn(), consumer)) {
      pass(pipeline.streamed_full, pipeline.streamed_empty, streamed);
      continue;
    }
    const StreamedTile streamed_tiles[2] = {shared.streamed[streamed.slot][0],
                                            shared.streamed[streamed.slot][1]};
    float scores[kScoreRegisters], gradients[kScoreRegisters];
    u32 score_grads[kStreamedSteps][4];
    streamed.wait_full(pipeline.streamed_full);
    issue_scores(scores, gradients, stationary_tiles, streamed_tiles);
    const Seen tile_seen = seen.from(first);
    exponentiate(
        scores, [&](int i) { return lse_log2[fragment_row(i)]; }, __any_sync(0xffffffff, !tile_seen.all()),
        [&](int i, int column) { return tile_seen.contains(i, column); }, arguments.scale_log2);
    if (multiplied >= 0) release(pipeline.streamed_empty, multiplied);  // the wait was for its product, too
    differentiate(scores, gradients, [&](int i) { return delta[fragment_row(i)]; });
    pack_fragment(gradients, score_grads);
    multiply_streamed(gradient, score_grads, streamed_tiles[0]);
    multiplied = streamed.slot;
    streamed.advance();
  }
  wgmma_wait_group<0>();
  pin(gradient);
  if (multiplied >= 0) release(pipeline.streamed_empty, multiplied);
}

__device__ inline void consume(const BackwardShared<Control>& shared, const TensorMap* query_grad,
                               const BackwardArguments& arguments) {
  BackwardPipeline<QueryRun>& pipeline = shared.control->pipeline;
  const int consumer = threadIdx.x / kWarpgroupThreads - 1;
  const bool leader = threadIdx.x % kWarpgroupThreads == 0;
  const float factor[2] = {arguments.scale, arguments.scale};
  Ring<kItemStages> items;
  Ring<kStationaryStages> stationary;
  Ring<kStreamedStages> streamed;
  for (;;) {
    const Item<QueryRun> item = take_item_by_warp(pipeline.queue, items);
    if (item.head < 0) break;
    const QueryRun& run = item.tile;
    float gradient[kGradientRegisters];
#pragma unroll
    for (float& value : gradient) value = 0.0f;
    QueryTile tile;
    for (int i = 0; i < run.tiles; ++i) {
      tile = arguments.query_tiles[run.first_tile + i * run.tile_step];
      if (skipped(run, tile)) continue;
      const Share share = share_of(tile.rows, consumer);
      const StationaryTile stationary_tiles[2] = {
          shared.stationary[stationary.slot][0].from_row(share.first_row),
          shared.stationary[stationary.slot][1].from_row(share.first_row)};
      stationary.wait_full(pipeline.stationary_full);
      attend(shared, tile, item.head, share, consumer, arguments, stationary_tiles, streamed, gradient);
      if (run.part < 0 && share.split) {
        add_consumers(gradient, consumer, SpareRows{shared.stationary[stationary.slot].address});
        fence_proxy_async_shared();
      }
      const int valid_rows = tile.rows - consumer * kConsumerRows;
      if (run.part < 0 && valid_rows > 0) {
        begin_store(consumer);
        stage_gradient(stationary_tiles[0], gradient, arguments.scale);
        end_store(consumer, item.head, tile.query_row + consumer * kConsumerRows, valid_rows,
                  {{query_grad, stationary_tiles[0]}});
      }
      release(pipeline.stationary_empty, stationary.slot);
      stationary.advance();
    }
    if (run.part >= 0) {
      const Share share = share_of(tile.rows, consumer);
      const i64 row =
          (static_cast<i64>(run.part) * arguments.query_heads + item.head) * arguments.partial_rows +
          tile.query_row + share.first_row;
      float* rows = arguments.partial_query_grad + row * config::kPaddedDim;
      const int valid_rows = tile.rows - share.first_row;
      if (!share.split || consumer == 0) store_fragment(rows, gradient, factor, valid_rows);
      if (share.split) {
        sync_consumers();
        if (consumer == 1) store_fragment<true>(rows, gradient, factor, valid_rows);
      }
    }
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
  using namespace jfa::kernel::queries;
  extern __shared__ unsigned char shared_bytes[];
  const BackwardShared<queries::Control> shared = carve_backward<queries::Control>(shared_bytes);
  BackwardPipeline<QueryRun>& pipeline = shared.control->pipeline;
  if (threadIdx.x == 0) {
    init_pipeline(pipeline, 1 + kConsumerWarps, kConsumerWarps, 0);
    fence_mbarrier_init();
  }
  __syncthreads();

  if (threadIdx.x < kWarpgroupThreads) {
    setmaxnreg_dec<Config::LoadWarps::kRegisters>();
    const int warp = threadIdx.x / 32;
    if (warp == Config::LoadWarps::kFirst) {
      if (elect_sync()) load(shared, arguments, &query, &key, &value, &output_grad);
    } else if (warp == Config::DrawWarps::kFirst) {
      if (elect_sync()) {
        draw_items(pipeline.queue, arguments.query_runs, &arguments.header->query_run_count,
                   arguments.query_heads, &arguments.header->next_item);
      }
    }
  } else {
    setmaxnreg_inc<Config::ConsumeWarps::kRegisters>();
    consume(shared, &query_grad, arguments);
  }
}
