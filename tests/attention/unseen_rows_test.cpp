// Queries that see no key and keys that no query sees take no part: whatever they hold, in any tensor, no bit
// of another row changes, and their own results stay what they are. On both simulated targets, or on
// JFA_TEST_DEVICE.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <bit>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <set>

#include "reference/reference_head.h"
#include "reference/window_reach.h"
#include "tests/attention/backward_harness.h"

namespace jfa::test {
namespace {

using Lengths = std::vector<std::int64_t>;

std::vector<std::string> devices() {
  if (std::getenv("JFA_TEST_DEVICE")) return {test_device().name()};
  return {"sim:sm_100a", "sim:sm_90a"};
}

// Rows of query and of key that see nothing in any sequence, those of no sequence included, and such rows of
// the output.
struct Unseen {
  std::set<std::int64_t> queries, keys, outputs;
};

Unseen unseen_rows(const Problem& problem) {
  Unseen unseen;
  for (std::int64_t row = 0; row < problem.query.rows; ++row) unseen.queries.insert(row);
  for (std::int64_t row = 0; row < problem.key.rows; ++row) unseen.keys.insert(row);
  for (std::int64_t row = 0; row < reference::output_rows(problem); ++row) unseen.outputs.insert(row);
  for (const reference::Sequence& s : reference::sequences(problem)) {
    for (std::int64_t i = 0; i < s.query_rows; ++i) {
      const reference::Interval seen = reference::visible_keys(i, s.query_rows, s.key_rows, problem.window);
      for (std::int64_t j = seen.begin; j < seen.end; ++j) {
        unseen.queries.erase(s.query_row + i);
        unseen.outputs.erase(s.output_row + i);
        unseen.keys.erase(s.key_row + j);
      }
    }
  }
  return unseen;
}

// Values that poison every sum they get into.
class Poison {
 public:
  explicit Poison(std::uint64_t seed) : random_(seed) {}

  float operator()() {
    constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
    constexpr float kInfinity = std::numeric_limits<float>::infinity();
    constexpr float kValues[] = {kNaN, -kNaN, kInfinity, -kInfinity};
    return kValues[random_.bits() % std::size(kValues)];
  }
  void fill(HostTensor& tensor, const std::set<std::int64_t>& rows) {
    for (const std::int64_t row : rows) {
      const std::size_t end = tensor.index(row + 1, 0, 0);
      for (std::size_t e = tensor.index(row, 0, 0); e < end; ++e) tensor.values[e] = (*this)();
    }
  }
  // rows of a [heads, all_rows] array
  void fill(float* values, std::int64_t heads, std::int64_t all_rows, const std::set<std::int64_t>& rows) {
    for (std::int64_t head = 0; head < heads; ++head) {
      for (const std::int64_t row : rows) values[head * all_rows + row] = (*this)();
    }
  }

