// Online softmax of a 64 x kTileRows accumulator fragment: each thread holds two rows, a quad of lanes shares
// them.
namespace jfa::kernel {

constexpr int kScoreRegisters = kTileRows / 2;

// Up to this reference a product with the scale may stay unrounded inside the exponent. Its distance from the
// rounded one, here at most 1/32, is a common factor of a row's probabilities, and cancels; beyond, it would
// leave the range of the 16-bit operand.
constexpr float kFusedReference = 1 << 20;

// What turns scores into probabilities: ex2(score * scale - reference).
struct Exponent {
  float scale;
  float reference[2];
};

// Moves the rows' references to what these scores ask for; `factor` is for what the rows accumulated before.
// keys: what each row sees, counted from the tile's first column.
__device__ inline Exponent update_references(float (&scores)[kScoreRegisters], const Intervals (&keys)[2],
                                             float scale_log2, RowState (&rows)[2], float (&factor)[2]) {
  Exponent exponent = {scale_log2, {}};
  // A positive scale is applied inside the exponent; otherwise the largest score is not the largest product,
  // and the products come first. Masking comes after either, since 0 * -inf is no score.
  if (!(scale_log2 > 0.0f)) {
#pragma unroll
    for (int i = 0; i < kScoreRegisters; ++i) scores[i] *= scale_log2;
    exponent.scale = 1.0f;
  }
  const bool masked = keys[0].lacks_any(0, kTileRows) || keys[1].lacks_any(0, kTileRows);
  if (__any_sync(0xffffffff, masked)) {
#pragma unroll
    for (int i = 0; i < kScoreRegisters; ++i) {
      if (keys[fragment_row(i)].lacks(fragment_column(i))) scores[i] = kMinusInfinity;
    }
  }
  // Two chains a row: one would wait for itself.
  float maximum[2][2] = {{kMinusInfinity, kMinusInfinity}, {kMinusInfinity, kMinusInfinity}};
#pragma unroll
  for (int i = 0; i < kScoreRegisters; ++i) {
    float& chain = maximum[fragment_row(i)][i % 2];
    chain = fmaxf(chain, scores[i]);
  }
  // The vote is by each lane's own columns, so that it runs beside the quads' shuffles: a reference that has
  // grown large did so in some lane. One from an earlier tile that no score here comes near leaves zeros.
  bool large = false;
  float row_maximum[2];
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    const float product = fmaxf(maximum[r][0], maximum[r][1]) * exponent.scale;
    row_maximum[r] = quad_maximum(product);
    large |= fabsf(product) > kFusedReference && product != kMinusInfinity;
  }
  if (__any_sync(0xffffffff, large)) {
#pragma unroll
    for (int i = 0; i < kScoreRegisters; ++i) scores[i] *= exponent.scale;
    exponent.scale = 1.0f;
  }
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    factor[r] = update_reference(rows[r], row_maximum[r]);
    exponent.reference[r] = subtrahend(rows[r]);
  }
  return exponent;
}

// Scores become probabilities, unnormalised. Sums are of this thread's columns only.
__device__ inline void exponentials(float (&scores)[kScoreRegisters], const Exponent& exponent,
                                    RowState (&rows)[2]) {
#pragma unroll
  for (int i = 0; i < kScoreRegisters; ++i) {
    const int r = fragment_row(i);
    scores[i] = ex2_approx(fmaf(scores[i], exponent.scale, -exponent.reference[r]));
    rows[r].sum += scores[i];
  }
}

// Up to which product of a score with the scale a row keeps its reference. NaN, which no product is up to, if
// the row has none yet, or one that may not be fused.
__device__ inline float reference_limit(const RowState& row) {
  return fabsf(row.reference) <= kFusedReference ? row.reference + kSlack : kNan;
}

// Probabilities of half the columns of a tile that every row sees whole, with the references that the rows
// have: their maxima are off the way to them. True if some row of the warp needs another reference; then
// nothing of it counts, and the scores are as before. The scale is positive.
template <int kHalf>
__device__ inline bool half_of_probabilities(const float (&scores)[kScoreRegisters], float scale_log2,
                                             const RowState (&rows)[2], float (&sum)[2],
                                             u32 (&packed)[kScoreRegisters / 16][4]) {
  constexpr int kFirst = kHalf * kScoreRegisters / 2;
  float maximum[2] = {scores[kFirst], scores[kFirst + 2]};
  float p[kScoreRegisters / 2];
#pragma unroll
  for (int i = 0; i < kScoreRegisters / 2; ++i) {
    const int r = fragment_row(i);
    const float score = scores[kFirst + i];
    p[i] = ex2_approx(fmaf(score, scale_log2, -rows[r].reference));
    sum[r] += p[i];
    maximum[r] = fmaxf(maximum[r], score);
  }
  pack_fragment(p, packed);
  bool moves = false;
#pragma unroll
  for (int r = 0; r < 2; ++r) moves |= !(maximum[r] * scale_log2 <= reference_limit(rows[r]));
  return __any_sync(0xffffffff, moves);
}

template <int kRegisters>
__device__ inline void scale_rows(float (&d)[kRegisters], const float (&factor)[2]) {
  if (__any_sync(0xffffffff, factor[0] != 1.0f || factor[1] != 1.0f)) {
#pragma unroll
    for (int i = 0; i < kRegisters; ++i) d[i] *= factor[fragment_row(i)];
  }
}

}  // namespace jfa::kernel
