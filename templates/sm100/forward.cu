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

// Keys that are loaded, masked and turned into probabilities together: a row's part of a tile is so many
// blocks.
constexpr int kBlock = 32;
constexpr int kBlocks = kTileRows / kBlock;

struct Control {
  Pipeline pipeline;
  u64 score_full[kScoreStages];  // scores of a key tile are in tensor memory
  u64 probability_full;          // its probabilities are; its scores and all earlier outputs have been read
  u64 product_done;              // its probabilities and values have been accumulated
  u32 tensor_memory;
};

// Keys of tile `j`, rounded up to blocks. Values of the rest are not multiplied; scores are computed of whole
// tiles, whose loads then need no condition.
__device__ inline int value_rows(const QueryTile& tile, int j) {
  return min((tile.key_count - j * kTileRows + kBlock - 1) / kBlock * kBlock, kTileRows);
}

// A key tile whose scores have been issued and whose values have not been multiplied yet.
struct PendingTile {
  Ring<kKeyValueStages> value;
  int rows = 0;  // of the values; 0: nothing is pending
  bool first = false;
};

__device__ inline void multiply_values(const Shared<Control>& shared, TensorMemory memory,
                                       PendingTile& pending, u32& phase) {
  if (pending.rows == 0) return;
  Control& control = *shared.control;
  pending.value.wait_full(control.pipeline.key_value_full);
  mbarrier_wait(&control.probability_full, phase);
  phase ^= 1;
  tcgen05_fence_after_thread_sync();
  mma_ab(Config::Accumulator::in(memory), Config::Probabilities::in(memory), shared.keys_and_values,
         pending.value.slot, pending.rows, pending.first);
  tcgen05_commit(&control.pipeline.key_value_empty[pending.value.slot]);
  tcgen05_commit(&control.product_done);
  pending.rows = 0;
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
      mma_abt(Config::Scores::in(memory, buffer), shared.queries[queries.slot],
              shared.keys_and_values[tiles.slot], kTileRows);
      tcgen05_commit(&control.pipeline.key_value_empty[tiles.slot]);
      tcgen05_commit(&control.score_full[buffer]);
      if (j == count - 1) tcgen05_commit(&control.pipeline.query_empty[queries.slot]);
      buffer ^= 1;
      tiles.advance();
      multiply_values(shared, memory, pending, probability_phase);
      pending = {tiles, value_rows(item.tile, j), j == 0};
      tiles.advance();
    }
    queries.advance();
  }
  multiply_values(shared, memory, pending, probability_phase);
}

// Multiplies this thread's row of the output accumulator by `factor`.
__device__ inline void rescale(Config::Accumulator::Tile output, float factor) {
  using Piece = RowPiece<output.kColumns>;
#pragma unroll 1
  for (int column = 0; column < output.kColumns; column += Piece::kColumns) {
    Piece piece;
    piece.load(output + column);
    piece.scale(factor);
    piece.store(output + column);
  }
}

// Where a block has keys that a row does not see, or none that any row of the warp does, scores in tensor
// memory are replaced by scaled and masked ones: after scaling, which is right for a scale of 0 and below.
// `scale`: what the scores of a block are to be multiplied by after that; `shown`: whether any row of the
// warp sees something of a half of the tile.
__device__ inline void mask_scores(Config::Scores::Tile memory, Intervals keys, float scale_log2,
                                   float (&scale)[kBlocks], bool (&shown)[2]) {
  u32 any = 0, all = 0;
#pragma unroll 1
  for (int b = 0; b < kBlocks; ++b) {
    const u32 bits = seen_bits(keys, b * kBlock);
    const bool hidden = !__any_sync(0xffffffff, bits != 0);
    if (__all_sync(0xffffffff, bits == ~0u)) {
      all |= 1u << b;
      any |= 1u << b;
      continue;
    }
    float scores[kBlock];
    if (hidden) {
#pragma unroll
      for (float& score : scores) score = kMinusInfinity;
    } else {
      any |= 1u << b;
      tcgen05_ld(scores, memory + b * kBlock);
      tcgen05_wait_ld();
      pin(scores);
#pragma unroll
      for (int i = 0; i < kBlock; ++i)
        scores[i] = (bits >> i & 1) != 0 ? scores[i] * scale_log2 : kMinusInfinity;
    }
    tcgen05_st(memory + b * kBlock, scores);
  }
  tcgen05_wait_st();
#pragma unroll
  for (int b = 0; b < kBlocks; ++b) scale[b] = (all >> b & 1) != 0 ? scale_log2 : 1.0f;
  shown[0] = (any & 3) != 0;
  shown[1] = (any >> 2) != 0;
}

