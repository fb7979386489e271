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

// Of neighbouring columns.
struct StatsOfColumns {
  const float *minus_lse_log2, *minus_delta;

  template <int kRows>
  __device__ inline StatsOfColumns(const ColumnStats<kRows>& stats, int first = 0)
      : minus_lse_log2(stats.minus_lse_log2 + first), minus_delta(stats.minus_delta + first) {}
  __device__ inline float4 lse(int column) const {
    return *reinterpret_cast<const float4*>(minus_lse_log2 + column);
  }
  __device__ inline float4 delta(int column) const {
    return *reinterpret_cast<const float4*>(minus_delta + column);
  }
};

// Of this thread's query, for all columns.
struct StatsOfLane {
  float minus_lse_log2, minus_delta;

  __device__ inline float4 lse(int) const {
    return {minus_lse_log2, minus_lse_log2, minus_lse_log2, minus_lse_log2};
  }
  __device__ inline float4 delta(int) const { return {minus_delta, minus_delta, minus_delta, minus_delta}; }
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
#pragma unroll
    for (int i = 0; i < kPieceColumns; i += 4) {
      const float4 lse = stats.lse(column + i), delta = stats.delta(column + i);
#pragma unroll
      for (int h = 0; h < 4; h += 2) {
        const float2 exponent = fma_rn_x2({scores[i + h], scores[i + h + 1]}, {scale_log2, scale_log2},
                                          h == 0 ? make_float2(lse.x, lse.y) : make_float2(lse.z, lse.w));
        const float2 p = {ex2_approx(exponent.x), ex2_approx(exponent.y)};
        const float2 g =
            mul_rn_x2(p, add_rn_x2({grads[i + h], grads[i + h + 1]},
                                   h == 0 ? make_float2(delta.x, delta.y) : make_float2(delta.z, delta.w)));
        probabilities[(i + h) / 2] = cvt_rn_x2(p.x, p.y);
        score_grads[(i + h) / 2] = cvt_rn_x2(g.x, g.y);
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
