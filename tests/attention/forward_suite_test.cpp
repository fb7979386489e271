// The forward against fp64 over a pairwise covering array, in poisoned surroundings, on several schedules.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <chrono>
#include <cstdio>

#include "tests/attention/forward_suite_array.h"
#include "tests/attention/forward_suite_options.h"
#include "tests/attention/forward_suite_run.h"

namespace jfa::test {
namespace {

constexpr std::size_t kKernels = 40;
constexpr std::size_t kAllKernels = 400;
// Kernels that a normal test run takes through every schedule.
constexpr std::size_t kThoroughKernels = 8;
// Every so many cases are run with poison in their neighbours too.
constexpr std::uint64_t kIsolationStep = 2;
constexpr std::chrono::seconds kProgressStep{20};

const Suite& suite() {
  static const Suite made = suite_options().all
                                ? make_suite({.kernels = kAllKernels, .cases_of_a_kernel = 6, .tiles = 160})
                                : make_suite({.kernels = kKernels, .cases_of_a_kernel = 5, .tiles = 48});
  return made;
}

// Spread over the kernels, so that both dtypes, windows and broadcast_q are among them.
bool is_thorough(std::size_t kernel) {
  return suite_options().all || kernel % (kKernels / kThoroughKernels) == 0;
}

bool is_chosen(const SuiteCase& c) {
  const SuiteOptions& options = suite_options();
  if (options.only_case) return c.seed == *options.only_case;
  return c.kernel % options.shards == options.shard;
}

TEST_CASE("forward suite: any two values of any two factors meet in some case") {
  const PairCount pairs = count_pairs(suite());
  const std::size_t kernels = count_kernels(suite());
  fmt::print("{} kernels, {} cases, {} of {} pairs\n", kernels, suite().cases.size(), pairs.covered,
             pairs.possible);
  CHECK_MESSAGE(pairs.covered == pairs.possible, "missing: " << pairs.first_missing);
  CHECK(pairs.possible > 3000);
  CHECK(kernels == suite().kernels.size());
  CHECK(kernels <= (suite_options().all ? kAllKernels : kKernels));
}

TEST_CASE("forward suite: right in fp64's eyes, alone in its memory, the same on every schedule") {
  using Clock = std::chrono::steady_clock;
  const auto start = Clock::now();
  auto last_progress = start;
  int runs = 0;
  std::size_t cases = 0;
  for (const SuiteCase& c : suite().cases) {
    if (!is_chosen(c)) continue;
    const std::string what = describe(c);
    if (suite_options().list) {
      fmt::print("kernel {}, {}\n", c.kernel, what);
      continue;
    }
    CAPTURE(what);
    const SuiteProblem problem = problem_of(c);
    const std::vector<std::string> devices =
        suite_devices(is_thorough(c.kernel) ? Schedules::kAll : Schedules::kFew, c.seed);
    const std::optional<RunResult> clean = check_on_devices(problem, devices);
    runs += static_cast<int>(devices.size());
    if (clean && c.seed % kIsolationStep == 0) runs += check_isolation(problem, devices.back(), *clean);
    ++cases;
    if (Clock::now() - last_progress > kProgressStep) {
      last_progress = Clock::now();
      fmt::print(stderr, "forward suite: {} cases done\n", cases);
    }
  }
  if (suite_options().list) return;
  CHECK_MESSAGE(cases > 0, "no case has this number");
  fmt::print("{} cases, {} runs on {}, {:.1f} s\n", cases, runs, test_device().name(),
             std::chrono::duration<double>(Clock::now() - start).count());
}

}  // namespace
}  // namespace jfa::test
