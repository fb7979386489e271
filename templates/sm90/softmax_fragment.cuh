// Online softmax of a 64 x kTileRows accumulator fragment: each thread holds two rows, a quad of lanes shares
// them.
namespace jfa::kernel {

constexpr int kScoreRegisters = kTileRows / 2;

// Up to this reference a product with the scale may stay unrounded inside the exponent. Its distance from the
// rounded one, here at most 1/32, is a common factor of a row's probabilities, and cancels; beyond, it would
// leave the range of the 16-bit operand.
constexpr float kFusedReference = 1 << 20;

// Scores become ex2(score - reference), unnormalised; `factor` is for what the rows accumulated before. Sums
// are of this thread's columns only. keys: what each row sees, counted from the tile's first column.
__device__ inline void softmax_fragment(float (&scores)[kScoreRegisters], const Intervals (&keys)[2],
                                        float scale_log2, RowState (&rows)[2], float (&factor)[2]) {
  // A positive scale is applied inside the exponent; otherwise the largest score is not the largest product,
  // and the products come first. Masking comes after either, since 0 * -inf is no score.
  float scale = scale_log2;
  if (!(scale_log2 > 0.0f)) {
#pragma unroll
    for (int i = 0; i < kScoreRegisters; ++i) scores[i] *= scale_log2;
    scale = 1.0f;
  }
  const bool masked = keys[0].lacks_any(0, kTileRows) || keys[1].lacks_any(0, kTileRows);
  if (__any_sync(0xffffffff, masked)) {
#pragma unroll
    for (int i = 0; i < kScoreRegisters; ++i) {
      if (keys[fragment_row(i)].lacks(fragment_column(i))) scores[i] = kMinusInfinity;
    }
  }
  float maximum[2] = {kMinusInfinity, kMinusInfinity};
#pragma unroll
  for (int i = 0; i < kScoreRegisters; ++i)
    maximum[fragment_row(i)] = fmaxf(maximum[fragment_row(i)], scores[i]);
  // The vote is by each lane's own columns, so that it runs beside the quads' shuffles: a reference that has
  // grown large did so in some lane. One from an earlier tile that no score here comes near leaves zeros.
  bool large = false;
  float row_maximum[2];
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    const float product = maximum[r] * scale;
    row_maximum[r] = quad_maximum(product);
    large |= fabsf(product) > kFusedReference && product != kMinusInfinity;
  }
  if (__any_sync(0xffffffff, large)) {
#pragma unroll
    for (int i = 0; i < kScoreRegisters; ++i) scores[i] *= scale;
    scale = 1.0f;
  }
  float reference[2];
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    factor[r] = update_reference(rows[r], row_maximum[r]);
    reference[r] = subtrahend(rows[r]);
  }
#pragma unroll
  for (int i = 0; i < kScoreRegisters; ++i) {
    scores[i] = ex2_approx(fmaf(scores[i], scale, -reference[fragment_row(i)]));
    rows[fragment_row(i)].sum += scores[i];
  }
}

template <int kRegisters>
__device__ inline void scale_rows(float (&d)[kRegisters], const float (&factor)[2]) {
  if (__any_sync(0xffffffff, factor[0] != 1.0f || factor[1] != 1.0f)) {
#pragma unroll
    for (int i = 0; i < kRegisters; ++i) d[i] *= factor[fragment_row(i)];
  }
}

}  // namespace jfa::kernel