 private:
  Normal random_;
};

template <class Values>
bool same_bits(const Values& a, const Values& b) {
  if (a.size() != b.size()) return false;
  for (std::size_t e = 0; e < a.size(); ++e) {
    if (std::bit_cast<std::uint32_t>(a[e]) != std::bit_cast<std::uint32_t>(b[e])) return false;
  }
  return true;
}

void check_unseen(Problem problem, const Window& window, std::uint64_t seed) {
  problem.window = window;
  randomize(problem, seed);
  const BackwardProblem clean = with_random_gradient(problem, seed, /*lse_gradient=*/true);
  const Unseen unseen = unseen_rows(problem);
  REQUIRE(unseen.queries.size() + unseen.keys.size() + unseen.outputs.size() > 0);

  Poison poison(seed);
  BackwardProblem spoilt = clean;
  HostTensor& incoming = spoilt.incoming.output;
  poison.fill(spoilt.attention.query, unseen.queries);
  poison.fill(spoilt.attention.key, unseen.keys);
  poison.fill(spoilt.attention.value, unseen.keys);
  poison.fill(incoming, unseen.outputs);
  poison.fill(spoilt.incoming.lse.data(), incoming.heads, incoming.rows, unseen.outputs);
  BackwardRunOptions options;
  options.change_forward = [&](HostTensor& output, float* lse) {
    poison.fill(output, unseen.outputs);
    poison.fill(lse, output.heads, output.rows, unseen.outputs);
  };

  for (const std::string& name : devices()) {
    CAPTURE(name);
    Device device = open_device(name);
    const RunResult right = check_attention(device, problem);
    const RunResult run = check_attention(device, spoilt.attention);
    CHECK(same_bits(run.output.values, right.output.values));
    CHECK(same_bits(run.lse, right.lse));
    const BackwardResult clean_gradients = check_backward(device, clean);
    const BackwardResult gradients = check_backward(device, spoilt, options);
    const std::string difference = first_difference(gradients.gradients, clean_gradients.gradients);
    CHECK_MESSAGE(difference.empty(), difference);
  }
}

TEST_CASE("unseen rows: a diagonal over sequences of unequal sides") {
  check_unseen(flat_problem({3, 0, 64, 10}, {1, 9, 66, 30}, {1, 1}, 64), 0, 1);
}

TEST_CASE("unseen rows: a narrow window over short and long sequences, by groups of heads") {
  const Problem problem = flat_problem({300, 10, 5, 0, 40}, {10, 300, 150, 20, 0}, {4, 2}, 32);
  check_unseen(problem, Window(4, 0), 2);
}

TEST_CASE("unseen rows: a window wider than a tile") {
  check_unseen(flat_problem({300, 1, 20}, {1, 290, 160}, {1, 1}, 16, DType::fp16), 130, 3);
}

TEST_CASE("unseen rows: at the beginnings of sequences that are aligned at their ends") {
  check_unseen(flat_problem({300, 1, 20, 0, 150, 9}, {1, 290, 160, 7, 300, 300}, {2, 1}, 32),
               {20, 3, Alignment::bottom_right}, 9);
}

TEST_CASE("unseen rows: behind the last sequence") {
  Problem problem = flat_problem({9, 30}, {40, 12}, {2, 1}, 32);
  problem.query_offset.back() -= 5;
  problem.key_offset.back() -= 7;
  check_unseen(problem, 4, 4);
}

TEST_CASE("unseen rows: a shared query, by groups of heads up to a tile and beyond") {
  check_unseen(flat_broadcast_problem(30, {10, 200, 0, 7}, {4, 2}, 32), 4, 5);   // all queries see a key
  check_unseen(flat_broadcast_problem(30, {10, 3, 0, 20}, {4, 2}, 32), 4, 6);    // the last six see none
  check_unseen(flat_broadcast_problem(1, {3, 1500}, {2, 1}, 32), 4, 7);          // parts that see no query
  check_unseen(flat_broadcast_problem(150, {100, 20, 0, 3}, {4, 2}, 32), 4, 8);  // more rows than a tile
}

TEST_CASE("unseen rows: keys cut into parts") {
  check_unseen(flat_problem({20, 700}, {1500, 30}, {1, 1}, 32), 600, 8);
}

// Elements that differ from a clean run's in their bits, but were not reached through the window and do not
// see what was spoilt.
int strays(const std::vector<float>& got, const std::vector<float>& clean, const std::vector<double>& right,
           const std::vector<bool>& reach, std::int64_t head_dim) {
  int strays = 0;
  for (std::size_t e = 0; e < got.size(); ++e) {
    if (!std::isfinite(right[e])) continue;
    if (reference::is_reached(reach, e / static_cast<std::size_t>(head_dim), got[e], right[e])) continue;
    if (std::bit_cast<std::uint32_t>(got[e]) != std::bit_cast<std::uint32_t>(clean[e])) ++strays;
  }
  return strays;
}

// Spoils that row of head 1, of one tensor after the other.
void check_reach(Problem problem, const Window& window, std::int64_t row) {
  problem.window = window;
  randomize(problem, 9);
  const BackwardProblem clean = with_random_gradient(problem, 9, /*lse_gradient=*/true);
  constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
  const auto spoil = [&](HostTensor& tensor) { tensor.at(row, 1, 3) = kNaN; };
  const std::pair<const char*, std::function<void(BackwardProblem&)>> tensors[] = {
      {"query", [&](BackwardProblem& it) { spoil(it.attention.query); }},
      {"key", [&](BackwardProblem& it) { spoil(it.attention.key); }},
      {"value", [&](BackwardProblem& it) { spoil(it.attention.value); }},
      {"output_grad", [&](BackwardProblem& it) { spoil(it.incoming.output); }},
      {"lse_grad", [&](BackwardProblem& it) {
         it.incoming.lse[static_cast<std::size_t>(it.incoming.output.rows + row)] = kNaN;
       }}};
  for (const std::string& name : devices()) {
    CAPTURE(name);
    Device device = open_device(name);
    const BackwardResult right = check_backward(device, clean);
    for (const auto& [tensor, spoil_it] : tensors) {
      const std::string which = tensor;
      CAPTURE(which);
      BackwardProblem spoilt = clean;
      spoil_it(spoilt);
      const BackwardResult result = run_backward(device, spoilt);
      REQUIRE_MESSAGE(result.status.ok(), result.status.message());
      const reference::Solution exact = reference::solve(spoilt.attention);
      const reference::BackwardSolution gradients =
          reference::solve_backward(spoilt.attention, spoilt.incoming);
      const reference::WindowReach reach = reference::window_reach(spoilt.attention, spoilt.incoming);
      CHECK(strays(result.output.values, right.output.values, exact.output,
                   reference::window_reach(spoilt.attention).output, 32) == 0);
      CHECK(strays(result.gradients.query.values, right.gradients.query.values, gradients.query.values,
                   reach.query_grad, 32) == 0);
      CHECK(strays(result.gradients.key.values, right.gradients.key.values, gradients.key.values,
                   reach.key_grad, 32) == 0);
      CHECK(strays(result.gradients.value.values, right.gradients.value.values, gradients.value.values,
                   reach.key_grad, 32) == 0);
    }
  }
}

TEST_CASE("unseen rows: what a NaN inside the window reaches ends with the tiles around it") {
  check_reach(flat_problem({700, 100}, {700, 90}, {2, 1}, 32), Window(std::nullopt, 4), 350);
}

TEST_CASE("unseen rows: so it does where a step takes twice as many rows") {
  check_reach(flat_problem({600}, {256}, {2, 2}, 32), 20, 5);  // queries behind the last that sees a key
  check_reach(flat_broadcast_problem(140, {600}, {2, 2}, 32), 130, 5);  // keys behind the last that is seen
}

}  // namespace
}  // namespace jfa::test
