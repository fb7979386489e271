// A backward repeated: the same bits every time, in whatever order the device does its asynchronous work.
// JFA_TEST_REPEATS: how often on a real device, where every run is a schedule of its own; on a simulated one
// how many random schedules, or FIRST-LAST of their seeds.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <cstdio>
#include <cstdlib>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tests/attention/backward_harness.h"

namespace jfa::test {
namespace {

struct Repeated {
  std::string name;
  Problem problem;
};

std::vector<Repeated> repeated_problems() {
  std::vector<Repeated> all = {
      {"self", flat_problem({200, 1, 0, 129}, {200, 1, 0, 129}, {2, 2}, 64)},
      {"groups", flat_problem({70, 3, 130}, {300, 3, 65}, {4, 1}, 32)},
      {"window", flat_problem({300, 20}, {200, 20}, {2, 1}, 64)},
      {"short", flat_problem({17, 100, 128, 250}, {40, 128, 1, 90}, {4, 2}, 64)},
      {"pma", flat_broadcast_problem(20, {300, 0, 3, 65, 140}, {4, 2}, 64)},
      {"pma by CTA pairs", flat_broadcast_problem(150, {300, 7, 520}, {2, 2}, 32)},
      {"pma of many rows", flat_broadcast_problem(280, {300, 7}, {2, 1}, 32)},
      {"CTA pairs", flat_problem({70, 3, 130, 300}, {200, 129, 256, 140}, {2, 1}, 32)},
  };
  all[2].problem.window = 40;
  std::uint64_t seed = 1;
  for (Repeated& one : all) randomize(one.problem, seed++);
  return all;
}

// Numbers of the repeats: 1 to `usual`, or as JFA_TEST_REPEATS says, N or FIRST-LAST.
std::pair<int, int> repeats(int usual) {
  int first = 1, last = usual;
  if (const char* text = std::getenv("JFA_TEST_REPEATS"); text != nullptr) {
    if (std::sscanf(text, "%d-%d", &first, &last) != 2) {
      first = 1;
      last = std::atoi(text);
    }
  }
  return {first, last};
}

// Names of devices that must agree on every bit. A process has room for 64 simulated ones.
std::vector<std::string> devices(int sms) {
  const std::string base = test_device().name();
  if (!test_device().simulated()) {
    const auto [first, last] = repeats(20);
    return std::vector<std::string>(static_cast<std::size_t>(last - first + 1), base);
  }
  const auto [first, last] = repeats(1);
  std::vector<std::string> schedules = {"eager", "lazy"};
  for (int seed = first; seed <= last; ++seed) schedules.push_back(fmt::format("random&seed={}", seed));
  for (std::string& schedule : schedules)
    schedule = fmt::format("{}{}sms={}&schedule={}", base, base.find('?') == std::string::npos ? '?' : '&',
                           sms, schedule);
  return schedules;
}

void check_repeats(const Problem& problem) {
  const BackwardProblem with_gradient = with_random_gradient(problem, 7, /*lse_gradient=*/true);
  for (const int sms : {1, 5}) {
    std::optional<BackwardResult> first;
    for (const std::string& device_name : devices(sms)) {
      CAPTURE(device_name);
      Device device = open_device(device_name);
      if (!first) {
        first = check_backward(device, with_gradient);
        continue;
      }
      const BackwardResult again = run_backward(device, with_gradient);
      REQUIRE_MESSAGE(again.status.ok(), again.status.message());
      const std::string difference = first_difference(first->gradients, again.gradients);
      CHECK_MESSAGE(difference.empty(), difference);
    }
    if (!test_device().simulated()) break;
  }
}

TEST_CASE("the same bits on every schedule of a device") {
  for (const Repeated& repeated : repeated_problems()) {
    SUBCASE(repeated.name.c_str()) { check_repeats(repeated.problem); }
  }
}

}  // namespace
}  // namespace jfa::test
