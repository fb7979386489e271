// All gradients in one pass for compute capability 10.x, of sequences whose keys fit one tile: it stays,
// their queries stream past.
//
//   load   one thread loads tiles           attend    one thread a key: operands from scores
//   draw   one thread draws items           unload    one thread a row: gradients out of tensor memory
//   stats  LSE and delta of the queries     multiply  one thread issues the products
//   store  one thread stores gradients
//
// The query gradient's product has kChunkRows rows: half of a warp's lanes of tensor memory hold them.
namespace jfa::kernel::short_keys {

constexpr int kRowsPerWarp = kChunkRows / kGradientWarps;
static_assert(Config::AttendWarps::kCount == kGradientWarps && Config::UnloadWarps::kCount == kGradientWarps);

struct Control {
  Pipeline pipeline;
  fused::Barriers barriers;
  u64 stats_full[kStages];
  u32 tensor_memory;
  ColumnStats<kChunkRows> stats[kStages];
};

__device__ inline void multiply(const Shared<Control>& shared, TensorMemory memory) {
  Pipeline& pipeline = shared.control->pipeline;
  using Products = fused::Products<Config, kChunkRows>;
  Products products(shared.control->barriers, memory, true);
  Ring<kItemStages> items;
  Ring<kStationaryStages> stationary;
  Ring<kStages> streamed;
  for (;;) {
    const Item<KeyTile> item = take_item(pipeline.queue, items);
    if (item.head < 0) break;
    const KeyTile& tile = item.tile;
    // The queue holds a few items, and the threads that wait for what is pending help to empty it.
    if (tile.query_count == 0 || tile.rows == 0) products.flush();
    stationary.wait_full(pipeline.stationary_full);
    bool first_product = true;
    for (int g = 0; g < config::kGroups; ++g) {
      for (int first = 0; first < tile.query_count; first += kChunkRows, streamed.advance()) {
        u64* empty = &pipeline.streamed_empty[streamed.slot];
        if (!sees_keys(tile, first)) {
          products.flush();
          streamed.wait_full(pipeline.streamed_full);
          mbarrier_arrive(empty);
          continue;
        }
        streamed.wait_full(pipeline.streamed_full);
        typename Products::Chunk next;
        next.keys = shared.stationary[stationary.slot][0];
        next.values = shared.stationary[stationary.slot][1];
        next.queries = shared.streamed[streamed.slot][0];
        next.output_grads = shared.streamed[streamed.slot][1];
        next.score_grads = next.tile_score_grads = shared.score_grads[0];
        next.starts_keys = first_product;
        next.ends_queries = next.starts_queries = true;
        next.empty[0] = empty;
        products.scores(next);
        first_product = false;
      }
    }
    stationary.advance();
  }
  products.end();
}

__device__ inline FloatPair to_floats(u32 elements) {
  return pack(to_float(static_cast<u16>(elements)), to_float(static_cast<u16>(elements >> 16)));
}

// Delta of some rows of a streamed tile, added to what is there: by one warp, a lane has every 32nd row.
__device__ inline void add_delta(QueryStats (&stats)[kChunkRows / 32], StreamedTile output,
                                 StreamedTile output_grad, int lane) {
  constexpr int kRows = kChunkRows / 32;
  FloatPair sums[kRows][2] = {};
#pragma unroll 2
  for (int chunk = 0; chunk < StreamedTile::kColumns / 8; ++chunk) {
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      const u32 offset = chunk / kChunksPerRow * StreamedTile::kBoxBytes +
                         swizzled_offset(lane + 32 * r, chunk % kChunksPerRow);
      u32 left[4], right[4];
      ld_shared_v4(left, output.address + offset);
      ld_shared_v4(right, output_grad.address + offset);
#pragma unroll
      for (int i = 0; i < 4; ++i)
        sums[r][i % 2] = fma_rn_x2(to_floats(left[i]), to_floats(right[i]), sums[r][i % 2]);
    }
  }
#pragma unroll
  for (int r = 0; r < kRows; ++r) {
    float even, odd;
    unpack(add_rn_x2(sums[r][0], sums[r][1]), even, odd);
    stats[r].delta += even + odd;
  }
}

