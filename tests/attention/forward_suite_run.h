// Runs a case of the forward suite and checks everything that must hold of it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tests/attention/forward_suite_array.h"
#include "tests/attention/harness.h"

namespace jfa::test {

struct SuiteProblem {
  Problem problem;
  RunOptions options;
};
SuiteProblem problem_of(const SuiteCase& suite_case);

/// Where a case runs: names of devices that must give the same bits, one of them twice in kAll.
/// Simulated ones differ in schedule, seed and SM count; a GPU has only itself. kFew: one that the case's
/// number picks, so that a suite covers all of them, and for one case in three the eager one before it;
/// `number` also says who starves.
enum class Schedules { kFew, kAll };
std::vector<std::string> suite_devices(Schedules schedules, std::uint64_t number);

/// Checks status, surroundings and tolerance on the first device, and the same bits on the others. Returns
/// the last device's result; none if that run failed.
std::optional<RunResult> check_on_devices(const SuiteProblem& suite_problem,
                                          const std::vector<std::string>& devices);

/// Fills one sequence, then all but that one, with NaN and infinities: the others' bits must stay those of
/// the clean result. Returns the number of runs.
int check_isolation(const SuiteProblem& suite_problem, const std::string& device, const RunResult& clean);

}  // namespace jfa::test
