#include "reference/reference.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <limits>
#include <thread>

#include "reference/float16.h"
#include "reference/reference_head.h"

namespace jfa::reference {
namespace {

constexpr double kNegativeInfinity = -std::numeric_limits<double>::infinity();

template <class Real>
struct HeadOfSequence {
  HeadRows<Real> key;
  HeadRows<Real> value;
};

// Where the results of one query row go.
struct Row {
  double* output;
  double* lse;
  double* rounding;
};

void solve_row(const Problem& problem, const HeadOfSequence<double>& head, const float* query,
               Interval visible, std::vector<double>& weights, Row row) {
  head.key.multiply(query, visible, weights);
  const double scale = scale_of(problem);
  double maximum = kNegativeInfinity;
  double largest = 0;
  for (std::int64_t j = visible.begin; j < visible.end; ++j) {
    weights[j] *= scale;
    maximum = std::max(maximum, weights[j]);
    largest = std::max(largest, std::abs(weights[j]));
  }
  double sum = 0;
  for (std::int64_t j = visible.begin; j < visible.end; ++j)
    sum += weights[j] = std::exp(weights[j] - maximum);
  *row.lse = maximum + std::log(sum);
  for (std::int64_t j = visible.begin; j < visible.end; ++j) {
    const double weight = weights[j] / sum;
    const double* value = head.value.row(j);
    for (std::int64_t d = 0; d < head.value.dim; ++d) {
      const double part = weight * value[d];
      row.output[d] += part;
      row.rounding[d] += part * part;
    }
  }
  const double roundoff = unit_roundoff(problem.dtype);
  const double weight_error =
      3 * (roundoff + largest * 0x1p-22);  // relative; the second term: of fp32 scores
  const double subnormal = problem.dtype == DType::fp16 ? 0x1p-24 : 0;
  for (std::int64_t d = 0; d < head.value.dim; ++d) {
    row.rounding[d] =
        2 * roundoff * std::abs(row.output[d]) + weight_error * std::sqrt(row.rounding[d]) + subnormal;
  }
}

void solve_row(const Problem& problem, const HeadOfSequence<float>& head, const float* query,
               Interval visible, std::vector<float>& weights, Row row) {
  head.key.multiply(query, visible, weights);
  const DType dtype = problem.dtype;
  const auto scale = static_cast<float>(scale_of(problem));
  float maximum = -std::numeric_limits<float>::infinity();
  for (std::int64_t j = visible.begin; j < visible.end; ++j) {
    weights[j] = round_to(dtype, round_to(dtype, weights[j]) * scale);
    maximum = std::max(maximum, weights[j]);
  }
  float sum = 0;
  for (std::int64_t j = visible.begin; j < visible.end; ++j)
    sum += weights[j] = std::exp(weights[j] - maximum);
  *row.lse = static_cast<double>(maximum) + std::log(static_cast<double>(sum));
  std::vector<float> output(static_cast<std::size_t>(head.value.dim));
  for (std::int64_t j = visible.begin; j < visible.end; ++j) {
    const float weight = round_to(dtype, weights[j] / sum);
    const float* value = head.value.row(j);
    for (std::int64_t d = 0; d < head.value.dim; ++d) output[d] += weight * value[d];
  }
  for (std::int64_t d = 0; d < head.value.dim; ++d) row.output[d] = round_to(dtype, output[d]);
}

template <class Real>
void solve_head(const Problem& problem, const Sequence& sequence, std::int64_t query_head,
                Solution& solution) {
  const std::int64_t groups = problem.query.heads / problem.key.heads;
  const std::int64_t key_head = query_head / groups;
  const HeadOfSequence<Real> head{{problem.key, sequence.key_row, sequence.key_rows, key_head},
                                  {problem.value, sequence.key_row, sequence.key_rows, key_head}};
  std::vector<Real> weights(static_cast<std::size_t>(sequence.key_rows));
  for (std::int64_t i = 0; i < sequence.query_rows; ++i) {
    const std::int64_t output_row = sequence.output_row + i;
    const std::int64_t element = (output_row * solution.heads + query_head) * solution.head_dim;
    const Row row{solution.output.data() + element,
                  solution.lse.data() + query_head * solution.rows + output_row,
                  solution.rounding.data() + element};
    const Interval visible = visible_keys(i, sequence.query_rows, sequence.key_rows, problem.window);
    if (visible.begin >= visible.end) {
      *row.lse = kNegativeInfinity;
      continue;
    }
    const float* query =
        problem.query.values.data() + problem.query.index(sequence.query_row + i, query_head, 0);
    solve_row(problem, head, query, visible, weights, row);
  }
}

template <class Real>
Solution solve_all(const Problem& problem) {
  Solution solution{output_rows(problem), problem.query.heads, problem.query.head_dim, {}, {}, {}};
  const auto elements = static_cast<std::size_t>(solution.rows * solution.heads * solution.head_dim);
  solution.output.resize(elements);
  solution.rounding.resize(elements);
  solution.lse.resize(static_cast<std::size_t>(solution.heads * solution.rows));

  const std::vector<Sequence> all = sequences(problem);
  const std::size_t tasks = all.size() * static_cast<std::size_t>(solution.heads);
  std::atomic<std::size_t> next{0};
  const auto work = [&] {
    for (std::size_t task = next++; task < tasks; task = next++) {
      const auto head = static_cast<std::int64_t>(task % static_cast<std::size_t>(solution.heads));
      solve_head<Real>(problem, all[task / static_cast<std::size_t>(solution.heads)], head, solution);
    }
  };
  const std::size_t threads = std::min<std::size_t>(tasks / 8, std::thread::hardware_concurrency());
  std::vector<std::jthread> pool;  // for small problems this thread alone
  for (std::size_t i = 1; i < threads; ++i) pool.emplace_back(work);
  work();
  pool.clear();
  return solution;
}

}  // namespace

std::vector<Sequence> sequences(const Problem& problem) {
  std::vector<Sequence> result;
  for (std::size_t b = 0; b + 1 < problem.key_offset.size(); ++b) {
    Sequence sequence;
    sequence.key_row = problem.key_offset[b];
    sequence.key_rows = problem.key_offset[b + 1] - sequence.key_row;
    sequence.query_row = problem.broadcast_q ? 0 : problem.query_offset[b];
    sequence.query_rows =
        problem.broadcast_q ? problem.query.rows : problem.query_offset[b + 1] - sequence.query_row;
    sequence.output_row = sequence.query_row;
    if (problem.broadcast_q) sequence.output_row = static_cast<std::int64_t>(b) * problem.query.rows;
    if (problem.output_offset) sequence.output_row = (*problem.output_offset)[b];
    result.push_back(sequence);
  }
  return result;
}

std::int64_t output_rows(const Problem& problem) {
  if (problem.output_offset) return problem.output_offset->back();
  const auto batch = static_cast<std::int64_t>(problem.key_offset.size()) - 1;
  return problem.broadcast_q ? batch * problem.query.rows : problem.query.rows;
}

Solution solve(const Problem& problem) { return solve_all<double>(problem); }

Solution solve_eager(const Problem& problem) { return solve_all<float>(problem); }

}  // namespace jfa::reference
