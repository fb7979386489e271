#include "simulator/campaign/shrink.h"

#include <algorithm>
#include <chrono>
#include <utility>

namespace jfa::simulator {
namespace {

class Shrinker {
 public:
  Shrinker(const std::string& ptx, const Recording& recording, const RunOptions& failing,
           const ShrinkLimits& limits)
      : ptx_(ptx), recording_(recording), options_(failing), limits_(limits) {}

  Result<ShrunkSchedule> run() {
    RunOptions recorded = options_;
    recorded.record_choices = true;
    Result<ReplayResult> original = replay(ptx_, recording_, recorded);
    if (!original) return original.status();
    if (original->ok) return Status(jfa::ErrorKind::kInternal, "the schedule to be shrunk does not fail", {});
    report_ = std::move(original->report);
    // A run that goes wrong may not end at all.
    options_.instruction_budget = 2 * original->statistics.warp_instructions + 1'000'000;
    options_.schedule = Schedule::kReplay;
    result_.recorded = original->choices.size();
    if (fails({})) {
      result_.replayable = true;
    } else if (!original->choices.empty() && fails(original->choices)) {
      result_.replayable = true;
      result_.choices = minimise(std::move(original->choices));
    }
    return std::move(result_);
  }

 private:
  bool exhausted() const {
    const std::chrono::duration<double> spent = std::chrono::steady_clock::now() - start_;
    return result_.runs >= limits_.runs || spent.count() >= limits_.seconds;
  }

  bool fails(std::vector<Choice> choices) {
    ++result_.runs;
    options_.choices = std::move(choices);
    const Result<ReplayResult> replayed = replay(ptx_, recording_, options_);
    return replayed && !replayed->ok && replayed->report.kind == report_.kind &&
           replayed->report.entry == report_.entry && replayed->report.ptx_line == report_.ptx_line;
  }

  // Delta debugging: leaves out one of `parts` equal parts, more of them as nothing can be left out.
  std::vector<Choice> minimise(std::vector<Choice> choices) {
    std::size_t parts = 2;
    while (!choices.empty() && !exhausted()) {
      bool smaller = false;
      for (std::size_t part = 0; part < parts && !exhausted(); ++part) {
        const auto at = [&](std::size_t i) {
          return choices.begin() + static_cast<std::ptrdiff_t>(i * choices.size() / parts);
        };
        std::vector<Choice> rest(choices.begin(), at(part));
        rest.insert(rest.end(), at(part + 1), choices.end());
        if (!fails(rest)) continue;
        choices = std::move(rest);
        parts = std::max<std::size_t>(parts - 1, 2);
        smaller = true;
        break;
      }
      if (smaller) continue;
      if (parts >= choices.size()) break;
      parts = std::min(2 * parts, choices.size());
    }
    return choices;
  }

  const std::string& ptx_;
  const Recording& recording_;
  RunOptions options_;
  const ShrinkLimits limits_;
  const std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  Report report_;
  ShrunkSchedule result_;
};

}  // namespace

Result<ShrunkSchedule> shrink(const std::string& ptx, const Recording& recording, const RunOptions& failing,
                              const ShrinkLimits& limits) {
  return Shrinker(ptx, recording, failing, limits).run();
}

}  // namespace jfa::simulator
