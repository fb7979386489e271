// What the entries of compute capability 10.x share that compute all gradients in one pass. A chunk of 64
// queries meets a tile of 128 keys, which are lanes of tensor memory:
//
//   scores = keys * queries^T                        score gradients = values * output gradients^T
//   value gradient += probabilities * output gradients       probabilities take the score gradients' columns
//   key gradient   += score gradients * queries              rounded, in shared memory
//   query gradient += score gradients^T * keys               the same bytes, read by columns
namespace jfa::kernel::fused {

// Columns of tensor memory; scores and their gradients are where the other entries have them.
constexpr u32 kProbabilityColumn = kScoreGradColumn;  // operand: two 16-bit elements a column
constexpr u32 kKeyGradColumn = 128;
constexpr u32 kValueGradColumn = 256;
constexpr u32 kQueryGradColumn = 384;

struct Barriers {
  u64 scores_full;         // scores and their gradients are in tensor memory
  u64 scores_read;         // they have been read
  u64 operands_full;       // probabilities and rounded score gradients are in place
  u64 value_product_done;  // probabilities have been multiplied
  u64 products_done;       // so has everything else, up to the query gradient
  u64 tile_read;           // the gradients of a tile of keys and values have left tensor memory
  u64 query_grad_read;     // so has the query's
};

__device__ inline void init_barriers(Barriers& barriers) {
  mbarrier_init(&barriers.scores_full, 1);
  mbarrier_init(&barriers.scores_read, kGradientThreads);
  mbarrier_init(&barriers.operands_full, kGradientThreads);
  mbarrier_init(&barriers.value_product_done, 1);
  mbarrier_init(&barriers.products_done, 1);
  mbarrier_init(&barriers.tile_read, kGradientThreads);
  mbarrier_init(&barriers.query_grad_read, kGradientThreads);
}

// A barrier whose phases one role waits for one after the other.
struct Waits {
  u64* barrier;
  u32 phase = 0;
  bool outstanding = false;  // a phase has begun that has not been waited for

  __device__ inline void begin() { outstanding = true; }
  __device__ inline void wait() {
    mbarrier_wait(barrier, phase);
    phase ^= 1;
    outstanding = false;
  }
  __device__ inline void wait_outstanding() {
    if (outstanding) wait();
  }
};

// ---- Products, by the issuing thread. Tiles of queries have kRows rows; a chunk's address is that of its
// first row.

// accumulator = stationary * chunk^T
template <int kRows>
__device__ inline void multiply_scores(TensorMemory accumulator, u32 stationary, u32 chunk) {
  const u32 instruction = instruction_descriptor(kStreamedRows, false);
  for (int k = 0; k < config::kPaddedDim / 16; ++k) {
    tcgen05_mma_ss(accumulator, descriptor_k_major<kTileRows>(stationary, k),
                   descriptor_k_major<kRows>(chunk, k), instruction, k > 0);
  }
}

template <int kRows>
__device__ inline void multiply_value_grad(TensorMemory memory, u32 output_grads, bool accumulate) {
  const u32 instruction = instruction_descriptor(config::kPaddedDim, true);
  for (int k = 0; k < kStreamedRows / 16; ++k) {
    tcgen05_mma_ts(memory + kValueGradColumn, memory + kProbabilityColumn + k * 8,
                   descriptor_n_major<kRows>(output_grads, k), instruction, accumulate || k > 0);
  }
}

template <int kRows>
__device__ inline void multiply_key_grad(TensorMemory memory, u32 score_grads, u32 queries, bool accumulate) {
  const u32 instruction = instruction_descriptor(config::kPaddedDim, true);
  for (int k = 0; k < kStreamedRows / 16; ++k) {
    tcgen05_mma_ss(memory + kKeyGradColumn, descriptor_k_major<kTileRows>(score_grads, k),
                   descriptor_n_major<kRows>(queries, k), instruction, accumulate || k > 0);
  }
}

// Of the kRows queries of a whole tile at once.
template <int kRows>
__device__ inline void multiply_query_grad(TensorMemory memory, u32 score_grads, u32 keys, bool accumulate) {
  const u32 instruction = instruction_descriptor(config::kPaddedDim, true, true, kRows);
  for (int k = 0; k < kTileRows / 16; ++k) {
    tcgen05_mma_ss(memory + kQueryGradColumn, descriptor_n_major<kTileRows>(score_grads, k),
                   descriptor_n_major<kTileRows>(keys, k), instruction, accumulate || k > 0);
  }
}

// A chunk of queries and a tile of keys.
struct Chunk {
  u32 keys = 0, values = 0;           // shared addresses of the tiles
  u32 queries = 0, output_grads = 0;  // of the chunk's first rows
  u32 score_grads = 0;                // of the rounded score gradients
  bool starts_keys = false;           // its products start the gradients of keys and values
  bool ends_queries = false;    // the last chunk of a tile of queries: the query gradient's product follows
  bool starts_queries = false;  // which starts that gradient
  u32 tile_score_grads = 0;     // of all the tile's chunks
  u64* empty[2] = {nullptr, nullptr};  // signalled when all its products are done
};

// The issuing thread: scores one chunk ahead of the products. kRows: of the tiles that hold the chunks;
// kQueryGradRows: of the query gradient.
template <int kRows, int kQueryGradRows>
class Products {
 public:
  // query_grad_awaited: the first query gradient must wait for query_grad_read too.
  __device__ inline Products(Barriers& barriers, TensorMemory memory, bool query_grad_awaited)
      : barriers_(barriers), memory_(memory) {
    if (query_grad_awaited) query_grad_read_.begin();
  }

