// What the entries of compute capability 10.x share that compute all gradients in one pass. A chunk of
// kChunkRows queries meets a tile of keys, which are lanes of tensor memory:
//
//   scores = keys * queries^T                        score gradients = values * output gradients^T
//   value gradient += probabilities * output gradients       probabilities take the score gradients' columns
//   key gradient   += score gradients * queries              rounded, in shared memory
//   query gradient += score gradients^T * keys               the same bytes, read by columns
namespace jfa::kernel::fused {

// Tiles of keys or values, and of kRows queries or output gradients.
using KeysTile = config::Keys::Stationary::Stage::Tile;
template <int kRows>
using QueriesTile = KeysTile::WithRows<kRows>;
// Rounded score gradients of a tile of queries, and of one chunk of it. Config: config::Short or
// config::Broadcast.
template <class Config>
using ScoreGrads = typename Config::RoundedScoreGrads::Stage;
template <class Config>
using ChunkScoreGrads = typename ScoreGrads<Config>::template WithColumns<kChunkRows>;

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

// A barrier whose phases one role waits for one after the other. kOfCluster: arrivals come from other CTAs,
// too, and bring what those wrote.
template <bool kOfCluster>
struct WaitsOf {
  u64* barrier;
  u32 phase = 0;
  bool outstanding = false;  // a phase has begun that has not been waited for

  __device__ inline void begin() { outstanding = true; }
  __device__ inline void wait() {
    if constexpr (kOfCluster) {
      mbarrier_wait_of_cluster(barrier, phase);
    } else {
      mbarrier_wait(barrier, phase);
    }
    phase ^= 1;
    outstanding = false;
  }
  __device__ inline void wait_outstanding() {
    if (outstanding) wait();
  }
};
using Waits = WaitsOf<false>;

// ---- Products, by the issuing thread. Tiles of queries have kRows rows; a chunk begins at some row of one.

// A chunk of queries and a tile of keys.
template <class Config, int kRows>
struct Chunk {
  KeysTile keys = {0}, values = {0};
  QueriesTile<kRows> queries = {0}, output_grads = {0};
  ChunkScoreGrads<Config> score_grads = {0};
  bool starts_keys = false;     // its products start the gradients of keys and values
  bool ends_queries = false;    // the last chunk of a tile of queries: the query gradient's product follows
  bool starts_queries = false;  // which starts that gradient
  ScoreGrads<Config> tile_score_grads = {0};  // of all the tile's chunks
  u64* empty[2] = {nullptr, nullptr};         // signalled when all its products are done
};

// The issuing thread: scores one chunk ahead of the products. kRows: of the tiles that hold the chunks.
template <class Config, int kRows>
class Products {
 public:
  // query_grad_awaited: the first query gradient must wait for query_grad_read too.
  __device__ inline Products(Barriers& barriers, TensorMemory memory, bool query_grad_awaited)
      : barriers_(barriers), memory_(memory) {
    if (query_grad_awaited) query_grad_read_.begin();
  }

  using Chunk = fused::Chunk<Config, kRows>;

  __device__ inline void scores(const Chunk& next) {
    scores_read_.wait_outstanding();
    tcgen05_fence_after_thread_sync();
    mma_abt(Config::Scores::in(memory_), next.keys, next.queries, kChunkRows);
    if (any_pending_) multiply_keys();
    // Their operand lies where the score gradients go.
    if (value_product_done_.outstanding) {
      value_product_done_.wait();
      tcgen05_fence_after_thread_sync();
    }
    mma_abt(Config::ScoreGrads::in(memory_), next.values, next.output_grads, kChunkRows);
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
    mma_ab(Config::ValueGrad::in(memory_), Config::Probabilities::in(memory_), pending_.output_grads,
           pending_.starts_keys);
    tcgen05_commit(&barriers_.value_product_done);
    value_product_done_.begin();
    mma_ab(Config::KeyGrad::in(memory_), pending_.score_grads, pending_.queries, !pending_.starts_keys);
  }

