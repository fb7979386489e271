#include "reference/reference_backward.h"

#include <atomic>
#include <cmath>
#include <limits>
#include <thread>
#include <type_traits>
#include <utility>

#include "reference/float16.h"
#include "reference/reference_head.h"

namespace jfa::reference {
namespace {

// One query head of one sequence. Rows are those of the sequence.
template <class Real>
struct Head {
  HeadRows<Real> query;
  HeadRows<Real> key;
  HeadRows<Real> value;
  HeadRows<Real> output_grad;

  Head(const Problem& problem, const OutputGradients& incoming, const Sequence& sequence, std::int64_t head)
      : Head(problem, incoming, sequence, head, head / (problem.query.heads / problem.key.heads)) {}

 private:
  Head(const Problem& problem, const OutputGradients& incoming, const Sequence& sequence, std::int64_t head,
       std::int64_t key_head)
      : query(problem.query, sequence.query_row, sequence.query_rows, head),
        key(problem.key, sequence.key_row, sequence.key_rows, key_head),
        value(problem.value, sequence.key_row, sequence.key_rows, key_head),
        output_grad(incoming.output, sequence.output_row, sequence.query_rows, head) {}
};

// A gradient of the rows of one head, [rows, dim]: the sum of what its contributions add, and the squares of
// their errors.
struct HeadGradient {
  std::int64_t dim = 0;
  std::vector<double> sum;
  std::vector<double> squares;

  HeadGradient(std::int64_t rows, std::int64_t dim)
      : dim(dim), sum(static_cast<std::size_t>(rows * dim)), squares(sum.size()) {}

  // sum[row] += factor * vector; each element of `vector` is off by a part of relative size `error`.
  void add(std::int64_t row, double factor, double error, const double* vector) {
    double* to = sum.data() + row * dim;
    double* to_squares = squares.data() + row * dim;
    for (std::int64_t d = 0; d < dim; ++d) {
      to[d] += factor * vector[d];
      to_squares[d] += error * error * vector[d] * vector[d];
    }
  }
};

struct HeadGradients {
  HeadGradient query, key, value;