  __device__ inline void scores(const Chunk& next) {
    scores_read_.wait_outstanding();
    tcgen05_fence_after_thread_sync();
    multiply_scores<kRows>(memory_ + kScoreColumn, next.keys, next.queries);
    if (any_pending_) multiply_keys();
    // Their operand lies where the score gradients go.
    if (value_product_done_.outstanding) {
      value_product_done_.wait();
      tcgen05_fence_after_thread_sync();
    }
    multiply_scores<kRows>(memory_ + kScoreGradColumn, next.values, next.output_grads);
    tcgen05_commit(&barriers_.scores_full);
    scores_read_.begin();
    if (any_pending_) finish();
    pending_ = next;
    any_pending_ = true;
  }

  // Whoever waits for something that may hang on what is pending calls this first.
  __device__ inline void flush() {
    if (!any_pending_) return;
    multiply_keys();
    finish();
  }

  // Signals once nothing that has been begun is to be done any more.
  __device__ inline void release(int which, u64* empty) {
    if (any_pending_) {
      pending_.empty[which] = empty;
    } else {
      tcgen05_commit(empty);
    }
  }

  __device__ inline void end() {
    flush();
    value_product_done_.wait_outstanding();  // the CTA may not exit before it is signalled
  }

 private:
  __device__ inline void multiply_keys() {
    operands_full_.wait();
    if (pending_.starts_keys) {
      tile_read_.wait_outstanding();
      tile_read_.begin();
    }
    tcgen05_fence_after_thread_sync();
    multiply_value_grad<kRows>(memory_, pending_.output_grads, !pending_.starts_keys);
    tcgen05_commit(&barriers_.value_product_done);
    value_product_done_.begin();
    multiply_key_grad<kRows>(memory_, pending_.score_grads, pending_.queries, !pending_.starts_keys);
  }

  __device__ inline void finish() {
    if (pending_.ends_queries) {
      if (pending_.starts_queries) {
        query_grad_read_.wait_outstanding();
        query_grad_read_.begin();
        tcgen05_fence_after_thread_sync();
      }
      multiply_query_grad<kQueryGradRows>(memory_, pending_.tile_score_grads, pending_.keys,
                                          !pending_.starts_queries);
      tcgen05_commit(&barriers_.products_done);
    }
    for (u64* empty : pending_.empty)
      if (empty != nullptr) tcgen05_commit(empty);
    any_pending_ = false;
  }

  Barriers& barriers_;
  const TensorMemory memory_;
  Chunk pending_;  // its scores have been issued, its other products have not
  bool any_pending_ = false;
  Waits scores_read_{&barriers_.scores_read};
  Waits operands_full_{&barriers_.operands_full};
  Waits value_product_done_{&barriers_.value_product_done};
  Waits tile_read_{&barriers_.tile_read};
  Waits query_grad_read_{&barriers_.query_grad_read};
};

// ---- Operands, by one thread a key.

// 16 columns of scores and of their gradients.
struct ScorePiece {
  float scores[16], grads[16];

  __device__ inline void load(TensorMemory lane_memory, int column) {
    tcgen05_ld_x16(scores, lane_memory + kScoreColumn + column);
    tcgen05_ld_x16(grads, lane_memory + kScoreGradColumn + column);
    tcgen05_wait_ld();
    pin(scores);
    pin(grads);
  }
};

// Puts 32 columns of a key's rounded score gradients in their place.
__device__ inline void stage_score_grads(u32 chunk, u32 row, int column, const u32 (&packed)[16]) {
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const int first = column + i * 8;
    st_shared_v4(chunk + first / config::kBoxDim * box_bytes(kTileRows) +
                     swizzled_offset(row, first % config::kBoxDim / 8),
                 packed[4 * i], packed[4 * i + 1], packed[4 * i + 2], packed[4 * i + 3]);
  }
}

// One chunk of this thread's key. operands(column, score, score_grad) turns a score into its probability and
// the score gradient. free_score_grads() returns once nobody reads what lies in `chunk`.
template <class Operands, class Free>
__device__ inline void score_operands(Barriers& barriers, Waits& scores, TensorMemory lane_memory, u32 chunk,
                                      u32 row, Operands operands, Free free_score_grads) {
  constexpr int kPieces = kStreamedRows / 32;
  scores.wait();
  tcgen05_fence_after_thread_sync();
#pragma unroll
  for (int piece = 0; piece < kPieces; ++piece) {
    u32 probabilities[16], score_grads[16];
#pragma unroll
    for (int c = 0; c < 2; ++c) {
      const int first = piece * 32 + c * 16;
      ScorePiece values;
      values.load(lane_memory, first);
      if (first + 16 == kStreamedRows) {
        tcgen05_fence_before_thread_sync();
        mbarrier_arrive(&barriers.scores_read);
      }
#pragma unroll
      for (int i = 0; i < 16; i += 2) {
        float p[2], g[2];
#pragma unroll
        for (int h = 0; h < 2; ++h)
          operands(first + i + h, values.scores[i + h], values.grads[i + h], p[h], g[h]);
        probabilities[c * 8 + i / 2] = cvt_rn_x2(p[0], p[1]);
        score_grads[c * 8 + i / 2] = cvt_rn_x2(g[0], g[1]);
      }
    }
    // Over score gradients that have been read: 32 of their columns make 16.
    tcgen05_st_x16(lane_memory + kProbabilityColumn + piece * 16, probabilities);
    if (piece == 0) free_score_grads();
    stage_score_grads(chunk, row, piece * 32, score_grads);
  }
  tcgen05_wait_st();
  tcgen05_fence_before_thread_sync();
  fence_proxy_async_shared();
  mbarrier_arrive(&barriers.operands_full);
}

}  // namespace jfa::kernel::fused
