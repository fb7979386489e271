// The tolerance rule: what it lets pass, and above all what it does not.
#include "reference/compare.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "reference/float16.h"
#include "reference/window_reach.h"
#include "tests/reference/problems.h"

namespace jfa::test {
namespace {

using reference::Comparison;
using reference::Solution;

struct Result16 {
  HostTensor output;
  std::vector<float> lse;
};

// fp64 rounded once: as good as a 16-bit result can be.
Result16 rounded(const Problem& problem, const Solution& solution) {
  Result16 result{HostTensor(solution.rows, solution.heads, solution.head_dim), {}};
  for (std::size_t e = 0; e < solution.output.size(); ++e) {
    result.output.values[e] = round_to(problem.dtype, static_cast<float>(solution.output[e]));
  }
  for (const double lse : solution.lse) result.lse.push_back(static_cast<float>(lse));
  return result;
}

Problem ordinary_problem(DType dtype) {
  Problem problem = flat_problem({500, 0, 3, 64}, {500, 7, 2, 0}, {2, 1}, 64, dtype);
  randomize(problem, 5);
  return problem;
}

struct Judge {
  explicit Judge(const Problem& problem)
      : problem(problem), exact(reference::solve(problem)), eager(reference::solve_eager(problem)) {}

  Comparison operator()(const Result16& result) const {
    return reference::compare(problem, exact, eager, result.output, result.lse);
  }

