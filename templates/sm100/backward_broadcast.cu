// All gradients in one pass for compute capability 10.x, of a query that the whole batch shares: its tile
// stays, tiles of keys come by once, a chunk of kChunkRows queries at a time.
//
//   load   one thread loads tiles           attend    one thread a key: operands from scores
//   draw   one thread draws items           unload    one thread a row: gradients out of tensor memory
//   stats  LSE and delta of the queries     multiply  one thread issues the products
//   store  one thread stores the gradients of keys and values
namespace jfa::kernel::broadcast {

static_assert(Config::AttendWarps::kCount == kGradientWarps && Config::UnloadWarps::kCount == kGradientWarps);

// Rounded score gradients of one chunk.
using ScoreGradTile = Config::RoundedScoreGrads::Stage;
__device__ inline fused::ChunkScoreGrads<Config> chunk_of(ScoreGradTile score_grads, int chunk) {
  return {score_grads.from_box(chunk * (kChunkRows / ScoreGradTile::kBoxDim)).address};
}

struct Control {
  Pipeline pipeline;
  fused::Barriers barriers;
  u32 tensor_memory;
  ColumnStats<kOutputGradRows> stats;
};

template <int kRows>
__device__ inline void multiply(const Shared<Control>& shared, TensorMemory memory,
                                const BroadcastArguments& arguments) {
  Pipeline& pipeline = shared.control->pipeline;
  using Products = fused::Products<Config, kRows>;
  Products products(shared.control->barriers, memory, false);
  Ring<kItemStages> items;
  Ring<1> queries;
  Ring<kOutputGradStages<kRows>> output_grads;
  Ring<kPairStages> pairs;
  bool starts_part = true;
  for (;;) {
    const Item<KeyRun> item = take_item(pipeline.queue, items);
    if (item.head < 0) break;
    const KeyRun& run = item.tile;
    if (run.first || kOutputGradStages<kRows> == 1) products.flush();
    if (run.first) {
      queries.wait_full(pipeline.query_full);
      starts_part = true;
    }
    if (has_output_grad(run)) output_grads.wait_full(pipeline.output_grad_full);
    for (int first = 0; first < run.rows; first += kTileRows, pairs.advance()) {
      const bool seen = tile_is_seen(run, first, arguments.query_rows);
      if (!seen) products.flush();
      pairs.wait_full(pipeline.pair_full);  // if only because no phase may be left out
      if (!seen) continue;
      for (int chunk = 0; chunk < kRows / kChunkRows; ++chunk) {
        const int row = chunk * kChunkRows;
        typename Products::Chunk next;
        next.keys = shared.pairs[pairs.slot][0];
        next.values = shared.pairs[pairs.slot][1];
        next.queries = shared.template query_tile<kRows>().from_row(row);
        next.output_grads = shared.template output_grad_tile<kRows>(output_grads.slot).from_row(row);
        next.score_grads = chunk_of(shared.score_grads[0], chunk);
        next.starts_keys = chunk == 0;
        next.ends_queries = chunk == kRows / kChunkRows - 1;
        next.starts_queries = starts_part;
        next.tile_score_grads = shared.score_grads[0];
        products.scores(next);
      }
      starts_part = false;
    }
    if (has_output_grad(run)) {
      products.release(0, &pipeline.output_grad_empty[output_grads.slot]);
      output_grads.advance();
    }
    if (run.last) {
      products.release(1, &pipeline.query_empty[0]);
      queries.advance();
    }
  }
  products.end();
}

// Scores become probabilities and score gradients, one thread a key.
template <int kRows>
__device__ inline void attend(const Shared<Control>& shared, TensorMemory memory,
                              const BroadcastArguments& arguments) {
  Pipeline& pipeline = shared.control->pipeline;
  fused::Barriers& barriers = shared.control->barriers;
  const int row = threadIdx.x % kGradientThreads;
  const TensorMemory lane_memory = lanes_of(memory, row);
  Ring<kItemStages> items;
  Ring<1> queries;
  Ring<kOutputGradStages<kRows>> output_grads;
  fused::Waits scores_full{&barriers.scores_full};
  fused::Waits products_done{&barriers.products_done};
  for (;;) {
    const Item<KeyRun> item = take_item_by_warp(pipeline.queue, items);
    if (item.head < 0) break;
    const KeyRun& run = item.tile;
    // Not to read it: these warps must not give back a query of a later part than the one that is there.
    if (run.first) queries.wait_full(pipeline.query_full);
    if (has_output_grad(run)) output_grads.wait_full(pipeline.output_grad_full);
    for (int first = 0; first < run.rows; first += kTileRows) {
      if (!tile_is_seen(run, first, arguments.query_rows)) continue;
      const int key = first + row;
      const Intervals seen = queries_of_key(run, key, arguments.query_rows);
      const bool masked = __any_sync(0xffffffff, seen.lacks_any(0, arguments.query_rows));
      for (int chunk = 0; chunk < kRows / kChunkRows; ++chunk) {
        const int first_slot = chunk * kChunkRows;
        fused::score_operands<Config>(
            scores_full, lane_memory, arguments.scale_log2,
            StatsOfColumns(shared.control->stats, output_grads.slot * kRows + first_slot), masked,
            [&](int piece) {
              return seen_slot_bits(seen, first_slot + piece * kPieceColumns, arguments.slot_rows);
            },
            fused::chunk_operands<Config>(barriers, lane_memory, chunk_of(shared.score_grads[0], chunk), row,
                                          [&] {
                                            if (chunk == 0) products_done.wait_outstanding();
                                          }));
      }
      products_done.begin();
    }
    __syncwarp();  // all lanes are done with the statistics
    if (has_output_grad(run)) {
      release(pipeline.output_grad_empty, output_grads.slot);
      output_grads.advance();
    }
    if (run.last) {
      release(pipeline.query_empty, queries.slot);
      queries.advance();
    }
  }
}

// Gradients leave tensor memory: of keys and values through the place of the pair they belong to, of the
// query as a part of a sum.
template <int kRows>
__device__ inline void unload(const Shared<Control>& shared, TensorMemory memory,
                              const BroadcastArguments& arguments) {
  Pipeline& pipeline = shared.control->pipeline;
  fused::Barriers& barriers = shared.control->barriers;
  const int row = threadIdx.x % kGradientThreads;
  const TensorMemory lane_memory = lanes_of(memory, row);
  Ring<kItemStages> items;
  Ring<kPairStages> pairs;
  fused::Waits products_done{&barriers.products_done};
  bool empty = true;  // the part has no product yet
  for (;;) {
    const Item<KeyRun> item = take_item_by_warp(pipeline.queue, items);
    if (item.head < 0) break;
    const KeyRun& run = item.tile;
    for (int first = 0; first < run.rows; first += kTileRows) {
      const bool seen = tile_is_seen(run, first, arguments.query_rows);
      pairs.wait_full(pipeline.pair_full);
      if (seen) {
        products_done.wait();
        tcgen05_fence_after_thread_sync();
      }
      stage_row(shared.pairs[pairs.slot][1], Config::ValueGrad::in(lane_memory), row, 1.0f, !seen);
      stage_row(shared.pairs[pairs.slot][0], Config::KeyGrad::in(lane_memory), row, arguments.scale, !seen);
      if (seen) {
        tcgen05_fence_before_thread_sync();
        mbarrier_arrive(&barriers.tile_read);
        empty = false;
      }
      fence_proxy_async_shared();
      mbarrier_arrive(&pipeline.gradients_full[pairs.slot]);
      pairs.advance();
    }
    if (!run.last) continue;
    const i64 head_row = (static_cast<i64>(run.part) * arguments.query_heads + item.head * config::kGroups) *
                         arguments.slot_rows;
    store_row(arguments.partial_query_grad + (head_row + row) * config::kPaddedDim,
              Config::QueryGrad::in(lane_memory), arguments.scale, empty,
              row < config::kGroups * arguments.slot_rows);
    if (!empty) {
      tcgen05_fence_before_thread_sync();
      mbarrier_arrive(&barriers.query_grad_read);
    }
    empty = true;
  }
}

// The query gradient's product has the rows of the large tile: those that a small one lacks are zeros.
template <int kRows>
__device__ inline void clear_spare_score_grads(ScoreGradTile score_grads) {
  constexpr int kBegin = ScoreGradTile::template WithColumns<kRows>::kBytes;
  constexpr int kEnd = ScoreGradTile::kBytes;
  for (int byte = kBegin + threadIdx.x * 16; byte < kEnd; byte += blockDim.x * 16)
    st_shared_v4(score_grads.address + byte, 0, 0, 0, 0);
}

// The whole CTA, with a tile of kRows query rows.
template <int kRows>
__device__ inline void run_broadcast(const Shared<Control>& shared, const TensorMap* query,
                                     const TensorMap* key, const TensorMap* value,
                                     const TensorMap* output_grad, const TensorMap* key_grad,
                                     const TensorMap* value_grad, const BroadcastArguments& arguments) {
  constexpr u32 kOtherItemConsumers = 1 + 2 * kGradientWarps;
  Control& control = *shared.control;
  clear_spare_score_grads<kRows>(shared.score_grads[0]);
  clear_spare_rows<kRows>(shared, arguments.slot_rows);
  run_roles<Config::StoreWarps>(
      &control.tensor_memory,
      [&] {
        broadcast::init_pipeline(control.pipeline, kOtherItemConsumers, 1 + kGradientWarps, kGradientThreads);
        fused::init_barriers(control.barriers);
      },
      [&](int warp, TensorMemory memory) {
        if (warp == Config::LoadWarps::kFirst) {
          if (elect_sync()) load<kRows>(shared, arguments, query, key, value, output_grad);
        } else if (warp == Config::DrawWarps::kFirst) {
          if (elect_sync()) draw_parts(control.pipeline.queue, arguments);
        } else if (warp == Config::StatsWarps::kFirst) {
          load_stats<kRows>(shared, arguments);
        } else if (warp == Config::StoreWarps::kFirst) {
          if (elect_sync()) store(shared, key_grad, value_grad);
        } else if (warp < Config::AttendWarps::kEnd) {
          attend<kRows>(shared, memory, arguments);
        } else if (warp < Config::UnloadWarps::kEnd) {
          unload<kRows>(shared, memory, arguments);
        } else {
          if (elect_sync()) multiply<kRows>(shared, memory, arguments);
        }
      });
}

}  // namespace jfa::kernel::broadcast

