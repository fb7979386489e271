#include "tools/jfa_sim/mutation_campaign.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <exception>
#include <map>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

namespace jfa::sim {
namespace {

using simulator::Mutant;
using simulator::ReplayResult;
using simulator::RunOptions;
using simulator::SyncSite;

constexpr std::uint64_t kBudgetFactor = 8;  // instructions of a mutant, over those of the kernel as it is
constexpr std::uint64_t kLeastBudget = 1'000'000;

void for_each(std::size_t count, int jobs, const std::function<void(std::size_t)>& body) {
  std::atomic<std::size_t> next{0};
  std::exception_ptr thrown;
  std::mutex mutex;
  const auto work = [&] {
    try {
      for (std::size_t i = next++; i < count; i = next++) body(i);
    } catch (...) {
      next = count;
      const std::lock_guard lock(mutex);
      thrown = std::current_exception();
    }
  };
  {
    std::vector<std::jthread> threads;
    for (std::size_t i = 1; i < std::min(static_cast<std::size_t>(std::max(jobs, 1)), count); ++i)
      threads.emplace_back(work);
    work();
  }
  if (thrown) std::rethrow_exception(thrown);
}

class Campaign {
 public:
  Campaign(const std::string& ptx, const simulator::Recording& recording, const CampaignOptions& options)
      : ptx_(ptx), recording_(recording), options_(options) {}

  Result<CampaignResult> run() {
    Result<simulator::Mutations> mutations = simulator::enumerate_mutations(ptx_);
    if (!mutations) return mutations.status();
    result_.mutations = *std::move(mutations);
    result_.schedules = options_.schedules;
    result_.entry = options_.entry;
    if (Status status = run_unmutated(); !status.ok()) return status;
    find_reached();
    choose_mutants();
    run_mutants();
    return std::move(result_);
  }

 private:
  Status run_unmutated() {
    for (RunOptions& schedule : result_.schedules) {
      Result<ReplayResult> replayed = simulator::replay(ptx_, recording_, schedule, options_.source);
      if (!replayed) return replayed.status();
      if (!replayed->ok)
        return Status(ErrorKind::kInternal,
                      fmt::format("without a mutation, {}: {}", describe(schedule), replayed->report.message),
                      replayed->report.text());
      schedule.instruction_budget =
          std::max(kLeastBudget, kBudgetFactor * replayed->statistics.warp_instructions);
      if (expected_.empty()) {
        same_.assign(replayed->buffers.size(), true);
        expected_ = std::move(replayed->buffers);
      } else {
        for (std::size_t i = 0; i < expected_.size(); ++i)
          same_[i] = same_[i] && expected_[i] == replayed->buffers[i];
      }
    }
    for (std::size_t i = 0; i < same_.size(); ++i)
      if (same_[i]) result_.compared.push_back(recording_.buffers[i].name);
    return {};
  }

  // Whether a run comes to a site hangs on the input, hardly on the schedule: the first one that does is
  // enough.
  void find_reached() {
    std::vector<char> reached(result_.mutations.sites.size());  // not bits: written by many threads
    for_each(reached.size(), options_.jobs, [&](std::size_t i) {
      if (!launched(result_.mutations.sites[i].entry)) return;
      const std::string probe = simulator::trap_at(ptx_, result_.mutations.sites[i]);
      for (const RunOptions& schedule : result_.schedules) {
        const Result<ReplayResult> replayed = simulator::replay(probe, recording_, schedule);
        reached[i] = replayed && !replayed->ok && replayed->report.kind == simulator::ErrorKind::kTrap;
        if (reached[i]) return;
      }
    });
    result_.reached.assign(reached.begin(), reached.end());
  }

  bool launched(const std::string& entry) const {
    if (!options_.entry.empty() && entry != options_.entry) return false;
    return std::any_of(recording_.launches.begin(), recording_.launches.end(),
                       [&](const auto& launch) { return launch.entry == entry; });
  }

