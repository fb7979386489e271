// What both gradient entries of compute capability 10.x share. Rows of the stationary side are lanes of
// tensor memory:
//
//   scores      = stationary[0] * streamed[0]^T      score gradients = stationary[1] * streamed[1]^T
//   gradient[0] += score gradient operand * streamed[0]
//   gradient[1] += probability operand    * streamed[1]      only of keys: the values' gradient
//
//   load       one thread loads tiles         multiply  one thread issues the products
//   draw       one thread draws items
//   gradients  two threads a row, each with half of the columns: operands from scores, then the store
//
// `Work` says what an entry's items consist of: segments with stationary tiles of their own, each with some
// streamed tiles.
namespace jfa::kernel {

constexpr int kGradientThreads = kTileRows;  // one a row
constexpr int kGradientWarps = kGradientThreads / 32;
// Columns of a tile are shared out in pieces.
constexpr int kColumnShares = 2;
static_assert(config::Keys::GradientsWarps::kCount == kColumnShares * kGradientWarps);
static_assert(config::Queries::GradientsWarps::kCount == kColumnShares * kGradientWarps);
static_assert(config::Keys::GradientsWarps::kFirst % 4 == 0);
static_assert(config::Queries::GradientsWarps::kFirst % 4 == 0);
static_assert(config::Keys::Scores::kStages == 2 && config::Queries::Scores::kStages == 2);
constexpr int kGradientBarrier = 1;  // named barrier of the gradient warps

struct ProductBarriers {
  u64 scores_full;    // scores and their gradients are in tensor memory
  u64 scores_read;    // they have been read
  u64 operands_full;  // probabilities and score gradients are
  u64 products_done;  // they have been multiplied
};

__device__ inline void init_product_barriers(ProductBarriers& barriers) {
  mbarrier_init(&barriers.scores_full, 1);
  mbarrier_init(&barriers.scores_read, kColumnShares * kGradientThreads);
  mbarrier_init(&barriers.operands_full, kColumnShares * kGradientThreads);
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
  using Config = typename Control::Config;
  auto& pipeline = shared.control->pipeline;
  ProductBarriers& barriers = shared.control->barriers;
  Ring<kItemStages> items;
  Ring<kStationaryStages> stationary;
  Ring<kStreamedStages> streamed;
  PendingPair pending;
  u32 read_phase = 0, operand_phase = 0;
  bool scores_in_use = false;
  int score_stage = 0;

  auto multiply_pending = [&] {
    if (!pending.any) return;
    pending.any = false;
    mbarrier_wait(&barriers.operands_full, operand_phase);
    operand_phase ^= 1;
    tcgen05_fence_after_thread_sync();
    const int slot = pending.streamed.slot;
    mma_ab(Work::Gradient::in(memory), Config::RoundedScoreGrads::in(memory), shared.streamed[slot][0],
           pending.first);
    if constexpr (Work::kValueGradient) {
      mma_ab(Config::ValueGrad::in(memory), Config::Probabilities::in(memory), shared.streamed[slot][1],
             pending.first);
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
        tcgen05_fence_after_thread_sync();
        const auto stationary_pair = shared.stationary[stationary.slot];
        const auto streamed_pair = shared.streamed[streamed.slot];
        // The scores before the last ones have been read: the last ones' gradients were waited for.
        mma_abt(Config::Scores::in(memory, score_stage), stationary_pair[0], streamed_pair[0], kStreamedRows);
        score_stage ^= 1;
        if (scores_in_use) {
          mbarrier_wait(&barriers.scores_read, read_phase);
          read_phase ^= 1;
          tcgen05_fence_after_thread_sync();
        }
        scores_in_use = true;
        mma_abt(Config::ScoreGrads::in(memory), stationary_pair[1], streamed_pair[1], kStreamedRows);
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
  int score_stage = 0;
  bool outstanding = false;  // products of the last operands have not been waited for
};

__device__ inline void wait_products(ProductBarriers& barriers, GradientPhases& phases) {
  if (!phases.outstanding) return;
  phases.outstanding = false;
  mbarrier_wait(&barriers.products_done, phases.products);
  phases.products ^= 1;
  tcgen05_fence_after_thread_sync();
}

// This thread's share of one streamed tile's columns. Its row sees those of an interval; its LSE and delta,
// or the columns', are in `stats`.
template <class Work, class Stats>
__device__ inline void score_operands(ProductBarriers& barriers, TensorMemory lane_memory, int share,
                                      Intervals seen, float scale_log2, const Stats& stats,
                                      GradientPhases& phases) {
  using Config = typename Work::Config;
  static_assert(kStreamedRows <= kColumnShares * kPieceColumns);
  const int column = share * kPieceColumns;
  // With fewer columns than that the last shares have none.
  const bool has_columns = kStreamedRows == kColumnShares * kPieceColumns || column < kStreamedRows;
  mbarrier_wait(&barriers.scores_full, phases.scores);
  phases.scores ^= 1;
  tcgen05_fence_after_thread_sync();
  ScorePiece piece;
  if (has_columns) {
    // Scores come last: they are used first, and ptxas issues no load behind what waits for another.
    tcgen05_ld(piece.grads, Config::ScoreGrads::in(lane_memory) + column);
    tcgen05_ld(piece.scores, Config::Scores::in(lane_memory, phases.score_stage) + column);
    tcgen05_wait_ld();
    piece.pin();
  }
  tcgen05_fence_before_thread_sync();
  mbarrier_arrive(&barriers.scores_read);
  phases.score_stage ^= 1;
  RoundedPiece probabilities, score_grads;
  if (has_columns) {
    piece.round(scale_log2, stats, column, probabilities, score_grads);
    if (__any_sync(0xffffffff, seen.lacks_any(column, column + kPieceColumns)))
      mask_operands(probabilities, score_grads, seen_bits(seen, column));
  }
  wait_products(barriers, phases);
  if (has_columns) {
    if constexpr (Work::kValueGradient)
      tcgen05_st_x16(Config::Probabilities::in(lane_memory) + column / 2, probabilities);
    tcgen05_st_x16(Config::RoundedScoreGrads::in(lane_memory) + column / 2, score_grads);
    tcgen05_wait_st();
  }
  tcgen05_fence_before_thread_sync();
  mbarrier_arrive(&barriers.operands_full);
  phases.outstanding = true;
}

// The whole CTA: barriers and tensor memory, then roles(warp, memory), then tensor memory back.
// AllocateWarps: who allocates; address: shared memory for that of the tensor memory.
template <class AllocateWarps, class Init, class Roles>
__device__ inline void run_roles(TensorMemory* address, Init init, Roles roles) {
  const int warp = threadIdx.x / 32;
  if (threadIdx.x == 0) {
    init();
    fence_mbarrier_init();
  }
  if (warp == AllocateWarps::kFirst) {
    tcgen05_alloc(address, config::kTensorMemoryColumns);
    tcgen05_relinquish_alloc_permit();
  }
  __syncthreads();
  const TensorMemory memory = *address;
  roles(warp, memory);
  __syncwarp();  // the elected lanes rejoin their warps: the CTA's barrier is for whole ones
  tcgen05_fence_before_thread_sync();
  __syncthreads();
  if (warp == AllocateWarps::kFirst) tcgen05_dealloc(memory, config::kTensorMemoryColumns);
}

}  // namespace jfa::kernel