// Scales a row's scores of a key tile, by what they lack, and returns their maximum: by chains that do not
// wait for each other.
__device__ inline float scale_scores(float (&scores)[kBlocks][kBlock], const float (&scale)[kBlocks]) {
  constexpr int kChains = 4;
  float maxima[kChains] = {kMinusInfinity, kMinusInfinity, kMinusInfinity, kMinusInfinity};
#pragma unroll
  for (int b = 0; b < kBlocks; ++b) {
    const FloatPair factor = pack(scale[b]);
#pragma unroll
    for (int i = 0; i < kBlock; i += 2) {
      float &low = scores[b][i], &high = scores[b][i + 1];
      unpack(mul_rn_x2(pack(low, high), factor), low, high);
      float& maximum = maxima[i / 2 % kChains];
      maximum = fmaxf(fmaxf(maximum, low), high);
    }
  }
  return fmaxf(fmaxf(maxima[0], maxima[1]), fmaxf(maxima[2], maxima[3]));
}

// 2^x of both by multiplications, for x up to 127, with a relative error of 1.8e-7 and none at whole numbers:
// as good as the instruction, for which the loop waits while multipliers have time left. 0 below 2^-126.5.
__device__ inline FloatPair ex2_polynomial(FloatPair x) {
  constexpr float kCoefficients[] = {1.0f,          0.693147004f,   0.240222424f,
                                     0.0555073358f, 0.00967151299f, 0.00132647273f};
  constexpr int kDegree = 5;
  constexpr float kShift = 3 << 22;  // a sum with it ends in the nearest integer
  float low, high;
  unpack(x, low, high);
  x = pack(max_nan(low, -127.0f), max_nan(high, -127.0f));
  const FloatPair shifted = add_rn_x2(x, pack(kShift));
  const FloatPair rest = fma_rn_x2(add_rn_x2(shifted, pack(-kShift)), pack(-1.0f), x);
  FloatPair power = pack(kCoefficients[kDegree]);
#pragma unroll
  for (int i = kDegree - 1; i >= 0; --i) power = fma_rn_x2(power, rest, pack(kCoefficients[i]));
  unpack(shifted, low, high);
  const u32 exponents[2] = {(__float_as_uint(low) << 23) + (127u << 23),
                            (__float_as_uint(high) << 23) + (127u << 23)};
  return mul_rn_x2(power, pack(__uint_as_float(exponents[0]), __uint_as_float(exponents[1])));
}

// Whether a pair of a block has its exponentials from the polynomial: so many as the plan says, spread
// evenly.
__device__ constexpr bool has_polynomial(int pair) {
  constexpr int kPairs = kBlock / 2;
  static_assert(kPairs == 16 && config::kPolynomialPairs <= kPairs);
  const auto before = [](int p) { return (p * config::kPolynomialPairs + kPairs / 2) / kPairs; };
  return before(pair) != before(pair + 1);
}

__device__ inline void exponentiate(const float (&scores)[kBlock], FloatPair minus_reference,
                                    FloatPair (&sums)[2], u32 (&probabilities)[kBlock / 2]) {
#pragma unroll
  for (int i = 0; i < kBlock; i += 2) {
    const FloatPair exponent = add_rn_x2(pack(scores[i], scores[i + 1]), minus_reference);
    float low, high;
    FloatPair probability;
    if (has_polynomial(i / 2)) {
      probability = ex2_polynomial(exponent);
      unpack(probability, low, high);
    } else {
      unpack(exponent, low, high);
      low = ex2_approx(low);
      high = ex2_approx(high);
      probability = pack(low, high);
    }
    sums[i / 2 % 2] = add_rn_x2(sums[i / 2 % 2], probability);
    probabilities[i / 2] = cvt_rn_x2(low, high);
  }
}

