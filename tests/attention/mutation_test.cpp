// Spoilt synchronisation in a backward does not go unnoticed: a mutant of every kind, on several schedules.
// The whole campaign is jfa_bench_mutations; docs/mutations.md has its results.
#include <doctest/doctest.h>

#include <algorithm>
#include <set>
#include <string>
#include <utility>

#include "tests/attention/recording.h"
#include "tools/jfa_sim/campaign_report.h"

namespace jfa::test {
namespace {

using Kind = std::pair<std::string, std::string>;  // operation and change

// Kinds of which some mutant is known to survive; docs/mutations.md says why.
const std::set<Kind> kKnownSurvivors = {
    {"bar.warp.sync", "deleted"},        {"bulk wait_group", "deleted"},
    {"bulk wait_group", "count +1"},     {"fence.mbarrier_init", "deleted"},
    {"griddepcontrol.wait", "deleted"},  // no launch of a backward overlaps
    {"tcgen05.fence::after", "deleted"}, {"tcgen05.fence::before", "deleted"},
    {"tcgen05.relinquish", "deleted"},
};

TEST_CASE("a backward's spoilt synchronisation is noticed") {
  const AttentionRecording recorded = record("backward-short", "sim:sm_100a");
  sim::CampaignOptions options;
  options.schedules = sim::usual_schedules(/*random_seeds=*/1);
  options.sample = 1;
  options.first_death = true;
  const sim::CampaignResult result = sim::run_campaign(recorded.ptx, recorded.recording, options).value();

  std::set<Kind> kinds, noticed;
  for (const sim::MutantResult& one : result.results) {
    const simulator::Mutant& mutant = result.mutations.mutants[one.mutant];
    const simulator::SyncSite& site = result.mutations.sites[mutant.site];
    const Kind kind{site.operation, mutant.change};
    kinds.insert(kind);
    if (one.killed()) noticed.insert(kind);
    if (kKnownSurvivors.count(kind) != 0) continue;
    CHECK_MESSAGE(one.killed(),
                  site.entry << ": " << site.operation << " " << mutant.change << ": " << site.text);
  }
  CHECK(noticed.size() >= 16);
  for (const Kind& kind : kKnownSurvivors)
    CHECK_MESSAGE(kinds.count(kind) != 0, "no mutant is a " << kind.first << " " << kind.second);
}

}  // namespace
}  // namespace jfa::test
