#include "tools/tune_rank.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <tuple>

namespace jfa::tools {
namespace {

double quantile_of(const std::vector<double>& ascending, double part) {
  const double position = part * static_cast<double>(ascending.size() - 1);
  const auto below = static_cast<std::size_t>(position);
  const std::size_t above = std::min(below + 1, ascending.size() - 1);
  return ascending[below] + (position - static_cast<double>(below)) * (ascending[above] - ascending[below]);
}

// Of one round; 0 if one of them missed it for some shape.
double ratio_of_round(const Trial& defaults, const Trial& trial, std::size_t round) {
  double logs = 0;
  for (std::size_t shape = 0; shape < trial.times_ms.size(); ++shape) {
    if (shape >= defaults.times_ms.size() || round >= defaults.times_ms[shape].size() ||
        round >= trial.times_ms[shape].size())
      return 0;
    const double usual = defaults.times_ms[shape][round];
    const double own = trial.times_ms[shape][round];
    if (usual <= 0 || own <= 0) return 0;
    logs += std::log(own / usual);
  }
  return trial.times_ms.empty() ? 0 : std::exp(logs / static_cast<double>(trial.times_ms.size()));
}

bool is_timed(const Trial& trial) {
  return (trial.outcome == Trial::Outcome::kTimed || trial.outcome == Trial::Outcome::kWon) &&
         trial.ratio > 0;
}

}  // namespace

void compare_with(const Trial& defaults, Trial& trial) {
  std::vector<double> ratios;
  const std::size_t rounds = trial.times_ms.empty() ? 0 : trial.times_ms[0].size();
  for (std::size_t round = 0; round < rounds; ++round)
    if (const double ratio = ratio_of_round(defaults, trial, round); ratio > 0) ratios.push_back(ratio);
  std::ranges::sort(ratios);
  const bool any = !ratios.empty();
  trial.ratio = any ? quantile_of(ratios, 0.5) : 0;
  trial.ratio_lower_quartile = any ? quantile_of(ratios, 0.25) : 0;
  trial.ratio_upper_quartile = any ? quantile_of(ratios, 0.75) : 0;
}

bool is_hopeless(const Trial& trial, double leader_ratio, std::size_t rounds) {
  if (trial.ratio <= 0 || rounds < 2) return false;
  const double slack = rounds < 3 ? 1.25 : rounds < 5 ? 1.08 : 1.03;
  return trial.ratio_lower_quartile > leader_ratio * slack;
}

std::size_t winner_of(const std::vector<Trial>& trials) {
  double best = kLeastGain;
  for (const Trial& trial : trials)
    if (is_timed(trial) && trial.ratio_upper_quartile < 1) best = std::min(best, trial.ratio);
  const auto rank = [](const Trial& trial) {
    return std::tuple(!trial.same_bits.value_or(false), trial.tuning.values.size(), trial.ratio);
  };
  std::size_t winner = 0;
  for (std::size_t i = 1; i < trials.size(); ++i) {
    const Trial& trial = trials[i];
    if (!is_timed(trial) || trial.ratio_upper_quartile >= 1 || trial.ratio > kLeastGain ||
        trial.ratio > best * (1 + kAsGood))
      continue;
    if (winner == 0 || rank(trial) < rank(trials[winner])) winner = i;
  }
  return winner;
}

}  // namespace jfa::tools