// LSE and delta of the queries, by one warp.
__device__ inline void load_stats(const Shared<Control>& shared, const ShortArguments& arguments) {
  Control& control = *shared.control;
  Pipeline& pipeline = control.pipeline;
  Ring<kStages> streamed;
  Ring<1> outputs;
  const int lane = threadIdx.x % 32;
  for_each_chunk(pipeline.queue, [&](const KeyTile& tile, i32 head, int first) {
    const i64 row = static_cast<i64>(head) * arguments.output_rows + tile.output_row;
    const bool seen = sees_keys(tile, first);
    const i32 queries = loaded_queries(tile);
    QueryStats stats[kChunkRows / 32];
#pragma unroll
    for (int r = 0; r < kChunkRows / 32; ++r) {
      const int query = first + lane + 32 * r;
      stats[r] = stats_before_delta(arguments, row + query, seen && query < queries);
    }
    streamed.wait_full(pipeline.streamed_full);
    if (seen) {
      outputs.wait_full(pipeline.output_full);
      add_delta(stats, shared.output[0], shared.streamed[streamed.slot][1], lane);
      __syncwarp();  // all lanes have read the output
      release(pipeline.output_empty, outputs.slot);
      outputs.advance();
#pragma unroll
      for (int r = 0; r < kChunkRows / 32; ++r) control.stats[streamed.slot][lane + 32 * r] = stats[r];
    }
    mbarrier_arrive(&control.stats_full[streamed.slot]);
    streamed.advance();
  });
}

// Scores become probabilities and score gradients, one thread a key.
__device__ inline void attend(const Shared<Control>& shared, TensorMemory memory,
                              const ShortArguments& arguments) {
  Pipeline& pipeline = shared.control->pipeline;
  fused::Barriers& barriers = shared.control->barriers;
  const int row = threadIdx.x % kGradientThreads;
  const TensorMemory lane_memory = lanes_of(memory, row);
  Ring<kItemStages> items;
  Ring<kStages> streamed;
  Ring<1> query_grads;
  fused::Waits scores_full{&barriers.scores_full};
  for (;;) {
    const Item<KeyTile> item = take_item_by_warp(pipeline.queue, items);
    if (item.head < 0) break;
    const KeyTile& tile = item.tile;
    const Intervals seen = queries_of_key(tile, row);
#pragma unroll 1
    for (int g = 0; g < config::kGroups; ++g) {
      for (int first = 0; first < tile.query_count; first += kChunkRows) {
        streamed.wait_full(shared.control->stats_full);
        if (sees_keys(tile, first)) {
          const int end = min(first + kChunkRows, tile.query_count);
          const bool masked = __any_sync(0xffffffff, seen.lacks_any(first, end));
          fused::score_operands<Config>(
              scores_full, lane_memory, arguments.scale_log2,
              StatsOfColumns(shared.control->stats[streamed.slot]), masked,
              [&](int piece) { return seen_bits(seen, first + piece * kPieceColumns); },
              fused::chunk_operands<Config>(barriers, lane_memory, shared.score_grads[0], row,
                                            [&] { query_grads.wait_empty(pipeline.query_grad_empty); }));
        } else {
          query_grads.wait_empty(pipeline.query_grad_empty);
        }
        __syncwarp();  // all lanes are done with the statistics, and have seen that phase
        // Where nothing is seen unload() and store() do not need these warps; without this they could
        // complete two phases before these have looked at the first, and parities cannot tell the two apart.
        release(pipeline.query_grad_empty, query_grads.slot);
        query_grads.advance();
        release(pipeline.streamed_empty, streamed.slot);
        streamed.advance();
      }
    }
  }
}

// The lanes that no product writes are read with the others.
__device__ inline void clear_query_grad(fused::Barriers& barriers, TensorMemory lane_memory) {
  const auto query_grad = Config::QueryGrad::in(lane_memory);
  constexpr int kStoreColumns = 16;
  const u32 zeros[kStoreColumns] = {};
#pragma unroll 1
  for (int column = 0; column < query_grad.kColumns; column += kStoreColumns)
    tcgen05_st_x16(query_grad + column, zeros);
  tcgen05_wait_st();
  tcgen05_fence_before_thread_sync();
  mbarrier_arrive(&barriers.query_grad_read);
}