  const Problem& problem;
  Solution exact;
  Solution eager;
};

TEST_CASE("a correctly rounded result and the eager one are within tolerance") {
  for (const DType dtype : {DType::bf16, DType::fp16}) {
    const Problem problem = ordinary_problem(dtype);
    const Judge judge(problem);
    const Comparison comparison = judge(rounded(problem, judge.exact));
    CHECK(comparison.within_tolerance);
    CHECK(comparison.worst.empty());
    CHECK(comparison.max_abs > 0);
    CHECK(comparison.max_abs < comparison.eager_max_abs);
    CHECK(comparison.relative_l2 < comparison.eager_relative_l2);

    // Not its LSE: scores rounded to 16 bits are too coarse for that.
    Result16 eager = rounded(problem, judge.eager);
    eager.lse = rounded(problem, judge.exact).lse;
    CHECK(judge(eager).within_tolerance);
  }
}

TEST_CASE("the eager error is of the size that its type explains") {
  for (const DType dtype : {DType::bf16, DType::fp16}) {
    const Problem problem = ordinary_problem(dtype);
    const Judge judge(problem);
    const Comparison comparison = judge(rounded(problem, judge.exact));
    CHECK(comparison.eager_relative_l2 > 0.1 * unit_roundoff(dtype));
    CHECK(comparison.eager_relative_l2 < 4 * unit_roundoff(dtype));
  }
}

TEST_CASE("small mistakes are out of tolerance") {
  const Problem problem = ordinary_problem(DType::bf16);
  const Judge judge(problem);
  const Result16 good = rounded(problem, judge.exact);
  REQUIRE(judge(good).within_tolerance);

  SUBCASE("one key of 500 left out") {
    Problem shorter = problem;
    shorter.key_offset[1] -= 1;  // the last key of sequence 0 goes to sequence 1, which has no query
    Result16 bad = rounded(problem, reference::solve(shorter));
    CHECK_FALSE(judge(bad).within_tolerance);
    bad.lse = good.lse;
    CHECK_FALSE(judge(bad).within_tolerance);
    bad = good;
    bad.lse = rounded(problem, reference::solve(shorter)).lse;
    CHECK_FALSE(judge(bad).within_tolerance);
  }
  SUBCASE("two values swapped") {
    Problem swapped = problem;
    for (std::int64_t d = 0; d < 64; ++d) std::swap(swapped.value.at(10, 0, d), swapped.value.at(11, 0, d));
    CHECK_FALSE(judge(rounded(problem, reference::solve(swapped))).within_tolerance);
  }
  SUBCASE("heads swapped in one row") {
    Result16 bad = good;
    for (std::int64_t d = 0; d < 64; ++d) std::swap(bad.output.at(77, 0, d), bad.output.at(77, 1, d));
    CHECK_FALSE(judge(bad).within_tolerance);
  }
  SUBCASE("one element off by four times the eager error") {
    Result16 bad = good;
    bad.output.at(0, 0, 0) += static_cast<float>(4 * judge(good).eager_max_abs);
    const Comparison comparison = judge(bad);
    CHECK_FALSE(comparison.within_tolerance);
    CHECK(comparison.worst.find("sequence 0, output row 0, head 0, column 0") != std::string::npos);
  }
  SUBCASE("LSE in base 2") {
    Result16 bad = good;
    for (float& lse : bad.lse) lse *= 1.442695F;
    CHECK_FALSE(judge(bad).within_tolerance);
  }
  SUBCASE("scale off by one percent") {
    Problem scaled = problem;
    scaled.scale = 1.01 / 8;
    CHECK_FALSE(judge(rounded(problem, reference::solve(scaled))).within_tolerance);
  }
}

TEST_CASE("special values") {
  const Problem problem = ordinary_problem(DType::bf16);
  const Judge judge(problem);
  const Result16 good = rounded(problem, judge.exact);
  const std::int64_t keyless = 503;  // first row of the sequence without keys
  const auto lse_index = static_cast<std::size_t>(good.output.rows + keyless);
  REQUIRE(good.lse[lse_index] == -std::numeric_limits<float>::infinity());

  SUBCASE("NaN") {
    Result16 bad = good;
    bad.output.at(502, 1, 5) = std::numeric_limits<float>::quiet_NaN();
    CHECK_FALSE(judge(bad).within_tolerance);
  }
  SUBCASE("NaN in an LSE") {
    Result16 bad = good;
    bad.lse[3] = std::numeric_limits<float>::quiet_NaN();
    CHECK_FALSE(judge(bad).within_tolerance);
  }
  SUBCASE("a row without a key must be zero exactly") {
    Result16 bad = good;
    bad.output.at(keyless, 1, 5) = 1e-30F;
    CHECK_FALSE(judge(bad).within_tolerance);
  }
  SUBCASE("a row without a key must have LSE -inf exactly") {
    Result16 bad = good;
    bad.lse[lse_index] = -5e4F;
    CHECK_FALSE(judge(bad).within_tolerance);
  }
}

TEST_CASE("a NaN or an infinity that is right is right, and nothing else is in its place") {
  Problem problem = flat_problem({3, 40}, {5, 40}, {2, 1}, 16);
  randomize(problem, 3);
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  constexpr float kInf = std::numeric_limits<float>::infinity();
  SUBCASE("in a column of the value") {
    problem.value.at(2, 0, 7) = kNan;
    problem.value.at(2, 0, 8) = -kInf;
  }
  SUBCASE("in a query row, and so in its LSE") { problem.query.at(1, 0, 3) = kNan; }
  const Judge judge(problem);
  const Result16 good = rounded(problem, judge.exact);
  const Comparison right = judge(good);
  CHECK_MESSAGE(right.within_tolerance, reference::describe(right));
  CHECK(std::isfinite(right.max_abs));
  CHECK(std::isfinite(right.relative_l2));

  std::size_t special = 0;
  for (std::size_t e = 0; e < judge.exact.output.size(); ++e) {
    if (std::isfinite(judge.exact.output[e])) continue;
    ++special;
    for (const float other : {0.0F, kNan, kInf, -kInf}) {
      const float is = good.output.values[e];
      if (other == is || (std::isnan(other) && std::isnan(is))) continue;
      Result16 bad = good;
      bad.output.values[e] = other;
      CHECK_FALSE(judge(bad).within_tolerance);
    }
  }
  CHECK(special > 0);
  for (std::size_t e = 0; e < judge.exact.lse.size(); ++e) {
    if (!std::isnan(judge.exact.lse[e])) continue;
    Result16 bad = good;
    bad.lse[e] = 1;
    CHECK_FALSE(judge(bad).within_tolerance);
  }
  Result16 bad = good;
  bad.output.at(30, 1, 5) = kNan;
  CHECK_FALSE(judge(bad).within_tolerance);
}

TEST_CASE("rows that no sequence owns are not judged") {
  Problem problem = flat_broadcast_problem(2, {3, 4}, {1, 1}, 16);
  randomize(problem, 8);
  problem.output_offset = {1, 4, 6};
  const Judge judge(problem);
  Result16 result = rounded(problem, judge.exact);
  for (const std::int64_t row : {0, 3}) result.output.at(row, 0, 0) = std::numeric_limits<float>::quiet_NaN();
  CHECK(judge(result).within_tolerance);
  result.output.at(4, 0, 0) = std::numeric_limits<float>::quiet_NaN();
  CHECK_FALSE(judge(result).within_tolerance);
}

TEST_CASE("an eager computation that overflows gives no licence") {
  Problem problem = flat_problem({1}, {3}, {1, 1}, 128, DType::fp16);  // scores far below fp16's range
  problem.query.at(0, 0, 0) = 448;
  for (std::int64_t j = 0; j < 3; ++j) problem.key.at(j, 0, 0) = -1792;
  set_value(problem, [](auto, auto j, auto, auto) { return j + 1.0; });
  const Judge judge(problem);
  REQUIRE(std::isnan(judge.eager.output[0]));
  Result16 result = rounded(problem, judge.exact);
  CHECK(judge(result).within_tolerance);
  result.output.at(0, 0, 7) = 2.2F;
  CHECK_FALSE(judge(result).within_tolerance);
}

TEST_CASE("16-bit conversions round to nearest even and keep special values") {
  CHECK(float_to_bf16(1.0F) == 0x3f80);
  CHECK(float_to_bf16(1.00390625F) == 0x3f80);  // a tie, to even
  CHECK(float_to_bf16(1.01171875F) == 0x3f82);  // a tie, to even
  CHECK(float_to_fp16(1.0F) == 0x3c00);
  CHECK(float_to_fp16(65504.0F) == 0x7bff);
  CHECK(float_to_fp16(65519.0F) == 0x7bff);
  CHECK(float_to_fp16(65520.0F) == 0x7c00);
  CHECK(float_to_fp16(0x1p-24F) == 1);
  CHECK(float_to_fp16(0x1p-25F) == 0);          // a tie, to even
  CHECK(float_to_fp16(0x1.8p-24F) == 2);        // a tie, to even
  CHECK(float_to_fp16(0x1.ff8p-15F) == 0x3ff);  // largest subnormal
  CHECK(float_to_fp16(-0.0F) == 0x8000);
  CHECK(std::isnan(fp16_to_float(float_to_fp16(std::numeric_limits<float>::quiet_NaN()))));
  CHECK(std::isnan(bf16_to_float(float_to_bf16(std::numeric_limits<float>::quiet_NaN()))));
  CHECK(fp16_to_float(0xfc00) == -std::numeric_limits<float>::infinity());
  for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {  // every number survives the way there and back
    const auto half = static_cast<std::uint16_t>(bits);
    for (const DType dtype : {DType::bf16, DType::fp16}) {
      const float value = to_float(dtype, half);
      if (!std::isnan(value) && to_bits(dtype, value) != half) FAIL_CHECK("bits " << bits);
    }
  }
}

TEST_CASE("what a NaN may reach through a window: rows of its sequence and heads, as far as tiles do") {
  Problem problem = flat_problem({10, 700}, {10, 690}, {4, 2}, 16);
  problem.window = 4;
  reference::OutputGradients incoming{HostTensor(710, 4, 16), {}};
  const auto rows_of = [](const std::vector<bool>& reach, std::int64_t heads, std::int64_t head) {
    std::vector<std::int64_t> rows;
    for (std::size_t i = 0; i * heads < reach.size(); ++i)
      if (reach[i * heads + head]) rows.push_back(static_cast<std::int64_t>(i));
    return rows;
  };
  const auto check_rows = [](const std::vector<std::int64_t>& rows, std::int64_t first, std::int64_t last) {
    REQUIRE(!rows.empty());
    CHECK(rows.front() == first);
    CHECK(rows.back() == last);
    CHECK(rows.size() == static_cast<std::size_t>(last - first + 1));
  };
  constexpr float kNotFinite = std::numeric_limits<float>::infinity();
  const auto all_finite = [](const std::vector<bool>& reach) {
    return std::find(reach.begin(), reach.end(), true) == reach.end();
  };
  CHECK(all_finite(reference::window_reach(problem).output));

  problem.value.at(10 + 300, 1, 5) = kNotFinite;
  reference::WindowReach reach = reference::window_reach(problem);
  for (const std::int64_t head : {0, 1}) CHECK(rows_of(reach.output, 4, head).empty());
  for (const std::int64_t head : {2, 3}) check_rows(rows_of(reach.output, 4, head), 10 + 41, 10 + 559);
  reach = reference::window_reach(problem, incoming);
  CHECK(rows_of(reach.query_grad, 4, 1).empty());
  check_rows(rows_of(reach.query_grad, 4, 3), 10 + 41, 10 + 559);
  CHECK(rows_of(reach.key_grad, 2, 0).empty());
  check_rows(rows_of(reach.key_grad, 2, 1), 10, 10 + 689);  // by way of the outputs

  problem.value.at(10 + 300, 1, 5) = 0;
  incoming.output.at(4, 0, 0) = kNotFinite;
  reach = reference::window_reach(problem, incoming);
  check_rows(rows_of(reach.key_grad, 2, 0), 0, 9);
  CHECK(all_finite(reach.query_grad));

  // One side of all rows, and rows that stand at other keys.
  incoming.output.at(4, 0, 0) = 0;
  problem.window = Window(std::nullopt, 4, Alignment::bottom_right);
  problem.value.at(10 + 300, 1, 5) = kNotFinite;
  reach = reference::window_reach(problem);
  check_rows(rows_of(reach.output, 4, 2), 10 + 300 + 10 - 4 - 255, 10 + 699);
  problem.value.at(10 + 300, 1, 5) = 0;
  problem.window = 4;

  // Rows that see nothing reach nothing.
  incoming.output.at(4, 0, 0) = 0;
  incoming.output.at(10 + 695, 0, 0) = kNotFinite;
  problem.query.at(10 + 699, 2, 0) = kNotFinite;
  reach = reference::window_reach(problem, incoming);
  CHECK(all_finite(reach.key_grad));
  problem.window.reset();
  problem.value.at(10, 0, 0) = kNotFinite;
  CHECK(reference::window_reach(problem).output.empty());
}

TEST_CASE("a result that a NaN has reached through the window is not judged") {
  Problem problem = flat_problem({600}, {600}, {1, 1}, 16);
  randomize(problem, 6);
  problem.window = 0;
  problem.value.at(3, 0, 0) = std::numeric_limits<float>::quiet_NaN();
  const auto judge = [&](std::int64_t row) {
    const Judge judge(problem);
    Result16 result = rounded(problem, judge.exact);
    result.output.at(row, 0, 1) = std::numeric_limits<float>::quiet_NaN();
    return judge(result);
  };
  CHECK(judge(258).reached == 1);
  CHECK(judge(259).reached == 0);
}

}  // namespace
}  // namespace jfa::test
