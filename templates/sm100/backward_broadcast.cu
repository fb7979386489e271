// All gradients in one pass for compute capability 10.x, of a query that the whole batch shares: its tile
// stays, tiles of 128 keys come by once, 64 queries at a time.
//
//   warp 0  one thread loads tiles           warps 4-7   one thread a key: operands from scores
//   warp 1  one thread draws items           warps 8-11  one thread a row: gradients out of tensor memory
//   warp 2  LSE and delta of the queries     warp 12     one thread issues the products
//   warp 3  one thread stores the gradients of keys and values
namespace jfa::kernel::broadcast {

// Rounded score gradients of one chunk.
constexpr u32 kChunkBytes = kStreamedRows / config::kBoxDim * box_bytes(kTileRows);

struct Control {
  Pipeline pipeline;
  fused::Barriers barriers;
  u32 tensor_memory;
  alignas(16) QueryStats stats[kOutputGradRows];
};

template <int kRows>
__device__ inline void multiply(const Shared<Control>& shared, TensorMemory memory,
                                const BroadcastArguments& arguments) {
  Pipeline& pipeline = shared.control->pipeline;
  fused::Products<kRows, kTileRows> products(shared.control->barriers, memory, false);
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
      for (int chunk = 0; chunk < kRows / kStreamedRows; ++chunk) {
        const u32 rows = box_bytes(chunk * kStreamedRows);
        fused::Chunk next;
        next.keys = shared.pair_tile(pairs.slot, 0);
        next.values = shared.pair_tile(pairs.slot, 1);
        next.queries = shared.query + rows;
        next.output_grads = shared.template output_grad_tile<kRows>(output_grads.slot) + rows;
        next.score_grads = shared.score_grad + chunk * kChunkBytes;
        next.starts_keys = chunk == 0;
        next.ends_queries = chunk == kRows / kStreamedRows - 1;
        next.starts_queries = starts_part;
        next.tile_score_grads = shared.score_grad;
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
  const TensorMemory lane_memory = memory + (static_cast<u32>(row / 32 * 32) << 16);
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
      const Interval seen =
          key < run.rows ? visible(run.key_position + key, arguments.query_rows) : Interval{0, 0};
      const bool masked = __any_sync(0xffffffff, seen.begin > 0 || seen.end < arguments.query_rows);
      for (int chunk = 0; chunk < kRows / kStreamedRows; ++chunk) {
        const int first_slot = chunk * kStreamedRows;
        const QueryStats* stats = shared.control->stats + output_grads.slot * kRows + first_slot;
        int position = first_slot % arguments.slot_rows;  // of a column's query in its sequence
        fused::score_operands(
            barriers, scores_full, lane_memory, shared.score_grad + chunk * kChunkBytes, row,
            [&](int column, float score, float grad, float& p, float& g) {
              const QueryStats query = stats[column];
              p = ex2_approx(fmaf(score, arguments.scale_log2, -query.lse_log2));
              g = p * (grad - query.delta);
              if (!masked) return;
              if (position < seen.begin || position >= seen.end) p = g = 0.0f;
              if (++position == arguments.slot_rows) position = 0;
            },
            [&] {
              if (chunk == 0) products_done.wait_outstanding();
            });
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
  const TensorMemory lane_memory = memory + (static_cast<u32>(row / 32 * 32) << 16);
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
      stage_row(shared.pair_tile(pairs.slot, 1), lane_memory + fused::kValueGradColumn, row, 1.0f, !seen);
      stage_row(shared.pair_tile(pairs.slot, 0), lane_memory + fused::kKeyGradColumn, row, arguments.scale,
                !seen);
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
              lane_memory + fused::kQueryGradColumn, arguments.scale, empty,
              row < config::kGroups * arguments.slot_rows);
    if (!empty) {
      tcgen05_fence_before_thread_sync();
      mbarrier_arrive(&barriers.query_grad_read);
    }
    empty = true;
  }
}

// The query gradient's product has 128 rows: those that a smaller tile lacks are zeros.
template <int kRows>
__device__ inline void clear_spare_score_grads(u32 score_grad) {
  constexpr int kEnd = kTileRows / kStreamedRows * kChunkBytes;
  for (int byte = kRows / kStreamedRows * kChunkBytes + threadIdx.x * 16; byte < kEnd;
       byte += blockDim.x * 16)
    st_shared_v4(score_grad + byte, 0, 0, 0, 0);
}

// The whole CTA, with a tile of kRows query rows.
template <int kRows>
__device__ inline void run_broadcast(const Shared<Control>& shared, const TensorMap* query,
                                     const TensorMap* key, const TensorMap* value,
                                     const TensorMap* output_grad, const TensorMap* key_grad,
                                     const TensorMap* value_grad, const BroadcastArguments& arguments) {
  constexpr u32 kOtherItemConsumers = 1 + 2 * kGradientWarps;
  Control& control = *shared.control;
  clear_spare_score_grads<kRows>(shared.score_grad);
  clear_spare_rows<kRows>(shared, arguments.slot_rows);
  run_roles(
      &control.tensor_memory,
      [&] {
        broadcast::init_pipeline(control.pipeline, kOtherItemConsumers, 1 + kGradientWarps, kGradientThreads);
        fused::init_barriers(control.barriers);
      },
      [&](int warp, TensorMemory memory) {
        if (warp == 0) {
          if (elect_sync()) load<kRows>(shared, arguments, query, key, value, output_grad);
        } else if (warp == 1) {
          if (elect_sync()) draw_parts(control.pipeline.queue, arguments);
        } else if (warp == 2) {
          load_stats<kRows>(shared, arguments);
        } else if (warp == 3) {
          if (elect_sync()) store(shared, key_grad, value_grad);
        } else if (warp < 8) {
          attend<kRows>(shared, memory, arguments);
        } else if (warp < 12) {
          unload<kRows>(shared, memory, arguments);
        } else {
          if (elect_sync()) multiply<kRows>(shared, memory, arguments);
        }
      });
}

}  // namespace jfa::kernel::broadcast

extern "C" __global__ void __launch_bounds__(416, 1)
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
  if (config::kGroups * arguments.slot_rows <= 64) {
    run_broadcast<64>(shared, &query, &key, &value, &output_grad, &key_grad, &value_grad, arguments);
  } else {
    run_broadcast<128>(shared, &query, &key, &value, &output_grad, &key_grad, &value_grad, arguments);
  }
}
