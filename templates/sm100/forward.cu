// The forward entry for compute capability 10.x: one CTA an SM, one 128-row query tile at a time.
//
//   load      one thread loads queries, keys and values through the tensor memory accelerator
//   multiply  one thread issues the products: scores = query * key, output += probability * value
//   draw      one thread draws work items
//   allocate  a warp allocates tensor memory
//   softmax   one thread a query row; rescale, normalise and store the output
//
// The product thread runs one key tile ahead of the softmax, across items too: the first scores of the next
// item are computed while the last probabilities of this one are.
namespace jfa::kernel {

using Config = config::Forward;
constexpr int kSoftmaxThreads = Config::SoftmaxWarps::kThreads;
static_assert(kSoftmaxThreads == kTileRows);  // one a row
constexpr int kScoreStages = Config::Scores::kStages;

struct Control {
  Pipeline pipeline;
  u64 score_full[kScoreStages];  // scores of a key tile are in tensor memory
  u64 probability_full;          // its probabilities are; its scores and all earlier outputs have been read
  u64 product_done;              // its probabilities and values have been accumulated
  u32 tensor_memory;
};

// Keys of tile `j`, rounded up to what tensor memory is read by; the rest of the tile is not computed.
__device__ inline int score_columns(const QueryTile& tile, int j) {
  return min((tile.key_count - j * kTileRows + 31) / 32 * 32, kTileRows);
}

// A key tile whose scores have been issued and whose values have not been multiplied yet.
struct PendingTile {
  Ring<kKeyValueStages> value;
  int columns = 0;  // 0: nothing is pending
  bool first = false;
};

__device__ inline void multiply_values(const Shared<Control>& shared, TensorMemory memory,
                                       PendingTile& pending, u32& phase) {
  if (pending.columns == 0) return;
  Control& control = *shared.control;
  pending.value.wait_full(control.pipeline.key_value_full);
  mbarrier_wait(&control.probability_full, phase);
  phase ^= 1;
  tcgen05_fence_after_thread_sync();
  mma_ab(Config::Accumulator::in(memory), Config::Probabilities::in(memory), shared.keys_and_values,
         pending.value.slot, pending.columns, pending.first);
  tcgen05_commit(&control.pipeline.key_value_empty[pending.value.slot]);
  tcgen05_commit(&control.product_done);
  pending.columns = 0;
}

__device__ inline void multiply(const Shared<Control>& shared, TensorMemory memory) {
  Control& control = *shared.control;
  Ring<kItemStages> items;
  Ring<kQueryStages> queries;
  Ring<kKeyValueStages> tiles;
  PendingTile pending;
  u32 probability_phase = 0;
  int buffer = 0;  // of the scores
  for (;;) {
    const Item<QueryTile> item = take_item(control.pipeline.queue, items);
    if (item.head < 0) break;
    const int count = tiles_of(item.tile.key_count);
    if (count == 0) {
      // The softmax cannot take this item before the pending product, and the queue is short.
      multiply_values(shared, memory, pending, probability_phase);
      continue;
    }
    queries.wait_full(control.pipeline.query_full);
    for (int j = 0; j < count; ++j) {
      tiles.wait_full(control.pipeline.key_value_full);
      tcgen05_fence_after_thread_sync();
      // The buffer is free: its last scores were read before the probabilities of the tile before the pending
      // one.
      const int columns = score_columns(item.tile, j);
      mma_abt(Config::Scores::in(memory, buffer), shared.queries[queries.slot],
              shared.keys_and_values[tiles.slot], columns);
      tcgen05_commit(&control.pipeline.key_value_empty[tiles.slot]);
      tcgen05_commit(&control.score_full[buffer]);
      if (j == count - 1) tcgen05_commit(&control.pipeline.query_empty[queries.slot]);
      buffer ^= 1;
      tiles.advance();
      multiply_values(shared, memory, pending, probability_phase);
      pending = {tiles, columns, j == 0};
      tiles.advance();
    }
    queries.advance();
  }
  multiply_values(shared, memory, pending, probability_phase);
}

// Multiplies this thread's row of the output accumulator by `factor`.
__device__ inline void rescale(Config::Accumulator::Tile output, float factor) {
  for (int column = 0; column < output.kColumns; column += kRowChunk) {
    float values[kRowChunk];
    u32 bits[kRowChunk];
    tcgen05_ld(values, output + column);
    tcgen05_wait_ld();
    pin(values);
    for (int i = 0; i < kRowChunk; ++i) bits[i] = __float_as_uint(values[i] * factor);
    tcgen05_st_x16(output + column, bits);
  }
}

// One key tile of the softmax: scores in, probabilities out. `lane_memory` is this warp's part of tensor
// memory.
__device__ inline void softmax_tile(Control& control, TensorMemory lane_memory,
                                    Config::Scores::Tile score_memory, int columns, Interval keys,
                                    float scale_log2, bool first, u32& product_phase, RowState& row) {
  constexpr int kChunk = kRowChunk;
  constexpr int kChunks = score_memory.kColumns / kChunk;
  float scores[kChunks][kChunk];
#pragma unroll
  for (int c = 0; c < kChunks; ++c) {
    if (c * kChunk < columns) tcgen05_ld(scores[c], score_memory + c * kChunk);
  }
  tcgen05_wait_ld();

  // Multiply before the maximum, mask after scaling: right for a scale of 0 and below.
  const bool masked = __any_sync(0xffffffff, keys.begin > 0 || keys.end < columns);
  float maximum = kMinusInfinity;
#pragma unroll
  for (int c = 0; c < kChunks; ++c) {
    if (c * kChunk < columns) {
      pin(scores[c]);
#pragma unroll
      for (int i = 0; i < kChunk; ++i) {
        const int key = c * kChunk + i;
        float score = scores[c][i] * scale_log2;
        if (masked && (key < keys.begin || key >= keys.end)) score = kMinusInfinity;
        scores[c][i] = score;
        maximum = fmaxf(maximum, score);
      }
    }
  }
  const float factor = update_reference(row, maximum);
  const float reference = subtrahend(row);
  u32 probabilities[kChunks / 2][kChunk];
#pragma unroll
  for (int c = 0; c < kChunks; ++c) {
    if (c * kChunk < columns) {
#pragma unroll
      for (int i = 0; i < kChunk; i += 2) {
        const float low = ex2_approx(scores[c][i] - reference);
        const float high = ex2_approx(scores[c][i + 1] - reference);
        row.sum += low + high;
        probabilities[c / 2][c % 2 * 8 + i / 2] = cvt_rn_x2(low, high);
      }
    }
  }

  // The tensor core must be done with the previous tile's probabilities, and with the output, before either
  // changes.
  if (!first) {
    mbarrier_wait(&control.product_done, product_phase);
    product_phase ^= 1;
    tcgen05_fence_after_thread_sync();
    if (__any_sync(0xffffffff, factor != 1.0f)) rescale(Config::Accumulator::in(lane_memory), factor);
  }
#pragma unroll
  for (int c = 0; c < kChunks / 2; ++c) {
    if (c * 2 * kChunk < columns)
      tcgen05_st_x16(Config::Probabilities::in(lane_memory) + c * kChunk, probabilities[c]);
  }
  tcgen05_wait_st();
  tcgen05_fence_before_thread_sync();
  mbarrier_arrive(&control.probability_full);
}

__device__ inline void softmax(const Shared<Control>& shared, TensorMemory memory, const TensorMap* output,
                               const ForwardArguments& arguments) {
  constexpr int kBarrier = 1;
  Control& control = *shared.control;
  const int row = threadIdx.x % kSoftmaxThreads;
  const bool leader = row == 0;
  const TensorMemory lane_memory = lanes_of(memory, row);
  Ring<kItemStages> items;
  Ring<kScoreStages> scores;
  u32 product_phase = 0;
  for (;;) {
    const Item<QueryTile> item = take_item_by_warp(control.pipeline.queue, items);
    if (item.head < 0) break;
    const QueryTile& tile = item.tile;
    const int count = tiles_of(tile.key_count);
    const Interval keys = visible(tile.query_position + row - tile.key_position, tile.key_count);
    RowState state;
    for (int j = 0; j < count; ++j) {
      scores.wait_full(control.score_full);
      tcgen05_fence_after_thread_sync();
      const Interval here = {keys.begin - j * kTileRows, keys.end - j * kTileRows};
      softmax_tile(control, lane_memory, Config::Scores::in(lane_memory, scores.slot), score_columns(tile, j),
                   here, arguments.scale_log2, j == 0, product_phase, state);
      scores.advance();
    }
    if (count > 0) {
      mbarrier_wait(&control.product_done, product_phase);
      product_phase ^= 1;
      tcgen05_fence_after_thread_sync();
    }

    const float inverse_sum = state.sum == 0.0f ? 0.0f : 1.0f / state.sum;
    const auto output_memory = Config::Accumulator::in(lane_memory);
    if (tile.part >= 0) {
      const i64 partial = partial_row(tile.part, arguments.query_heads, item.head, row);
      store_row(arguments.partial_output + partial * config::kPaddedDim, output_memory, inverse_sum, false,
                row < tile.rows);
      if (row < tile.rows) arguments.partial_states[partial] = partial_state(state);
      continue;
    }
    if (leader) cp_async_bulk_wait_group_read();
    bar_sync(kBarrier, kSoftmaxThreads);
    stage_row(shared.output[0], output_memory, row, inverse_sum, count == 0);
    fence_proxy_async_shared();
    bar_sync(kBarrier, kSoftmaxThreads);
    if (leader) {
      store_tile(output, item.head, tile.output_row, tile.rows, shared.output[0]);
      cp_async_bulk_commit_group();
    }
    if (arguments.lse != nullptr && row < tile.rows) {
      const i64 head_row = static_cast<i64>(item.head) * arguments.output_rows + tile.output_row + row;
      arguments.lse[head_row] = log_sum_exp(state);
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
  Control& control = *shared.control;
  const int warp = threadIdx.x / 32;

  if (threadIdx.x == 0) {
    init_pipeline(control.pipeline, 2 + Config::SoftmaxWarps::kCount, 1);
    for (u64& barrier : control.score_full) mbarrier_init(&barrier, 1);
    mbarrier_init(&control.probability_full, kSoftmaxThreads);
    mbarrier_init(&control.product_done, 1);
    fence_mbarrier_init();
  }
  if (warp == Config::AllocateWarps::kFirst) {
    tcgen05_alloc(&control.tensor_memory, config::kTensorMemoryColumns);
    tcgen05_relinquish_alloc_permit();
  }
  __syncthreads();
  const TensorMemory memory = control.tensor_memory;

  if (warp == Config::LoadWarps::kFirst) {
    if (elect_sync()) load(shared, control.pipeline, &query, &key, &value);
  } else if (warp == Config::MultiplyWarps::kFirst) {
    if (elect_sync()) multiply(shared, memory);
  } else if (warp == Config::DrawWarps::kFirst) {
    if (elect_sync())
      draw_items(control.pipeline.queue, arguments.tiles, &arguments.header->tile_count,
                 arguments.query_heads, &arguments.header->next_item);
  } else if (warp >= Config::SoftmaxWarps::kFirst) {
    softmax(shared, memory, &output, arguments);
  }

  __syncwarp();  // the elected lanes rejoin their warps: the CTA's barrier is for whole ones
  tcgen05_fence_before_thread_sync();
  __syncthreads();
  if (warp == Config::AllocateWarps::kFirst) tcgen05_dealloc(memory, config::kTensorMemoryColumns);
}
