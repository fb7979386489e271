// Scores so large that the rounding of a score, of a reference or of the LSE is no small number: outputs stay
// right, gradients within the bound of docs/design.md, and everything finite. On both simulated targets, or
// on JFA_TEST_DEVICE.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <numbers>

#include "tests/attention/backward_harness.h"

namespace jfa::test {
namespace {

constexpr std::int64_t kHeadDim = 16;
constexpr float kKey = 0.7001953125F;  // so that products with a scale are rounded
constexpr double kRoundoff = 0x1p-11;  // of fp16, whose range is the narrow one

std::vector<Device> devices() {
  std::vector<Device> all;
  if (std::getenv("JFA_TEST_DEVICE")) {
    all.push_back(open_device(test_device().name()));
  } else {
    for (const char* name : {"sim:sm_100a", "sim:sm_90a"}) all.push_back(open_device(name));
  }
  return all;
}

// Makes every score of the problem `score`.
void set_scores(Problem& problem, double score) {
  std::fill(problem.query.values.begin(), problem.query.values.end(), 1.0F);
  std::fill(problem.key.values.begin(), problem.key.values.end(), kKey);
  problem.scale = score / (kHeadDim * kKey);
}

// A shared query of one row, all scores `score`.
Problem equal_scores(const std::vector<std::int64_t>& key_lengths, double score) {
  Problem problem = flat_broadcast_problem(1, key_lengths, {1, 1}, kHeadDim, DType::fp16);
  set_scores(problem, score);
  return problem;
}

void check_close(double got, double right, double allowed) {
  if (!(std::abs(got - right) <= allowed)) FAIL_CHECK(got << " instead of " << right << " +- " << allowed);
}

void check_lse(const RunResult& result, std::size_t row, double right) {
  check_close(result.lse[row], right, 1e-3 + 4 * 0x1p-23 * std::abs(right));
}

constexpr double kScores[] = {1e3, 1e5, 1e6, 3e6, 1e8, 5.4e8, 6.8e9, 3.4e10, 1e20, 1e38};

TEST_CASE("large scores: equal ones weigh the same") {
  for (Device& device : devices()) {
    CAPTURE(device.name());
    for (const double magnitude : kScores) {
      for (const double score : {magnitude, -magnitude}) {
        CAPTURE(score);
        Problem problem = equal_scores({1, 4, 300}, score);
        set_value(problem, [](auto, std::int64_t j, auto, auto) { return j % 4 == 0 ? 4 : 0; });
        const RunResult result = run_attention(device, problem);
        REQUIRE_MESSAGE(result.status.ok(), result.status.message());
        const double rows[] = {4, 1, 1};
        const double keys[] = {1, 4, 300};
        for (int row = 0; row < 3; ++row) {
          check_close(result.output.at(row, 0, 0), rows[row], 2 * kRoundoff * rows[row]);
          check_lse(result, static_cast<std::size_t>(row), score + std::log(keys[row]));
        }
      }
    }
  }
}

TEST_CASE("large scores: a maximum that grows by an amount that a sum with it rounds away") {
  // In units of log2 2^27 + 16 in two tiles, then 2^27 + 32: added to the former 8 is 16.
  Problem problem = flat_broadcast_problem(1, {257}, {1, 1}, kHeadDim, DType::fp16);
  problem.scale = std::numbers::ln2;
  problem.query.at(0, 0, 0) = 0x1p13F;
  problem.query.at(0, 0, 1) = 1;
  for (std::int64_t j = 0; j < 257; ++j) {
    problem.key.at(j, 0, 0) = 0x1p14F;
    problem.key.at(j, 0, 1) = j < 256 ? 16 : 32;
  }
  set_value(problem, [](auto, std::int64_t j, auto, auto) { return j < 256 ? 0 : 1; });
  for (Device& device : devices()) {
    CAPTURE(device.name());
    const RunResult result = run_attention(device, problem);
    REQUIRE_MESSAGE(result.status.ok(), result.status.message());
    check_close(result.output.at(0, 0, 0), 1 / (1 + 256 * 0x1p-16), 2 * kRoundoff);
  }
}

TEST_CASE("large scores: parts of the keys weigh as many as they have") {
  for (Device& device : devices()) {
    CAPTURE(device.name());
    for (const double score : {1e5, 1e7, -1e7, 1e9}) {
      CAPTURE(score);
      Problem problem = equal_scores({700}, score);
      set_value(problem, [](auto, std::int64_t j, auto, auto) { return j < 512 ? 1 : 0; });
      const RunResult result = run_attention(device, problem);
      REQUIRE_MESSAGE(result.status.ok(), result.status.message());
      check_close(result.output.at(0, 0, 0), 512.0 / 700, kRoundoff);
      check_lse(result, 0, score + std::log(700));
    }
  }
}

// Every row sees one key, so that the value's gradient is the output's, and the others' are 0 but for
// roundings.
void check_one_key(Device& device, BackwardProblem problem, double score) {
  CAPTURE(score);
  set_scores(problem.attention, score);
  const BackwardResult result = run_backward(device, problem);
  REQUIRE_MESSAGE(result.status.ok(), result.status.message());
  for (const HostTensor* gradient :
       {&result.gradients.query, &result.gradients.key, &result.gradients.value}) {
    CHECK(std::all_of(gradient->values.begin(), gradient->values.end(),
                      [](float value) { return std::isfinite(value); }));
  }
  // Relative, of a probability: what the rounding of an LSE of this size makes of it.
  const double error = std::expm1(5 * 0x1p-24 * std::abs(score)) + 2 * kRoundoff;
  if (error > 20) return;
  const std::vector<float>& right = problem.incoming.output.values;
  for (std::size_t e = 0; e < right.size(); ++e)
    check_close(result.gradients.value.values[e], right[e], error * std::abs(right[e]));
}

TEST_CASE("large scores: gradients of rows with one key") {
  Problem own =
      flat_problem({5, 130}, {5, 130}, {1, 1}, kHeadDim, DType::fp16);  // short, and longer than a tile
  own.window = 0;
  const Problem shared = equal_scores({1, 1, 1}, 1);
  for (Problem problem : {own, shared}) {
    CAPTURE(problem.broadcast_q);
    set_value(problem, [](auto, auto, auto, auto) { return 1; });
    const BackwardProblem backward = with_random_gradient(problem, 14);
    for (Device& device : devices()) {
      CAPTURE(device.name());
      for (double score = 1e4; score < 1e37; score *= 17) {
        check_one_key(device, backward, score);
        check_one_key(device, backward, -score);
      }
    }
  }
}

}  // namespace
}  // namespace jfa::test
