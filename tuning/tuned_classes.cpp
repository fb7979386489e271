#include "tuning/tuned_classes.h"

#include <fmt/format.h>

#include <algorithm>

namespace jfa {
namespace {

std::string words(const Tuning& tuning) { return tuning.empty() ? "the defaults" : to_string(tuning); }

}  // namespace

TunedClasses::TunedClasses(const std::vector<TuningRecord>& records, const TunedDevice& device,
                           Target target) {
  for (const TuningRecord& record : records) {
    if (record.device != device || record.problem.spec.target != target) continue;
    classes_[record.problem.spec][record.problem.size] = {record.winner, record.winner_ratio, name(record)};
  }
}

TunedChoice TunedClasses::choose(const ProblemClass& problem) const {
  const auto of_spec = classes_.find(problem.spec);
  if (of_spec == classes_.end())
    return {{}, {}, fmt::format("the database has no class of {}: the defaults", name(problem.spec))};
  const std::pair<const SizeClass, Winner>* nearest = nullptr;
  int least = 0;
  for (const auto& known : of_spec->second) {
    const auto steps = distance(problem.size, known.first);
    if (!steps || (nearest && *steps >= least)) continue;
    nearest = &known;
    least = *steps;
  }
  if (!nearest)
    return {{},
            {},
            fmt::format("all {} classes of {} are further than a factor of {} from {}: the defaults",
                        of_spec->second.size(), name(problem.spec), 1 << kFarthestClass, name(problem))};
  const Winner& winner = nearest->second;
  const std::string nearness =
      least == 0 ? "the class itself"
                 : fmt::format("the nearest class, {} powers of two from {}", least, name(problem));
  return {winner.tuning, winner.name,
          fmt::format("{} ({}): {}, {:.3f} of the defaults' time", winner.name, nearness,
                      words(winner.tuning), winner.ratio)};
}

std::vector<Tuning> TunedClasses::tunings(const KernelSpec& spec) const {
  std::vector<Tuning> all{Tuning()};
  if (const auto of_spec = classes_.find(spec); of_spec != classes_.end())
    for (const auto& [size, winner] : of_spec->second) all.push_back(winner.tuning);
  std::ranges::sort(all);
  all.erase(std::ranges::unique(all).begin(), all.end());
  return all;
}

}  // namespace jfa