  __device__ inline void finish() {
    if (pending_.ends_queries) {
      if (pending_.starts_queries) {
        query_grad_read_.wait_outstanding();
        query_grad_read_.begin();
        tcgen05_fence_after_thread_sync();
      }
      mma_atb(Config::QueryGrad::in(memory_), pending_.tile_score_grads, pending_.keys,
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

// Puts a piece's columns of a key's rounded score gradients in their place: store(address, four words).
template <class Tile, class Store>
__device__ inline void stage_score_grads(Tile chunk, u32 row, int column, const RoundedPiece& packed,
                                         Store store) {
#pragma unroll
  for (int i = 0; i < kPieceColumns / 8; ++i) {
    const int first = column + i * 8;
    store(chunk.address + first / Tile::kBoxDim * Tile::kBoxBytes +
              swizzled_offset(row, first % Tile::kBoxDim / 8),
          packed[4 * i], packed[4 * i + 1], packed[4 * i + 2], packed[4 * i + 3]);
  }
}

// Where a CTA that works alone puts them. free() returns once nobody reads what lies in `chunk`.
template <class Config, class Free>
struct ChunkOperands {
  Barriers& barriers;
  TensorMemory lane_memory;
  ChunkScoreGrads<Config> chunk;
  u32 row;
  Free free;

  __device__ inline void scores_read() {
    tcgen05_fence_before_thread_sync();
    mbarrier_arrive(&barriers.scores_read);
  }
  __device__ inline void put(int piece, const RoundedPiece& probabilities, const RoundedPiece& score_grads) {
    // Over score gradients that have been read: two of their columns make one.
    tcgen05_st_x16(Config::Probabilities::in(lane_memory) + piece * (kPieceColumns / 2), probabilities);
    if (piece == 0) free();
    stage_score_grads(chunk, row, piece * kPieceColumns, score_grads,
                      [](u32 address, u32 a, u32 b, u32 c, u32 d) { st_shared_v4(address, a, b, c, d); });
  }
  __device__ inline void done() {
    tcgen05_wait_st();
    tcgen05_fence_before_thread_sync();
    fence_proxy_async_shared();
    mbarrier_arrive(&barriers.operands_full);
  }
};
template <class Config, class Free>
__device__ inline ChunkOperands<Config, Free> chunk_operands(Barriers& barriers, TensorMemory lane_memory,
                                                             ChunkScoreGrads<Config> chunk, u32 row,
                                                             Free free) {
  return {barriers, lane_memory, chunk, row, free};
}

// One chunk of this thread's key, its queries' LSE and delta in `stats`; `place` takes the operands, a piece
// at a time. seen_bits(piece): which of a piece's columns the key sees, if some key of the warp does not see
// all.
template <class Config, class SeenBits, class Place>
__device__ inline void score_operands(Waits& scores_full, TensorMemory lane_memory, float scale_log2,
                                      StatsOfColumns stats, bool masked, SeenBits seen_bits, Place place) {
  constexpr int kPieces = kChunkRows / kPieceColumns;
  scores_full.wait();
  tcgen05_fence_after_thread_sync();
#pragma unroll
  for (int p = 0; p < kPieces; ++p) {
    const int column = p * kPieceColumns;
    ScorePiece piece;
    tcgen05_ld(piece.scores, Config::Scores::in(lane_memory) + column);
    tcgen05_ld(piece.grads, Config::ScoreGrads::in(lane_memory) + column);
    tcgen05_wait_ld();
    piece.pin();
    if (p == kPieces - 1) place.scores_read();
    RoundedPiece probabilities, score_grads;
    piece.round(scale_log2, stats, column, probabilities, score_grads);
    if (masked) mask_operands(probabilities, score_grads, seen_bits(p));
    place.put(p, probabilities, score_grads);
  }
  place.done();
}

}  // namespace jfa::kernel::fused