extern "C" __global__ void __launch_bounds__(jfa::kernel::config::Broadcast::kThreads,
                                             jfa::kernel::config::Broadcast::kCtas)
    jfa_backward_broadcast(const __grid_constant__ jfa::kernel::TensorMap query,
                           const __grid_constant__ jfa::kernel::TensorMap key,
                           const __grid_constant__ jfa::kernel::TensorMap value,
                           const __grid_constant__ jfa::kernel::TensorMap output_grad,
                           const __grid_constant__ jfa::kernel::TensorMap key_grad,
                           const __grid_constant__ jfa::kernel::TensorMap value_grad,
                           const __grid_constant__ jfa::kernel::BroadcastArguments arguments) {
  using namespace jfa::kernel;
  using namespace jfa::kernel::broadcast;
  extern __shared__ unsigned char shared_bytes[];
  const Shared<Control> shared = carve<Control>(shared_bytes);
  if (config::kGroups * arguments.slot_rows <= kSmallTileRows) {
    run_broadcast<kSmallTileRows>(shared, &query, &key, &value, &output_grad, &key_grad, &value_grad,
                                  arguments);
  } else {
    run_broadcast<kLargeTileRows>(shared, &query, &key, &value, &output_grad, &key_grad, &value_grad,
                                  arguments);
  }
}
