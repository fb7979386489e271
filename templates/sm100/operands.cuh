// From scores to the operands of the gradients' products, one thread a lane of tensor memory, kPieceColumns
// columns at a time: probabilities 2^(score - LSE), and score gradients probability * (gradient - delta).
namespace jfa::kernel {

constexpr int kPieceColumns = 32;
static_assert(kStreamedRows % kPieceColumns == 0 && kChunkRows % kPieceColumns == 0);
using RoundedPiece = u32[kPieceColumns / 2];

// LSE and delta of queries that are columns. What a score is added to is kept: negated, and each by itself,
// so that those of four columns are one load each.
template <int kRows>
struct ColumnStats {
  alignas(16) float minus_lse_log2[kRows];
  alignas(16) float minus_delta[kRows];

  struct Row {
    float &minus_lse_log2, &minus_delta;
    __device__ inline void operator=(const QueryStats& stats) {
      minus_lse_log2 = -stats.lse_log2;
      minus_delta = -stats.delta;
    }
  };
  __device__ inline Row operator[](int row) { return {minus_lse_log2[row], minus_delta[row]}; }
};

// Of four columns, two a pair.
struct FourColumns {
  FloatPair pairs[2];
};

// Of neighbouring columns.
struct StatsOfColumns {
  const float *minus_lse_log2, *minus_delta;

  template <int kRows>
  __device__ inline StatsOfColumns(const ColumnStats<kRows>& stats, int first = 0)
      : minus_lse_log2(stats.minus_lse_log2 + first), minus_delta(stats.minus_delta + first) {}
  __device__ static inline FourColumns load(const float* four) {
    const ulonglong2 both = *reinterpret_cast<const ulonglong2*>(four);
    return {{{both.x}, {both.y}}};
  }
  __device__ inline FourColumns lse(int column) const { return load(minus_lse_log2 + column); }
  __device__ inline FourColumns delta(int column) const { return load(minus_delta + column); }
};

// Of this thread's query, for all columns.
struct StatsOfLane {
  FloatPair minus_lse_log2, minus_delta;

  __device__ inline StatsOfLane(float lse_log2, float delta)
      : minus_lse_log2(pack(-lse_log2)), minus_delta(pack(-delta)) {}
  __device__ inline FourColumns lse(int) const { return {{minus_lse_log2, minus_lse_log2}}; }
  __device__ inline FourColumns delta(int) const { return {{minus_delta, minus_delta}}; }
};

// Columns of scores and of their gradients.
struct ScorePiece {
  float scores[kPieceColumns], grads[kPieceColumns];

  __device__ inline void pin() {
    kernel::pin(scores);
    kernel::pin(grads);
  }

  // `column`: the first one's, in `stats`.
  template <class Stats>
  __device__ inline void round(float scale_log2, const Stats& stats, int column, RoundedPiece& probabilities,
                               RoundedPiece& score_grads) const {
    const FloatPair scale = pack(scale_log2);
#pragma unroll
    for (int i = 0; i < kPieceColumns; i += 4) {
      const FourColumns lse = stats.lse(column + i), delta = stats.delta(column + i);
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        const int first = i + 2 * h;
        float low, high;
        unpack(fma_rn_x2(pack(scores[first], scores[first + 1]), scale, lse.pairs[h]), low, high);
        low = ex2_approx(low);
        high = ex2_approx(high);
        probabilities[first / 2] = cvt_rn_x2(low, high);
        const FloatPair gradient = add_rn_x2(pack(grads[first], grads[first + 1]), delta.pairs[h]);
        unpack(mul_rn_x2(pack(low, high), gradient), low, high);
        score_grads[first / 2] = cvt_rn_x2(low, high);
      }
    }
  }
};

// Zeros where a column is not seen, whatever stood there; `seen` has a bit a column.
__device__ inline void mask_operands(RoundedPiece& probabilities, RoundedPiece& score_grads, u32 seen) {
#pragma unroll
  for (int i = 0; i < kPieceColumns / 2; ++i) {
    const u32 low = (seen >> 2 * i & 1) != 0 ? 0xffffu : 0;
    const u32 high = (seen >> (2 * i + 1) & 1) != 0 ? 0xffff0000u : 0;
    probabilities[i] &= low | high;
    score_grads[i] &= low | high;
  }
}

}  // namespace jfa::kernel