// Zeros that are not set before a branch that leads here: that takes registers.
__device__ inline void clear(u32 (&probabilities)[kBlock / 2]) {
  const u32 zero = opaque(0);
#pragma unroll
  for (u32& pair : probabilities) pair = zero;
}

// The probabilities that have been stored last go to the tensor core.
__device__ inline void deliver(Control& control) {
  tcgen05_wait_st();
  tcgen05_fence_before_thread_sync();
  mbarrier_arrive(&control.probability_full);
}

// One key tile of the softmax: scores in, probabilities out, which deliver() is to follow. `keys`: those of
// the tile that the row sees; `full`: every row of the warp sees all of them. `lane_memory` is this warp's
// part of tensor memory.
__device__ inline void softmax_tile(Control& control, TensorMemory lane_memory,
                                    Config::Scores::Tile score_memory, Intervals keys, bool full,
                                    float scale_log2, bool first, u32& product_phase, RowState& row) {
  constexpr int kHalf = kBlocks / 2;
  float scale[kBlocks] = {scale_log2, scale_log2, scale_log2, scale_log2};
  bool shown[2] = {true, true};
  if (!full) mask_scores(score_memory, keys, scale_log2, scale, shown);
  float scores[kBlocks][kBlock];
#pragma unroll
  for (int b = 0; b < kBlocks; ++b) tcgen05_ld(scores[b], score_memory + b * kBlock);
  if (!first) deliver(control);  // the last tile's, while these are on their way
  tcgen05_wait_ld();
#pragma unroll
  for (int b = 0; b < kBlocks; ++b) pin(scores[b]);
  const float factor = update_reference(row, scale_scores(scores, scale));
  const FloatPair minus_reference = pack(-subtrahend(row));
  FloatPair sums[2] = {};
  u32 probabilities[kBlocks][kBlock / 2];
  const auto store = [&](int b) {
    tcgen05_st_x16(Config::Probabilities::in(lane_memory) + b * (kBlock / 2), probabilities[b]);
  };
  if (shown[0]) {
#pragma unroll
    for (int b = 0; b < kHalf; ++b) exponentiate(scores[b], minus_reference, sums, probabilities[b]);
  } else {
#pragma unroll
    for (int b = 0; b < kHalf; ++b) clear(probabilities[b]);
  }
  // The tensor core must be done with the previous tile's probabilities, and with the output, before either
  // changes: by now it is.
  if (!first) {
    mbarrier_wait(&control.product_done, product_phase);
    product_phase ^= 1;
    tcgen05_fence_after_thread_sync();
    if (__any_sync(0xffffffff, factor != 1.0f)) rescale(Config::Accumulator::in(lane_memory), factor);
  }
#pragma unroll
  for (int b = 0; b < kHalf; ++b) store(b);
  if (shown[1]) {
#pragma unroll
    for (int b = kHalf; b < kBlocks; ++b) {
      exponentiate(scores[b], minus_reference, sums, probabilities[b]);
      store(b);
    }
  } else {
    clear(probabilities[kHalf]);
#pragma unroll
    for (int b = kHalf; b < kBlocks; ++b)
      tcgen05_st_x16(Config::Probabilities::in(lane_memory) + b * (kBlock / 2), probabilities[kHalf]);
  }
  float even, odd;
  unpack(add_rn_x2(sums[0], sums[1]), even, odd);
  row.sum += even + odd;
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
    const Intervals keys = keys_of_query(tile.query_position + row - tile.key_position, tile.key_count);
    // Tiles that every row of the warp sees all of.
    const int full_begin = __reduce_max_sync(0xffffffff, tiles_of(keys.longest().begin));
    const int full_end = __reduce_min_sync(0xffffffff, keys.longest().end / kTileRows);
    RowState state;
    for (int j = 0; j < count; ++j) {
      scores.wait_full(control.score_full);
      tcgen05_fence_after_thread_sync();
      const auto score_memory = Config::Scores::in(lane_memory, scores.slot);
      const Intervals here = keys.from(j * kTileRows);
      softmax_tile(control, lane_memory, score_memory, here, j >= full_begin && j < full_end,
                   arguments.scale_log2, j == 0, product_phase, state);
      scores.advance();
    }
    if (count > 0) {
      deliver(control);
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
