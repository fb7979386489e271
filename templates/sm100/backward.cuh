// What both gradient entries of compute capability 10.x share. Rows of the stationary side are lanes of
// tensor memory:
//
//   scores      = stationary[0] * streamed[0]^T      score gradients = stationary[1] * streamed[1]^T
//   gradient[0] += score gradient operand * streamed[0]
//   gradient[1] += probability operand    * streamed[1]      only of keys: the values' gradient
//
//   warp 0     one thread loads tiles             warp 2     one thread draws items
//   warp 1     one thread issues the products     warps 4-7  one thread a row: operands from scores, then the
//   store
//
// `Work` says what an entry's items consist of: segments with stationary tiles of their own, each with some
// streamed tiles.
namespace jfa::kernel {

constexpr int kGradientWarps = 4;
constexpr int kGradientThreads = 32 * kGradientWarps;
constexpr int kGradientBarrier = 1;  // named barrier of the gradient warps

// Columns of tensor memory.
constexpr u32 kScoreColumn = 0;
constexpr u32 kScoreGradColumn = 64;
constexpr u32 kProbabilityColumn = 128;       // operand: two 16-bit elements a column
constexpr u32 kScoreGradOperandColumn = 160;  // operand
constexpr u32 kGradientColumn = 256;          // of what is stationary: keys or queries
constexpr u32 kValueGradientColumn = 384;

struct ProductBarriers {
  u64 scores_full;    // scores and their gradients are in tensor memory
  u64 scores_read;    // they have been read
  u64 operands_full;  // probabilities and score gradients are
  u64 products_done;  // they have been multiplied
};

__device__ inline void init_product_barriers(ProductBarriers& barriers) {
  mbarrier_init(&barriers.scores_full, 1);
  mbarrier_init(&barriers.scores_read, kGradientThreads);
  mbarrier_init(&barriers.operands_full, kGradientThreads);
  mbarrier_init(&barriers.products_done, 1);
}

// A streamed pair whose scores have been issued and whose gradient products have not been.
struct PendingPair {
  Ring<kStreamedStages> streamed;
  bool any = false;
  bool first = false;  // of an item: its products start the accumulators
};

// The issuing thread's whole life: scores one streamed tile ahead of the products, across items too.
template <class Work, class Control>
__device__ inline void multiply(const BackwardShared<Control>& shared, TensorMemory memory,
                                const BackwardArguments& arguments) {
  auto& pipeline = shared.control->pipeline;
  ProductBarriers& barriers = shared.control->barriers;
  Ring<kItemStages> items;
  Ring<kStationaryStages> stationary;
  Ring<kStreamedStages> streamed;
  PendingPair pending;
  u32 read_phase = 0, operand_phase = 0;
  bool scores_in_use = false;

  auto multiply_pending = [&] {
    if (!pending.any) return;
    pending.any = false;
    mbarrier_wait(&barriers.operands_full, operand_phase);
    operand_phase ^= 1;
    tcgen05_fence_after_thread_sync();
    const int slot = pending.streamed.slot;
    const u32 instruction = instruction_descriptor(config::kPaddedDim, true);
    for (int k = 0; k < kStreamedRows / 16; ++k) {
      tcgen05_mma_ts(memory + kGradientColumn, memory + kScoreGradOperandColumn + k * 8,
                     descriptor_n_major<kStreamedRows>(shared.streamed_tile(slot, 0), k), instruction,
                     !pending.first || k > 0);
    }
    if constexpr (Work::kValueGradient) {
      for (int k = 0; k < kStreamedRows / 16; ++k) {
        tcgen05_mma_ts(memory + kValueGradientColumn, memory + kProbabilityColumn + k * 8,
                       descriptor_n_major<kStreamedRows>(shared.streamed_tile(slot, 1), k), instruction,
                       !pending.first || k > 0);
      }
    }
    tcgen05_commit(&pipeline.streamed_empty[slot]);
    tcgen05_commit(&barriers.products_done);
  };

  for (;;) {
    const auto item = take_item(pipeline.queue, items);
    if (item.head < 0) break;
    bool first = true;
    for (int segment = 0; segment < Work::segments(item.tile); ++segment) {
      const int count = Work::streamed_tiles(arguments, item.tile, segment);
      if (count < 0) continue;
      // A segment without products takes a stationary slot all the same: what is pending must not wait for
      // it.
      if (count == 0) multiply_pending();
      stationary.wait_full(pipeline.stationary_full);
      for (int t = 0; t < count; ++t) {
        streamed.wait_full(pipeline.streamed_full);
        if (scores_in_use) {
          mbarrier_wait(&barriers.scores_read, read_phase);
          read_phase ^= 1;
        }
        scores_in_use = true;
        tcgen05_fence_after_thread_sync();
        const u32 instruction = instruction_descriptor(kStreamedRows, false);
        for (int which = 0; which < 2; ++which) {
          for (int k = 0; k < config::kPaddedDim / 16; ++k) {
            tcgen05_mma_ss(memory + (which == 0 ? kScoreColumn : kScoreGradColumn),
                           descriptor_k_major<kTileRows>(shared.stationary_tile(stationary.slot, which), k),
                           descriptor_k_major<kStreamedRows>(shared.streamed_tile(streamed.slot, which), k),
                           instruction, k > 0);
          }
        }
        tcgen05_commit(&barriers.scores_full);
        if (t == count - 1 && Work::leaves_stationary(item.tile))
          tcgen05_commit(&pipeline.stationary_empty[stationary.slot]);
        multiply_pending();
        pending = {streamed, true, first};
        first = false;
        streamed.advance();
      }
      stationary.advance();
    }
    // Nor may it wait behind items that are passed over altogether: the queue holds a few, and only the
    // threads that wait for these products empty it.
    if (first) multiply_pending();
  }
  multiply_pending();
}

// Where a gradient thread stands in the phases of the barriers.
struct GradientPhases {
  u32 scores = 0, products = 0;
  bool outstanding = false;  // products of the last operands have not been waited for
};

__device__ inline void wait_products(ProductBarriers& barriers, GradientPhases& phases) {
  if (!phases.outstanding) return;
  phases.outstanding = false;
  mbarrier_wait(&barriers.products_done, phases.products);
  phases.products ^= 1;
  tcgen05_fence_after_thread_sync();
}

// One streamed tile of this thread's row. operands(column, score, score_grad) turns a score into its
// probability and the score gradient; `seen` masks what it computes.
template <bool kValueGradient, class Operands>
__device__ inline void score_operands(ProductBarriers& barriers, TensorMemory lane_memory, Interval seen,
                                      GradientPhases& phases, Operands operands) {
  constexpr int kChunk = 16;
  constexpr int kChunks = kStreamedRows / kChunk;
  float scores[kChunks][kChunk], grads[kChunks][kChunk];
  mbarrier_wait(&barriers.scores_full, phases.scores);
  phases.scores ^= 1;
  tcgen05_fence_after_thread_sync();
#pragma unroll
  for (int c = 0; c < kChunks; ++c) {
    tcgen05_ld_x16(scores[c], lane_memory + kScoreColumn + c * kChunk);
    tcgen05_ld_x16(grads[c], lane_memory + kScoreGradColumn + c * kChunk);
  }
  tcgen05_wait_ld();
#pragma unroll
  for (int c = 0; c < kChunks; ++c) {
    pin(scores[c]);
    pin(grads[c]);
  }
  tcgen05_fence_before_thread_sync();
  mbarrier_arrive(&barriers.scores_read);

  const bool masked = __any_sync(0xffffffff, seen.begin > 0 || seen.end < kStreamedRows);
  u32 probabilities[kChunks / 2][16], score_grads[kChunks / 2][16];
#pragma unroll
  for (int c = 0; c < kChunks; ++c) {
#pragma unroll
    for (int i = 0; i < kChunk; i += 2) {
      float p[2], g[2];
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        const int column = c * kChunk + i + h;
        operands(column, scores[c][i + h], grads[c][i + h], p[h], g[h]);
        if (masked && (column < seen.begin || column >= seen.end)) p[h] = g[h] = 0.0f;
      }
      probabilities[c / 2][c % 2 * 8 + i / 2] = cvt_rn_x2(p[0], p[1]);
      score_grads[c / 2][c % 2 * 8 + i / 2] = cvt_rn_x2(g[0], g[1]);
    }
  }
  wait_products(barriers, phases);
#pragma unroll
  for (int c = 0; c < kChunks / 2; ++c) {
    if constexpr (kValueGradient) tcgen05_st_x16(lane_memory + kProbabilityColumn + c * 16, probabilities[c]);
    tcgen05_st_x16(lane_memory + kScoreGradOperandColumn + c * 16, score_grads[c]);
  }
  tcgen05_wait_st();
  tcgen05_fence_before_thread_sync();
  mbarrier_arrive(&barriers.operands_full);
  phases.outstanding = true;
}

// The whole CTA: barriers and tensor memory, then roles(warp, memory), then tensor memory back. address:
// shared memory for that of the tensor memory.
template <class Init, class Roles>
__device__ inline void run_roles(TensorMemory* address, Init init, Roles roles) {
  const int warp = threadIdx.x / 32;
  if (threadIdx.x == 0) {
    init();
    fence_mbarrier_init();
  }
  if (warp == 3) {
    tcgen05_alloc(address, config::kTensorMemoryColumns);
    tcgen05_relinquish_alloc_permit();
  }
  __syncthreads();
  const TensorMemory memory = *address;
  roles(warp, memory);
  __syncwarp();  // the elected lanes rejoin their warps: the CTA's barrier is for whole ones
  tcgen05_fence_before_thread_sync();
  __syncthreads();
  if (warp == 3) tcgen05_dealloc(memory, config::kTensorMemoryColumns);
}

}  // namespace jfa::kernel
