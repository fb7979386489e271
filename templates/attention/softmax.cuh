// Online softmax of one query row, one thread a row. Scores are kept in units of log2, so that exp is ex2.
namespace jfa::kernel {

constexpr float kMinusInfinity = __builtin_bit_cast(float, 0xff800000u);
constexpr float kNan = __builtin_bit_cast(float, 0x7fffffffu);
constexpr float kLn2 = 0.693147180559945309f;

struct RowState {
  float reference = kMinusInfinity;  // what ex2 subtracts: a maximum, at most kSlack behind the true one
  float sum = 0.0f;                  // of ex2(score - reference)
};

// The reference moves only when the maximum has outgrown it by this much (a factor 256, well inside 16-bit
// range), so that the output accumulator is rarely rescaled.
constexpr float kSlack = 8.0f;

// Takes the maximum of the next scores; returns the factor for what was accumulated so far.
__device__ inline float update_reference(RowState& row, float maximum) {
  // Not their sum, which for large scores is rounded by more than the slack. NaN if nothing was seen yet.
  const float growth = maximum - row.reference;
  if (!(growth > kSlack)) return 1.0f;
  const float factor = ex2_approx(-growth);  // 0 from -inf
  row.reference = maximum;
  row.sum *= factor;
  return factor;
}

// What to subtract from a score: no row may compute -inf - -inf.
__device__ inline float subtrahend(const RowState& row) {
  return row.reference == kMinusInfinity ? 0.0f : row.reference;
}

// Natural logarithm of the sum of exp(scale * q.k); -inf for a row that sees no key.
__device__ inline float log_sum_exp(const RowState& row) {
  return row.sum == 0.0f ? kMinusInfinity : (row.reference + lg2_approx(row.sum)) * kLn2;
}

}  // namespace jfa::kernel
