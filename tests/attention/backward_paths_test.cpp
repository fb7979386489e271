// Backwards whose sequences take different entries, and what the fused ones have edges at: keys of one tile,
// groups of a shared query of one tile.
#include <doctest/doctest.h>

#include <algorithm>
#include <limits>
#include <vector>

#include "tests/attention/backward_harness.h"

namespace jfa::test {
namespace {

using Lengths = std::vector<std::int64_t>;

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
constexpr GradientStrides kExpanded{0, 0, 0};

Problem self_problem(const Lengths& query_lengths, const Lengths& key_lengths, Heads heads,
                     std::int64_t head_dim, std::uint64_t seed) {
  Problem problem = flat_problem(query_lengths, key_lengths, heads, head_dim);
  randomize(problem, seed);
  return problem;
}

Problem pma_problem(std::int64_t query_rows, const Lengths& key_lengths, Heads heads, std::int64_t head_dim,
                    std::uint64_t seed) {
  Problem problem = flat_broadcast_problem(query_rows, key_lengths, heads, head_dim);
  randomize(problem, seed);
  return problem;
}

BackwardResult check(const Problem& problem, std::uint64_t seed, bool lse_gradient = true) {
  return check_backward(test_device(), with_random_gradient(problem, seed, lse_gradient));
}

// Bits of rows [begin, end) of two gradients; NaN is equal to itself.
bool same_rows(const HostTensor& a, const HostTensor& b, std::int64_t begin, std::int64_t end) {
  for (std::size_t e = a.index(begin, 0, 0); e < a.index(end, 0, 0); ++e) {
    if (a.values[e] != b.values[e]) return false;
  }
  return true;
}

bool all_zero(const HostTensor& gradient, std::int64_t begin, std::int64_t end) {
  return std::all_of(gradient.values.begin() + static_cast<std::ptrdiff_t>(gradient.index(begin, 0, 0)),
                     gradient.values.begin() + static_cast<std::ptrdiff_t>(gradient.index(end, 0, 0)),
                     [](float value) { return value == 0; });
}

void fill_rows(HostTensor& tensor, std::int64_t begin, std::int64_t end, float value) {
  std::fill(tensor.values.begin() + static_cast<std::ptrdiff_t>(tensor.index(begin, 0, 0)),
            tensor.values.begin() + static_cast<std::ptrdiff_t>(tensor.index(end, 0, 0)), value);
}

TEST_CASE("sequences of up to a tile of keys beside longer ones and empty ones") {
  const BackwardResult result = check(self_problem({5, 130, 64, 9, 0, 200, 128, 1, 65},
                                                   {128, 129, 64, 0, 140, 1, 127, 257, 20}, {2, 2}, 64, 1),
                                      1);
  CHECK(all_zero(result.gradients.query, 199, 208));  // no keys
  CHECK(all_zero(result.gradients.key, 321, 461));    // no queries
}

TEST_CASE("short sequences by groups of heads") {
  check(self_problem({70, 3, 128, 0, 190}, {100, 128, 1, 30, 64}, {6, 2}, 32, 2), 2);
  check(self_problem({33, 150}, {128, 77}, {6, 2}, 128, 3), 3);
}

TEST_CASE("every width of a short sequence's rows") {
  for (const std::int64_t head_dim : {8, 24, 64, 96, 128})
    check(self_problem({65, 100}, {128, 50}, {1, 1}, head_dim, 4), 4);
}

TEST_CASE("a batch that cannot hold a long sequence, its rows partly unowned") {
  Problem problem = self_problem({20, 0, 90, 30}, {40, 3, 0, 60}, {2, 1}, 64, 5);
  problem.query_offset.back() -= 10;
  problem.key_offset.back() -= 7;
  fill_rows(problem.query, 130, 140, kNaN);
  for (HostTensor* tensor : {&problem.key, &problem.value}) fill_rows(*tensor, 96, 103, kNaN);
  const HostGradients gradients = check(problem, 5).gradients;
  CHECK(all_zero(gradients.query, 130, 140));
  CHECK(all_zero(gradients.key, 96, 103));
  CHECK(all_zero(gradients.value, 96, 103));
}

TEST_CASE("a window over short sequences") {
  for (const std::int64_t window : {5, 100}) {
    CAPTURE(window);
    Problem problem = self_problem({300, 20, 64}, {30, 128, 200}, {2, 1}, 64, 6);
    problem.window = window;
    const BackwardResult result = check(problem, 6);
    CHECK(all_zero(result.gradients.query, 30 + window, 300));
    if (window == 5) CHECK(all_zero(result.gradients.key, 30 + 20 + window, 30 + 128));
  }
}

TEST_CASE("short sequences: an output gradient that has to be packed") {
  const Problem problem = self_problem({40, 128}, {60, 68}, {2, 2}, 64, 7);  // nothing long
  const Problem mixed = self_problem({40, 128}, {60, 168}, {2, 2}, 64, 7);
  for (const Problem* each : {&problem, &mixed}) {
    BackwardRunOptions expanded;
    expanded.output_grad = kExpanded;
    check_backward(test_device(), with_constant_gradient(*each, 0.5), expanded);
    BackwardRunOptions transposed;
    transposed.output_grad = {1, 64 * 168, 168};
    check_backward(test_device(), with_random_gradient(*each, 7), transposed);
  }
}

TEST_CASE("NaN in a short sequence stays there, and in a long one") {
  const Lengths lengths = {60, 200, 128, 17};
  const Problem problem = self_problem(lengths, lengths, {1, 1}, 64, 8);
  const HostGradients clean = check(problem, 8).gradients;
  const std::vector<std::int64_t> offsets = offsets_of(lengths);
  for (const std::size_t bad : {0, 1, 2}) {
    BackwardProblem poisoned = with_random_gradient(problem, 8, /*lse_gradient=*/true);
    for (HostTensor* tensor : {&poisoned.attention.query, &poisoned.attention.key, &poisoned.attention.value})
      fill_rows(*tensor, offsets[bad], offsets[bad + 1], kNaN);
    const BackwardResult result = run_backward(test_device(), poisoned);
    REQUIRE(result.status.ok());
    for (std::size_t b = 0; b < lengths.size(); ++b) {
      if (b == bad) continue;
      CHECK(same_rows(clean.query, result.gradients.query, offsets[b], offsets[b + 1]));
      CHECK(same_rows(clean.key, result.gradients.key, offsets[b], offsets[b + 1]));
      CHECK(same_rows(clean.value, result.gradients.value, offsets[b], offsets[b + 1]));
    }
  }
}

TEST_CASE("a shared query of any rows, by groups of heads up to a tile and beyond") {
  const struct {
    std::int64_t query_rows;
    Heads heads;
  } queries[] = {{1, {1, 1}},  {3, {4, 2}},  {10, {4, 1}}, {31, {4, 1}},  {33, {4, 1}},
                 {64, {2, 2}}, {64, {2, 1}}, {65, {1, 1}}, {128, {2, 2}}, {129, {1, 1}}};
  for (const auto& shared : queries) {
    CAPTURE(shared.query_rows);
    CAPTURE(shared.heads.query);
    check(pma_problem(shared.query_rows, {130, 0, 1, 64}, shared.heads, 64, 9), 9);
  }
}

TEST_CASE("every width of a shared query's rows") {
  for (const std::int64_t head_dim : {8, 24, 96, 128}) {
    check(pma_problem(30, {150, 9}, {2, 2}, head_dim, 10), 10);
    check(pma_problem(100, {150, 9}, {1, 1}, head_dim, 10), 10);
  }
}

TEST_CASE("a shared query: one sequence has nearly all keys, others none") {
  for (const std::int64_t query_rows : {20, 90})
    check(pma_problem(query_rows, {0, 0, 900, 0, 5, 0}, {2, 2}, 64, 11), 11);
  const BackwardResult none = check(pma_problem(20, {0, 0}, {2, 2}, 64, 11), 11);
  CHECK(all_zero(none.gradients.query, 0, 20));
}

TEST_CASE("a shared query with a window: keys behind it get 0") {
  for (const std::int64_t query_rows : {20, 90}) {
    CAPTURE(query_rows);
    Problem problem = pma_problem(query_rows, {300, 0, 10, 129}, {4, 4}, 32, 12);
    problem.window = 7;
    const BackwardResult result = check(problem, 12);
    CHECK(all_zero(result.gradients.key, query_rows + 7, 300));
    CHECK(all_zero(result.gradients.value, query_rows + 7, 300));
  }
  Problem grouped = pma_problem(20, {300, 40}, {4, 1}, 32, 12);
  grouped.window = 7;
  check(grouped, 12);
}

TEST_CASE("a shared query: rows that no sequence owns, and output rows of their own") {
  Problem problem = pma_problem(20, {100, 60}, {2, 2}, 64, 13);
  problem.key_offset.back() -= 30;
  for (HostTensor* tensor : {&problem.key, &problem.value}) fill_rows(*tensor, 130, 160, kNaN);
  problem.output_offset = {3, 30, 50};
  const HostGradients gradients = check(problem, 13).gradients;
  CHECK(all_zero(gradients.key, 130, 160));
  CHECK(all_zero(gradients.value, 130, 160));
}

TEST_CASE("a shared query: NaN in one sequence's keys spoils no other's gradient") {
  for (const std::int64_t query_rows : {20, 90}) {
    const Problem problem = pma_problem(query_rows, {140, 50, 128}, {2, 1}, 64, 14);
    const HostGradients clean = check(problem, 14).gradients;
    BackwardProblem poisoned = with_random_gradient(problem, 14, /*lse_gradient=*/true);
    for (HostTensor* tensor : {&poisoned.attention.key, &poisoned.attention.value})
      fill_rows(*tensor, 140, 190, kNaN);
    const BackwardResult result = run_backward(test_device(), poisoned);
    REQUIRE(result.status.ok());
    for (const auto& [begin, end] : {std::pair{0, 140}, {190, 318}}) {
      CHECK(same_rows(clean.key, result.gradients.key, begin, end));
      CHECK(same_rows(clean.value, result.gradients.value, begin, end));
    }
  }
}

TEST_CASE("a shared query: an output gradient that has to be packed") {
  const Problem problem = pma_problem(10, {140, 3}, {2, 2}, 64, 15);
  BackwardRunOptions expanded;
  expanded.output_grad = kExpanded;
  check_backward(test_device(), with_constant_gradient(problem, 0.5), expanded);
}

}  // namespace
}  // namespace jfa::test
