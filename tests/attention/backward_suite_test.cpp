// Gradients against fp64 over the forward's covering array and what a backward adds to it, in poisoned
// surroundings, on two schedules.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <chrono>
#include <cstdlib>
#include <limits>

#include "tests/attention/backward_harness.h"
#include "tests/attention/forward_suite_array.h"
#include "tests/attention/forward_suite_run.h"

namespace jfa::test {
namespace {

constexpr float kNotANumber = std::numeric_limits<float>::quiet_NaN();
constexpr std::size_t kKernels = 40;
// (query tile, key tile, head) triples of a case, at most.
constexpr std::int64_t kTiles = 16;
// Every so many cases are run with poison in a neighbour too.
constexpr std::uint64_t kIsolationStep = 4;

// JFA_BACKWARD_SUITE=I/N: the I-th of N parts of the kernels.
struct Shard {
  std::size_t number = 1;
  std::size_t count = 1;
};
Shard shard() {
  Shard shard;
  if (const char* text = std::getenv("JFA_BACKWARD_SUITE"))
    REQUIRE(std::sscanf(text, "%zu/%zu", &shard.number, &shard.count) == 2);
  return shard;
}

struct SuiteGradient {
  BackwardProblem problem;
  BackwardRunOptions options;
};

// What a backward adds to a forward's case, each by a digit of the case's number: every value of one meets
// every value of the others within 5 * 3 * 2 cases.
SuiteGradient gradient_of(const SuiteCase& c) {
  const SuiteProblem forward = problem_of(c);
  SuiteGradient made;
  made.options.forward = forward.options;
  made.problem = with_random_gradient(forward.problem, c.seed, /*lse_gradient=*/c.seed % 2 == 0);
  HostTensor& incoming = made.problem.incoming.output;
  const std::int64_t rows = incoming.rows, heads = incoming.heads, dim = incoming.head_dim;
  switch (c.seed % 5) {
    case 0:
      break;  // packed
    case 1:
      made.options.output_grad = {dim, rows * dim, 1};
      break;
    case 2:
      made.options.output_grad = {1, rows * dim, rows};
      break;
    case 3:
      made.options.output_grad = {heads * (dim + 1) + 3, dim + 1, 1};
      break;
    case 4:
      made.options.shift_output_grad_bytes = 6;
      break;
  }
  const auto layout = c.seed % 3 == 0 ? packed : c.seed % 3 == 1 ? head_major : padded;
  made.options.query_grad = layout(forward.problem.query);
  made.options.key_grad = layout(forward.problem.key);
  made.options.value_grad = c.seed % 3 == 1 ? padded(forward.problem.value) : layout(forward.problem.value);

  // What flows into rows that no sequence owns is nobody's business.
  std::vector<bool> owned(static_cast<std::size_t>(rows));
  for (const reference::Sequence& s : reference::sequences(forward.problem))
    std::fill_n(owned.begin() + s.output_row, s.query_rows, true);
  for (std::int64_t row = 0; row < rows; ++row) {
    if (owned[static_cast<std::size_t>(row)]) continue;
    std::fill_n(incoming.values.begin() + static_cast<std::ptrdiff_t>(incoming.index(row, 0, 0)), heads * dim,
                kNotANumber);
  }
  return made;
}

bool ran_well(const BackwardResult& result) {
  INFO(result.status.detail());
  if (!result.status.ok()) FAIL_CHECK(result.status.message());
  for (const std::string& violation : result.violations) FAIL_CHECK(violation);
  return result.status.ok();
}

void fill_rows(HostTensor& tensor, std::int64_t first, std::int64_t rows, float value) {
  std::fill(tensor.values.begin() + static_cast<std::ptrdiff_t>(tensor.index(first, 0, 0)),
            tensor.values.begin() + static_cast<std::ptrdiff_t>(tensor.index(first + rows, 0, 0)), value);
}

bool same_rows(const HostTensor& a, const HostTensor& b, std::int64_t first, std::int64_t rows) {
  for (std::size_t e = a.index(first, 0, 0); e < a.index(first + rows, 0, 0); ++e) {
    if (std::bit_cast<std::uint32_t>(a.values[e]) != std::bit_cast<std::uint32_t>(b.values[e])) return false;
  }
  return true;
}

// The longest sequence is filled with NaN: the others' bits must stay.
void check_isolation(Device& device, const SuiteGradient& made, const BackwardResult& clean) {
  const Problem& attention = made.problem.attention;
  const std::vector<reference::Sequence> all = reference::sequences(attention);
  const auto longest = std::max_element(all.begin(), all.end(), [](const auto& a, const auto& b) {
    return a.query_rows + a.key_rows < b.query_rows + b.key_rows;
  });
  SuiteGradient poisoned = made;
  Problem& problem = poisoned.problem.attention;
  const auto shared_rows = [](const std::optional<Strides>& strides) { return strides && strides->row == 0; };
  const RunOptions& layouts = made.options.forward;
  if (!problem.broadcast_q && !shared_rows(layouts.query))
    fill_rows(problem.query, longest->query_row, longest->query_rows, kNotANumber);
  if (!shared_rows(layouts.key)) fill_rows(problem.key, longest->key_row, longest->key_rows, kNotANumber);
  if (!shared_rows(layouts.value)) fill_rows(problem.value, longest->key_row, longest->key_rows, kNotANumber);
  fill_rows(poisoned.problem.incoming.output, longest->output_row, longest->query_rows, kNotANumber);
  const BackwardResult result = run_backward(device, poisoned.problem, poisoned.options);
  if (!ran_well(result)) return;
  for (const reference::Sequence& s : all) {
    if (s.key_row == longest->key_row && s.query_row == longest->query_row) continue;
    CAPTURE(s.key_row);
    CHECK(same_rows(clean.gradients.key, result.gradients.key, s.key_row, s.key_rows));
    CHECK(same_rows(clean.gradients.value, result.gradients.value, s.key_row, s.key_rows));
    if (!problem.broadcast_q)
      CHECK(same_rows(clean.gradients.query, result.gradients.query, s.query_row, s.query_rows));
  }
}

TEST_CASE("backward suite: right in fp64's eyes, alone in its memory, the same on two schedules") {
  using Clock = std::chrono::steady_clock;
  const auto start = Clock::now();
  const Suite suite = make_suite({.kernels = kKernels, .cases_of_a_kernel = 1, .tiles = kTiles});
  const Shard part = shard();
  std::size_t cases = 0;
  for (const SuiteCase& c : suite.cases) {
    if (c.kernel % part.count != part.number - 1) continue;
    const std::string what = describe(c);
    CAPTURE(what);
    const SuiteGradient made = gradient_of(c);
    std::optional<BackwardResult> first;
    const std::vector<std::string> devices = suite_devices(Schedules::kFew, c.seed);
    for (const std::string& name : devices) {
      CAPTURE(name);
      Device device = open_device(name);
      const BackwardResult result = run_backward(device, made.problem, made.options);
      if (!ran_well(result)) continue;
      if (first) {
        const std::string difference = first_difference(first->gradients, result.gradients);
        CHECK_MESSAGE(difference.empty(), "other bits than on the first device: " << difference);
      } else {
        const reference::BackwardComparison comparison =
            reference::judge(made.problem.attention, made.problem.incoming, result.gradients);
        CHECK_MESSAGE(comparison.within_tolerance(), reference::describe(comparison));
        first = result;
      }
      if (&name == &devices.back() && c.seed % kIsolationStep == 0) check_isolation(device, made, result);
    }
    ++cases;
  }
  CHECK(cases > 0);
  fmt::print("{} cases on {}, {:.1f} s\n", cases, test_device().name(),
             std::chrono::duration<double>(Clock::now() - start).count());
}

}  // namespace
}  // namespace jfa::test