// Gradients leave tensor memory: the query's through the place of the score gradients it was made of, those
// of keys and values through the place of keys and values.
__device__ inline void unload(const Shared<Control>& shared, TensorMemory memory,
                              const ShortArguments& arguments) {
  Pipeline& pipeline = shared.control->pipeline;
  fused::Barriers& barriers = shared.control->barriers;
  const int row = threadIdx.x % kGradientThreads;
  const int lane = row % 32;
  const int query = row / 32 * kRowsPerWarp + lane;  // if the lane has one
  const TensorMemory lane_memory = lanes_of(memory, row);
  Ring<kItemStages> items;
  Ring<kStationaryStages> stationary;
  Ring<1> query_grads;
  fused::Waits products_done{&barriers.products_done};
  clear_query_grad(barriers, lane_memory);
  for (;;) {
    const Item<KeyTile> item = take_item_by_warp(pipeline.queue, items);
    if (item.head < 0) break;
    const KeyTile& tile = item.tile;
    bool empty = true;  // no product for this tile of keys yet
#pragma unroll 1
    for (int g = 0; g < config::kGroups; ++g) {
      for (int first = 0; first < tile.query_count; first += kChunkRows) {
        const bool seen = sees_keys(tile, first);
        query_grads.wait_empty(pipeline.query_grad_empty);
        if (seen) {
          products_done.wait();
          tcgen05_fence_after_thread_sync();
          empty = false;
        }
        stage_row(shared.query_grad[0], Config::QueryGrad::in(lane_memory), query, arguments.scale, !seen,
                  lane < kRowsPerWarp);
        if (seen) {
          tcgen05_fence_before_thread_sync();
          mbarrier_arrive(&barriers.query_grad_read);
        }
        fence_proxy_async_shared();
        mbarrier_arrive(&pipeline.query_grad_full[query_grads.slot]);
        query_grads.advance();
      }
    }
    stationary.wait_full(pipeline.stationary_full);
    stage_row(shared.stationary[stationary.slot][0], Config::KeyGrad::in(lane_memory), row, arguments.scale,
              empty);
    stage_row(shared.stationary[stationary.slot][1], Config::ValueGrad::in(lane_memory), row, 1.0f, empty);
    if (!empty) {
      tcgen05_fence_before_thread_sync();
      mbarrier_arrive(&barriers.tile_read);
    }
    fence_proxy_async_shared();
    mbarrier_arrive(&pipeline.gradients_full[stationary.slot]);
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
  constexpr u32 kOtherItemConsumers = 1 + 2 * kGradientWarps;
  extern __shared__ unsigned char shared_bytes[];
  const short_keys::Shared<short_keys::Control> shared = short_keys::carve<short_keys::Control>(shared_bytes);
  short_keys::Control& control = *shared.control;
  run_roles<Config::StoreWarps>(
      &control.tensor_memory,
      [&] {
        short_keys::init_pipeline(control.pipeline, kOtherItemConsumers, 0, 1 + kGradientWarps, 1,
                                  kGradientWarps, kGradientThreads);
        fused::init_barriers(control.barriers);
        for (u64& barrier : control.stats_full) mbarrier_init(&barrier, 32);
      },
      [&](int warp, TensorMemory memory) {
        if (warp == Config::LoadWarps::kFirst) {
          if (elect_sync()) short_keys::load(shared, &query, &key, &value, &output, &output_grad);
        } else if (warp == Config::DrawWarps::kFirst) {
          if (elect_sync()) {
            draw_items(control.pipeline.queue, arguments.tiles, &arguments.header->short_tile_count,
                       arguments.query_heads / config::kGroups, &arguments.header->next_short_item);
          }
        } else if (warp == Config::StatsWarps::kFirst) {
          load_stats(shared, arguments);
        } else if (warp == Config::StoreWarps::kFirst) {
          if (elect_sync()) short_keys::store(shared, &query_grad, &key_grad, &value_grad);
        } else if (warp < Config::AttendWarps::kEnd) {
          short_keys::attend(shared, memory, arguments);
        } else if (warp < Config::UnloadWarps::kEnd) {
          short_keys::unload(shared, memory, arguments);
        } else {
          if (elect_sync()) short_keys::multiply(shared, memory);
        }
      });
}
