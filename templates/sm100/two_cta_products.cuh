// The products of clusters of two CTAs, by one thread of the even one: scores one chunk ahead of the others.
namespace jfa::kernel::two_cta {

// A chunk whose scores have been issued and whose other products have not.
struct PendingChunk {
  Ring<kKeyStages> keys;
  bool starts_keys, ends_keys;        // the first, the last chunk of the pair of key tiles
  bool ends_step, starts_query_grad;  // the query gradient's product follows, and starts it
};

template <class Tile>
class Products {
 public:
  __device__ inline Products(const Shared<Tile>& shared, TensorMemory memory)
      : shared_(shared), pipeline_(shared.control->pipeline), memory_(memory) {}

  // One step's; one without chunks ends what the steps before have begun.
  __device__ inline void step(const Step& step) {
    for (i32 chunk = 0; chunk < step.chunks(); ++chunk) {
      const bool last = chunk == step.chunks() - 1;
      scores({keys_, !has_keys_, last && step.ends_keys, last, !has_query_grad_});
      has_keys_ = true;
    }
    if (step.seen) {
      has_query_grad_ = true;
    } else {
      flush();
      if (step.ends_keys && has_keys_) {
        tcgen05_commit_to_pair(&pipeline_.keys.empty[keys_.slot]);
        tcgen05_commit_to_pair(&pipeline_.values.empty[keys_.slot]);
        tcgen05_commit_to_pair(&pipeline_.key_columns.empty[keys_.slot]);
      }
    }
    if (step.ends_keys && has_keys_) {
      keys_.advance();
      has_keys_ = false;
    }
    if (step.ends_queries) has_query_grad_ = false;
  }

  __device__ inline void end() {
    flush();
    operands_read_.wait_outstanding();  // the CTA may not exit before it is signalled
  }

 private:
  __device__ inline void scores(const PendingChunk& next) {
    const int slot = next.keys.slot;
    if (next.starts_keys) next.keys.wait_full(pipeline_.keys.full);
    rows_.wait_full(pipeline_.query_rows.full);
    scores_read_.wait_outstanding();
    tcgen05_fence_after_thread_sync();
    const auto rows = shared_.query_rows[rows_.slot];
    mma_abt<kCtas>(Config::Scores::in(memory_), shared_.keys[slot], rows[0], kChunkRows);
    if (next.ends_keys) tcgen05_commit_to_pair(&pipeline_.keys.empty[slot]);
    if (any_pending_) multiply_keys();
    if (next.starts_keys) next.keys.wait_full(pipeline_.values.full);
    // Their operands lie where the score gradients go.
    operands_read_.wait_outstanding();
    tcgen05_fence_after_thread_sync();
    mma_abt<kCtas>(Config::ScoreGrads::in(memory_), shared_.values[slot], rows[1], kChunkRows);
    tcgen05_commit_to_pair(&pipeline_.scores_full);
    scores_read_.begin();
    tcgen05_commit_to_pair(&pipeline_.query_rows.empty[rows_.slot]);
    if (next.ends_keys) tcgen05_commit_to_pair(&pipeline_.values.empty[slot]);
    rows_.advance();
    if (any_pending_) multiply_queries();
    pending_ = next;
    any_pending_ = true;
  }

  __device__ inline void flush() {
    if (!any_pending_) return;
    multiply_keys();
    multiply_queries();
  }

  __device__ inline void multiply_keys() {
    columns_.wait_full(pipeline_.query_columns.full);
    operands_full_.wait();
    if (pending_.starts_keys) {
      tile_read_.wait_outstanding();
      tile_read_.begin();
    }
    tcgen05_fence_after_thread_sync();
    const auto columns = shared_.query_columns[columns_.slot];
    constexpr int kPieces = kChunkRows / kPieceColumns;
    for (int piece = 0; piece < kPieces; ++piece) {
      const int row = piece * kPieceColumns;
      const bool first = pending_.starts_keys && piece == 0;
      mma_ab<kCtas>(Config::ValueGrad::in(memory_), Config::Operands::in(memory_, 2 * piece),
                    columns[1].from_row(row), first);
      mma_ab<kCtas>(Config::KeyGrad::in(memory_), Config::Operands::in(memory_, 2 * piece + 1),
                    columns[0].from_row(row), first);
    }
    tcgen05_commit<kCtas>(&pipeline_.operands_read);
    operands_read_.begin();
    tcgen05_commit_to_pair(&pipeline_.query_columns.empty[columns_.slot]);
    columns_.advance();
  }

  __device__ inline void multiply_queries() {
    any_pending_ = false;
    if (!pending_.ends_step) return;
    const int slot = pending_.keys.slot;
    pending_.keys.wait_full(pipeline_.key_columns.full);
    if (pending_.starts_query_grad) {
      query_grad_read_.wait_outstanding();
      query_grad_read_.begin();
      tcgen05_fence_after_thread_sync();
    }
    mma_atb<kCtas>(Config::QueryGrad::in(memory_), shared_.score_grads[0], shared_.key_columns[slot],
                   !pending_.starts_query_grad);
    tcgen05_commit_to_pair(&pipeline_.products_done);
    if (pending_.ends_keys) tcgen05_commit_to_pair(&pipeline_.key_columns.empty[slot]);
  }

  using Waits = fused::WaitsOf<true>;
  const Shared<Tile>& shared_;
  Pipeline<Tile>& pipeline_;
  const TensorMemory memory_;
  PendingChunk pending_{};
  bool any_pending_ = false;
  bool has_keys_ = false;        // the pair of key tiles has had products,
  bool has_query_grad_ = false;  // so has the query gradient
  Ring<kKeyStages> keys_;
  Ring<kStages> rows_, columns_;
  Waits scores_read_{&pipeline_.scores_read};
  Waits operands_full_{&pipeline_.operands_full};
  Waits operands_read_{&pipeline_.operands_read};
  Waits tile_read_{&pipeline_.tile_read};
  Waits query_grad_read_{&pipeline_.query_grad_read};
};

}  // namespace jfa::kernel::two_cta
