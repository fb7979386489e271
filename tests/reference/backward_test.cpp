// The reference's gradients against differences of its forward, and what compare() finds.
#include <doctest/doctest.h>

#include <cmath>
#include <functional>
#include <limits>

#include "reference/compare_backward.h"
#include "reference/float16.h"
#include "reference/reference.h"
#include "tests/reference/problems.h"

namespace jfa::test {
namespace {

using reference::BackwardComparison;
using reference::BackwardSolution;
using reference::Gradient;
using reference::HostGradients;
using reference::OutputGradients;

OutputGradients random_gradients(const Problem& problem, std::uint64_t seed) {
  OutputGradients incoming;
  incoming.output = HostTensor(reference::output_rows(problem), problem.query.heads, problem.query.head_dim);
  incoming.lse.resize(static_cast<std::size_t>(incoming.output.rows * incoming.output.heads));
  Normal normal(seed);
  for (float& value : incoming.output.values) value = round_to(problem.dtype, static_cast<float>(normal()));
  for (float& value : incoming.lse) value = static_cast<float>(normal());
  return incoming;
}

// What the incoming gradients are the gradient of.
double loss(const Problem& problem, const OutputGradients& incoming) {
  const reference::Solution solution = reference::solve(problem);
  double sum = 0;
  for (std::size_t e = 0; e < solution.output.size(); ++e)
    sum += solution.output[e] * incoming.output.values[e];
  for (std::size_t i = 0; i < solution.lse.size(); ++i) {
    if (std::isfinite(solution.lse[i])) sum += solution.lse[i] * incoming.lse[i];
  }
  return sum;
}

void check_against_differences(const Problem& original) {
  Problem problem = original;
  const OutputGradients incoming = random_gradients(problem, 5);
  const BackwardSolution solution = reference::solve_backward(problem, incoming);
  struct Case {
    HostTensor Problem::*tensor;
    const Gradient& gradient;
  };
  for (const Case& c : {Case{&Problem::query, solution.query}, Case{&Problem::key, solution.key},
                        Case{&Problem::value, solution.value}}) {
    constexpr float kStep = 0x1p-9F;
    std::vector<float>& values = (problem.*c.tensor).values;
    REQUIRE(c.gradient.values.size() == values.size());
    for (std::size_t e = 0; e < values.size(); ++e) {
      const float value = values[e];
      values[e] = value + kStep;
      const double above = loss(problem, incoming);
      values[e] = value - kStep;
      const double below = loss(problem, incoming);
      values[e] = value;
      CAPTURE(e);
      CHECK(std::abs(c.gradient.values[e] - (above - below) / (2 * kStep)) <= 1e-4);
    }
  }
}

Problem small_problem(std::int64_t head_dim = 8, DType dtype = DType::bf16) {
  Problem problem = flat_problem({3, 0, 6, 2}, {4, 3, 2, 0}, {4, 2}, head_dim, dtype);
  randomize(problem, 3);
  return problem;
}

TEST_CASE("fp64 gradients are the slopes of the fp64 forward") {
  SUBCASE("grouped heads, empty sequences") { check_against_differences(small_problem()); }
  SUBCASE("window, rows without keys") {
    Problem problem = small_problem();
    problem.window = 1;
    check_against_differences(problem);
  }
  SUBCASE("scale, spare rows, output offsets") {
    Problem problem = small_problem();
    problem.scale = -0.7;
    problem.query_offset = {0, 3, 3, 9, 10};
    problem.output_offset = {1, 4, 6, 13, 15};
    check_against_differences(problem);
  }
  SUBCASE("a shared query") {
    Problem problem = flat_broadcast_problem(3, {4, 0, 5}, {2, 1}, 8);
    randomize(problem, 4);
    check_against_differences(problem);
  }
}

TEST_CASE("an eager 16-bit computation is near, and its error is what 16 bits explain") {
  for (const DType dtype : {DType::bf16, DType::fp16}) {
    Problem problem = flat_problem({40}, {50}, {2, 1}, 32, dtype);
    randomize(problem, 6);
    const OutputGradients incoming = random_gradients(problem, 7);
    const BackwardSolution exact = reference::solve_backward(problem, incoming);
    const BackwardSolution eager = reference::solve_backward_eager(problem, incoming);
    for (const auto& [a, b] :
         {std::pair{&exact.query, &eager.query}, {&exact.key, &eager.key}, {&exact.value, &eager.value}}) {
      double errors = 0, squares = 0, rounding = 0;
      for (std::size_t e = 0; e < a->values.size(); ++e) {
        errors += std::pow(a->values[e] - b->values[e], 2);
        squares += a->values[e] * a->values[e];
        rounding += a->rounding[e] * a->rounding[e];
      }
      CHECK(errors > 0);
      CHECK(errors < 16 * std::pow(unit_roundoff(dtype), 2) * squares);
      CHECK(rounding < 100 * errors);  // the floor is no blank cheque
    }
  }
}

// fp64 rounded once.
HostGradients rounded(const Problem& problem, const BackwardSolution& exact) {
  const auto round = [&](const Gradient& gradient, const HostTensor& like) {
    HostTensor tensor(like.rows, like.heads, like.head_dim);
    for (std::size_t e = 0; e < tensor.values.size(); ++e)
      tensor.values[e] = round_to(problem.dtype, static_cast<float>(gradient.values[e]));
    return tensor;
  };
  return {round(exact.query, problem.query), round(exact.key, problem.key),
          round(exact.value, problem.value)};
}

TEST_CASE("compare() takes a NaN where the gradient is NaN, and nowhere else") {
  Problem problem = small_problem(16);
  problem.value.at(0, 0, 3) = std::numeric_limits<float>::quiet_NaN();
  const OutputGradients incoming = random_gradients(problem, 8);
  const BackwardSolution exact = reference::solve_backward(problem, incoming);
  const HostGradients right = rounded(problem, exact);
  const BackwardComparison comparison = reference::judge(problem, incoming, right);
  CHECK_MESSAGE(comparison.within_tolerance(), reference::describe(comparison));
  REQUIRE(std::isnan(right.key.values[0]));
  HostGradients wrong = right;
  wrong.key.values[0] = 0;
  CHECK_FALSE(reference::judge(problem, incoming, wrong).within_tolerance());
  wrong = right;
  wrong.value.values.back() = std::numeric_limits<float>::quiet_NaN();
  CHECK_FALSE(reference::judge(problem, incoming, wrong).within_tolerance());
}

TEST_CASE("compare() finds what is wrong, and only that") {
  Problem problem = small_problem(16);
  problem.window = 1;
  problem.query_offset.back() -= 1;  // the last row is nobody's
  const OutputGradients incoming = random_gradients(problem, 8);
  const BackwardSolution exact = reference::solve_backward(problem, incoming);
  const HostGradients right = rounded(problem, exact);
  CHECK(reference::judge(problem, incoming, right).within_tolerance());

  const auto judged = [&](const std::function<void(HostGradients&)>& spoil) {
    HostGradients wrong = right;
    spoil(wrong);
    const BackwardComparison comparison = reference::judge(problem, incoming, wrong);
    CHECK_FALSE(comparison.within_tolerance());
    return comparison;
  };
  CHECK(judged([](HostGradients& g) { g.query.at(1, 2, 3) += 0.1F; })
            .query.worst.find("sequence 0, row 1, "
                              "head 2, column 3") == 0);
  CHECK(judged([](HostGradients& g) { g.key.at(7, 1, 15) += 0.1F; }).key.worst.find("sequence 2, row 7") ==
        0);
  CHECK(judged([](HostGradients& g) {
          g.value.at(0, 0, 0) = std::numeric_limits<float>::quiet_NaN();
        }).value.worst.find("sequence 0, row 0") == 0);
  // A row that nobody owns and a key that nobody sees: exactly 0.
  CHECK(judged([](HostGradients& g) { g.query.at(10, 0, 0) = 1e-30F; }).query.worst.find("no sequence") == 0);
  CHECK(judged([](HostGradients& g) { g.value.at(4, 0, 0) = 1e-30F; }).value.worst.find("sequence 1") == 0);
  CHECK_FALSE(reference::describe(judged([](HostGradients& g) {
                g.key.at(0, 0, 0) += 1;
              })).find("OUT OF TOLERANCE") == std::string::npos);
}

}  // namespace
}  // namespace jfa::test