  void choose_mutants() {
    std::map<std::pair<std::string, std::string>, std::vector<std::size_t>> groups;
    for (std::size_t i = 0; i < result_.mutations.mutants.size(); ++i) {
      const Mutant& mutant = result_.mutations.mutants[i];
      if (result_.reached[mutant.site])
        groups[{result_.mutations.sites[mutant.site].operation, mutant.change}].push_back(i);
    }
    std::vector<std::size_t> chosen;
    for (const auto& [key, members] : groups) {
      const std::size_t count =
          options_.sample == 0 ? members.size() : std::min(options_.sample, members.size());
      for (std::size_t i = 0; i < count; ++i) chosen.push_back(members[i * members.size() / count]);
    }
    std::sort(chosen.begin(), chosen.end());
    for (const std::size_t mutant : chosen)
      result_.results.push_back({mutant, std::vector<Outcome>(result_.schedules.size())});
  }

  void run_mutants() {
    std::atomic<std::size_t> done{0};
    for_each(result_.results.size(), options_.jobs, [&](std::size_t i) {
      MutantResult& result = result_.results[i];
      const Mutant& mutant = result_.mutations.mutants[result.mutant];
      const std::string ptx =
          simulator::replace_statement(ptx_, result_.mutations.sites[mutant.site], mutant.replacement);
      for (std::size_t s = 0; s < result_.schedules.size(); ++s) {
        result.outcomes[s] = judge(simulator::replay(ptx, recording_, result_.schedules[s], options_.source));
        if (options_.first_death && result.outcomes[s].killed()) break;
      }
      const std::size_t finished = ++done;
      if (options_.progress) options_.progress(finished, result_.results.size());
    });
  }

  Outcome judge(const Result<ReplayResult>& replayed) const {
    if (!replayed) return {Outcome::Kind::kRefused, replayed.status().message()};
    if (!replayed->ok) {
      const simulator::Report& report = replayed->report;
      const bool hung =
          report.kind == simulator::ErrorKind::kDeadlock || report.kind == simulator::ErrorKind::kLivelock;
      return {hung ? Outcome::Kind::kHung : Outcome::Kind::kReported,
              fmt::format("{}: {}", to_string(report.kind), report.message)};
    }
    for (std::size_t i = 0; i < expected_.size(); ++i)
      if (same_[i] && replayed->buffers[i] != expected_[i])
        return {Outcome::Kind::kDiffers, fmt::format("buffer {} differs", recording_.buffers[i].name)};
    return {};
  }

  const std::string& ptx_;
  const simulator::Recording& recording_;
  const CampaignOptions& options_;
  CampaignResult result_;
  std::vector<std::vector<std::byte>> expected_;  // by buffer
  std::vector<bool> same_;                        // by buffer: on all schedules
};

}  // namespace

bool MutantResult::killed() const {
  return std::any_of(outcomes.begin(), outcomes.end(), [](const Outcome& it) { return it.killed(); });
}

bool MutantResult::killed_everywhere() const {
  return std::all_of(outcomes.begin(), outcomes.end(), [](const Outcome& it) { return it.killed(); });
}

Result<CampaignResult> run_campaign(const std::string& ptx, const simulator::Recording& recording,
                                    const CampaignOptions& options) {
  return Campaign(ptx, recording, options).run();
}

std::vector<RunOptions> usual_schedules(int random_seeds) {
  std::vector<RunOptions> schedules(static_cast<std::size_t>(2 + random_seeds));
  schedules[1].schedule = simulator::Schedule::kLazy;
  for (std::size_t i = 2; i < schedules.size(); ++i) {
    schedules[i].schedule = simulator::Schedule::kRandom;
    schedules[i].seed = i - 1;
  }
  return schedules;
}

std::string describe(const RunOptions& schedule) {
  std::string text = simulator::to_string(schedule.schedule);
  if (schedule.schedule == simulator::Schedule::kRandom) text += fmt::format(", seed {}", schedule.seed);
  return text;
}

}  // namespace jfa::sim
