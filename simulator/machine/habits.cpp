#include "simulator/machine/habits.h"

#include <algorithm>
#include <array>
#include <cstdint>

namespace jfa::simulator {
namespace {

constexpr PtxRule kTensorFences{"tensor_fences", &RunOptions::tensor_fences,
                                "waits and barriers order tcgen05 operations without tcgen05.fence"};
constexpr PtxRule kLoadWaits{
    "load_waits", &RunOptions::load_waits,
    "registers of tcgen05.ld may be used without tcgen05.wait::ld, and the load is over then"};
constexpr PtxRule kLoadLanes{"load_lanes", &RunOptions::load_lanes,
                             "tcgen05.ld may name any lanes: each warp loads from its own"};
constexpr PtxRule kProductWaits{
    "product_waits", &RunOptions::product_waits,
    "products that one thread issues into different accumulators run in the order of issue"};
constexpr PtxRule kCommitWaits{"commit_waits", &RunOptions::commit_waits,
                               "a CTA may exit before the arrivals of its last commits"};
constexpr PtxRule kLaneIssues{
    "lane_issues", &RunOptions::lane_issues,
    "a whole warp that executes one bulk copy or mbarrier.init with equal operands issues it once"};
constexpr PtxRule kExitBytes{"exit_bytes", &RunOptions::exit_bytes,
                             "a CTA may exit while an mbarrier expects bytes that nobody sends"};
constexpr PtxRule kExitRaces{"exit_races", &RunOptions::exit_races,
                             "the cluster's barrier tells of what threads did that have exited"};
constexpr PtxRule kConstantRaces{"constant_races", &RunOptions::constant_races,
                                 "warps may store one constant to one place in one instruction"};
constexpr PtxRule kRules[] = {kTensorFences, kLoadWaits, kLoadLanes, kProductWaits, kCommitWaits,
                              kLaneIssues,   kExitBytes, kExitRaces, kConstantRaces};

// CUTLASS and CuTe DSL, and what is made with them: FlashAttention-4, DeepGEMM, FlashInfer.
constexpr PtxRule kCutlass[] = {kLoadWaits,  kLoadLanes, kProductWaits, kCommitWaits,
                                kLaneIssues, kExitBytes, kExitRaces};
// Triton and Gluon.
constexpr PtxRule kTriton[] = {kTensorFences, kLoadWaits, kCommitWaits, kConstantRaces};

struct Habits {
  std::string_view of;
  std::span<const PtxRule> broken;
  std::uint32_t dynamic_shared_alignment;  // that is counted on without being declared
};
constexpr Habits kHabits[] = {{"cutlass", kCutlass, 16}, {"triton", kTriton, 1024}};

}  // namespace

std::span<const PtxRule> ptx_rules() { return kRules; }

bool take_habits(std::string_view of, RunOptions& options) {
  for (const Habits& habits : kHabits) {
    if (habits.of != of) continue;
    for (const PtxRule& rule : habits.broken) options.*rule.member = false;
    options.dynamic_shared_alignment =
        std::max(options.dynamic_shared_alignment, habits.dynamic_shared_alignment);
    return true;
  }
  return false;
}

std::string habit_names() {
  std::string names;
  for (const Habits& habits : kHabits) names += (names.empty() ? "" : ", ") + std::string(habits.of);
  return names;
}

}  // namespace jfa::simulator