  template <class Real>
  explicit HeadGradients(const Head<Real>& head)
      : query(head.query.rows, head.query.dim),
        key(head.key.rows, head.key.dim),
        value(head.key.rows, head.key.dim) {}
};

// Smallest rounding error of the 16-bit type, where numbers are too small for its relative precision.
double absolute_roundoff(DType dtype) { return dtype == DType::fp16 ? 0x1p-25 : 0; }

// Gradients of one query row in fp64, added to the head's. weights and products are scratch.
void differentiate_row(const Problem& problem, const Head<double>& head, std::int64_t i, double lse_grad,
                       std::vector<double>& weights, std::vector<double>& products,
                       HeadGradients& gradients) {
  const Interval visible = visible_keys(i, head.query.rows, head.key.rows, problem.window);
  if (visible.begin >= visible.end) return;
  const std::int64_t dim = head.key.dim;
  const double scale = scale_of(problem);
  const double* output_grad = head.output_grad.row(i);
  head.key.multiply(head.query.row(i), visible, weights);
  head.value.multiply(output_grad, visible, products);
  double maximum = -std::numeric_limits<double>::infinity();
  double largest = 0;
  for (std::int64_t j = visible.begin; j < visible.end; ++j) {
    weights[j] *= scale;
    maximum = std::max(maximum, weights[j]);
    largest = std::max(largest, std::abs(weights[j]));
  }
  double sum = 0;
  for (std::int64_t j = visible.begin; j < visible.end; ++j)
    sum += weights[j] = std::exp(weights[j] - maximum);
  double delta = 0;
  std::vector<double> output(static_cast<std::size_t>(dim));
  for (std::int64_t j = visible.begin; j < visible.end; ++j) {
    weights[j] /= sum;
    delta += weights[j] * products[j];
    for (std::int64_t d = 0; d < dim; ++d) output[d] += weights[j] * head.value.row(j)[d];
  }

  // Delta is computed from the rounded output; its error is common to all keys of the row.
  const double roundoff = unit_roundoff(problem.dtype);
  const double tiny = absolute_roundoff(problem.dtype);
  double delta_squares = 0;
  for (std::int64_t d = 0; d < dim; ++d) {
    const double error = (roundoff * std::abs(output[d]) + tiny) * output_grad[d];
    delta_squares += error * error;
  }
  const double delta_error = std::sqrt(delta_squares);
  const double score_error = largest * 0x1p-22;  // of fp32 scores
  std::vector<double> mean_key(static_cast<std::size_t>(dim));
  for (std::int64_t j = visible.begin; j < visible.end; ++j) {
    const double weight = weights[j];
    const double score_grad = weight * (products[j] - delta + lse_grad);
    const double weight_error = (roundoff + score_error) * weight + tiny;
    const double grad_error =
        (roundoff + score_error) * std::abs(score_grad) + tiny +
        weight * 0x1p-22 * (std::abs(products[j]) + std::abs(delta) + std::abs(lse_grad));
    gradients.value.add(j, weight, weight_error, output_grad);
    gradients.key.add(j, scale * score_grad, scale * (grad_error + weight * delta_error), head.query.row(i));
    gradients.query.add(i, scale * score_grad, scale * grad_error, head.key.row(j));
    for (std::int64_t d = 0; d < dim; ++d) mean_key[d] += weight * head.key.row(j)[d];
  }
  for (std::int64_t d = 0; d < dim; ++d) {
    const double error = scale * delta_error * mean_key[d];
    gradients.query.squares[static_cast<std::size_t>(i * dim + d)] += error * error;
  }
}

// Of an eager framework; `sum` holds fp32 sums of 16-bit products.
void differentiate_row(const Problem& problem, const Head<float>& head, std::int64_t i, double lse_grad,
                       std::vector<float>& weights, std::vector<float>& products, HeadGradients& gradients) {
  const Interval visible = visible_keys(i, head.query.rows, head.key.rows, problem.window);
  if (visible.begin >= visible.end) return;
  const DType dtype = problem.dtype;
  const std::int64_t dim = head.key.dim;
  const auto scale = static_cast<float>(scale_of(problem));
  head.key.multiply(head.query.row(i), visible, weights);
  head.value.multiply(head.output_grad.row(i), visible, products);
  float maximum = -std::numeric_limits<float>::infinity();
  for (std::int64_t j = visible.begin; j < visible.end; ++j) {
    weights[j] = round_to(dtype, round_to(dtype, weights[j]) * scale);
    maximum = std::max(maximum, weights[j]);
  }
  float sum = 0;
  for (std::int64_t j = visible.begin; j < visible.end; ++j)
    sum += weights[j] = std::exp(weights[j] - maximum);
  float delta = 0;
  for (std::int64_t j = visible.begin; j < visible.end; ++j) {
    weights[j] = round_to(dtype, weights[j] / sum);
    products[j] = round_to(dtype, products[j]);
    delta += weights[j] * products[j];
  }
  for (std::int64_t j = visible.begin; j < visible.end; ++j) {
    float score_grad = round_to(dtype, weights[j] * (products[j] - delta));
    if (lse_grad != 0)
      score_grad = round_to(dtype, score_grad + round_to(dtype, weights[j] * static_cast<float>(lse_grad)));
    score_grad = round_to(dtype, score_grad * scale);
    const auto add = [&](HeadGradient& gradient, std::int64_t row, float factor, const float* vector) {
      double* to = gradient.sum.data() + row * dim;
      for (std::int64_t d = 0; d < dim; ++d) to[d] = static_cast<float>(to[d]) + factor * vector[d];
    };
    add(gradients.value, j, weights[j], head.output_grad.row(i));
    add(gradients.key, j, score_grad, head.query.row(i));
    add(gradients.query, i, score_grad, head.key.row(j));
  }
}

// Adds a head's gradient to rows [first_row, …) of the tensor's head.
template <class Real>
void accumulate(const Problem& problem, const HostTensor& tensor, std::int64_t first_row, std::int64_t head,
                const HeadGradient& part, Gradient& gradient) {
  for (std::size_t e = 0; e < part.sum.size(); ++e) {
    const auto row = static_cast<std::int64_t>(e) / part.dim;
    const std::size_t to = tensor.index(first_row + row, head, static_cast<std::int64_t>(e) % part.dim);
    if constexpr (std::is_same_v<Real, float>) {
      const float rounded = round_to(problem.dtype, static_cast<float>(part.sum[e]));
      gradient.values[to] = static_cast<float>(gradient.values[to]) + rounded;
    } else {
      gradient.values[to] += part.sum[e];
      gradient.rounding[to] += part.squares[e];
    }
  }
}

// The last rounding of each sum.
template <class Real>
void finish(const Problem& problem, Gradient& gradient) {
  for (std::size_t e = 0; e < gradient.values.size(); ++e) {
    if constexpr (std::is_same_v<Real, float>) {
      gradient.values[e] = round_to(problem.dtype, static_cast<float>(gradient.values[e]));
    } else {
      if (gradient.values[e] == 0 && gradient.rounding[e] == 0) continue;  // nothing contributes: exactly 0
      gradient.rounding[e] = 2 * unit_roundoff(problem.dtype) * std::abs(gradient.values[e]) +
                             3 * std::sqrt(gradient.rounding[e]) + 2 * absolute_roundoff(problem.dtype);
    }
  }
}

template <class Real>
void differentiate_key_head(const Problem& problem, const OutputGradients& incoming,
                            const std::vector<Sequence>& all, std::int64_t key_head,
                            BackwardSolution& solution) {
  const std::int64_t groups = problem.query.heads / problem.key.heads;
  for (const Sequence& sequence : all) {
    std::vector<Real> weights(static_cast<std::size_t>(sequence.key_rows));
    std::vector<Real> products(weights.size());
    for (std::int64_t query_head = key_head * groups; query_head < (key_head + 1) * groups; ++query_head) {
      const Head<Real> head(problem, incoming, sequence, query_head);
      HeadGradients gradients(head);
      for (std::int64_t i = 0; i < sequence.query_rows; ++i) {
        const std::int64_t lse = query_head * incoming.output.rows + sequence.output_row + i;
        const double lse_grad = incoming.lse.empty() ? 0 : incoming.lse[static_cast<std::size_t>(lse)];
        differentiate_row(problem, head, i, lse_grad, weights, products, gradients);
      }
      accumulate<Real>(problem, problem.query, sequence.query_row, query_head, gradients.query,
                       solution.query);
      accumulate<Real>(problem, problem.key, sequence.key_row, key_head, gradients.key, solution.key);
      accumulate<Real>(problem, problem.value, sequence.key_row, key_head, gradients.value, solution.value);
    }
  }
}

template <class Real>
BackwardSolution differentiate(const Problem& problem, const OutputGradients& incoming) {
  BackwardSolution solution;
  for (const auto& [gradient, tensor] : {std::pair{&solution.query, &problem.query},
                                         {&solution.key, &problem.key},
                                         {&solution.value, &problem.value}}) {
    gradient->values.resize(tensor->values.size());
    gradient->rounding.resize(tensor->values.size());
  }
  const std::vector<Sequence> all = sequences(problem);
  const std::int64_t key_heads = problem.query.heads == 0 ? 0 : problem.key.heads;
  std::atomic<std::int64_t> next{0};
  const auto work = [&] {
    for (std::int64_t head = next++; head < key_heads; head = next++)
      differentiate_key_head<Real>(problem, incoming, all, head, solution);
  };
  const std::int64_t threads = std::min<std::int64_t>(key_heads / 4, std::thread::hardware_concurrency());
  std::vector<std::jthread> pool;  // for few heads this thread alone
  for (std::int64_t i = 1; i < threads; ++i) pool.emplace_back(work);
  work();
  pool.clear();
  for (Gradient* gradient : {&solution.query, &solution.key, &solution.value})
    finish<Real>(problem, *gradient);
  return solution;
}

}  // namespace

BackwardSolution solve_backward(const Problem& problem, const OutputGradients& incoming) {
  return differentiate<double>(problem, incoming);
}

BackwardSolution solve_backward_eager(const Problem& problem, const OutputGradients& incoming) {
  return differentiate<float>(problem, incoming);
}

}  // namespace jfa::reference
