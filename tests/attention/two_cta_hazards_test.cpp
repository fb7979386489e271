// Synchronisation mistakes that two-CTA backwards of others were found with, planted in ours: each is
// noticed.
#include <doctest/doctest.h>

#include <string>
#include <utility>
#include <vector>

#include "runtime/compile.h"
#include "tests/attention/recording.h"
#include "tools/jfa_sim/mutation_campaign.h"

namespace jfa::test {
namespace {

using Edits = std::vector<std::pair<std::string, std::string>>;  // text, what takes its place

std::string edited(std::string text, const Edits& edits) {
  for (const auto& [from, to] : edits) {
    const std::size_t at = text.find(from);
    REQUIRE_MESSAGE(at != std::string::npos, "the kernel has no '" << from << "'");
    text.replace(at, from.size(), to);
  }
  return text;
}

// A kernel with its launches, and the schedules that it is run on: unmutated it is silent on all.
struct Subject {
  explicit Subject(const char* configuration)
      : recorded(record(configuration, "sim:sm_100a")), schedules(sim::usual_schedules(/*random_seeds=*/2)) {
    for (simulator::RunOptions& schedule : schedules) {
      const auto clean = simulator::replay(recorded.ptx, recorded.recording, schedule).value();
      REQUIRE_MESSAGE(clean.ok, clean.report.message);
      schedule.instruction_budget = 20 * clean.statistics.warp_instructions;
    }
  }

  AttentionRecording recorded;
  std::vector<simulator::RunOptions> schedules;
};

// What it does with these edits on some schedule, in words; empty if it does nothing wrong.
std::string noticed(const Subject& subject, const Edits& edits) {
  KernelSource source = subject.recorded.source;
  source.text = edited(source.text, edits);
  const Result<SharedImage> image = compile(source);
  REQUIRE_MESSAGE(image.ok(), image.status().message());
  for (const simulator::RunOptions& schedule : subject.schedules) {
    const auto run = simulator::replay((*image)->ptx, subject.recorded.recording, schedule).value();
    if (!run.ok) return run.report.message;
  }
  return {};
}

TEST_CASE("mistakes of other two-CTA backwards, planted in ours") {
  static const Subject own("backward-two-cta"), shared("backward-pma-two-cta");

  SUBCASE("one warp says for all that the query gradient has been read") {
    CHECK_FALSE(noticed(own, {{"mbarrier_init(&pipeline.query_grad_read, kPairWarps)",
                               "mbarrier_init(&pipeline.query_grad_read, kCtas)"},
                              {"arrive_at_leader(&pipeline.query_grad_read);",
                               "if (threadIdx.x / 32 == Config::UnloadWarps::kFirst) "
                               "arrive_at_leader(&pipeline.query_grad_read);"}})
                    .empty());
  }
  SUBCASE("score gradients are staged while the query's product reads those of the step before") {
    CHECK_FALSE(noticed(own, {{"if (chunk == 0) products_done.wait_outstanding();", ""}}).empty());
  }
  SUBCASE("a CTA exits before what it began is complete") {
    CHECK_FALSE(noticed(own, {{"  drain(pipeline.key_columns.empty, keys);\n", ""},
                              {"  operands_read_.wait_outstanding();  // the CTA may not exit", "  //"},
                              {"  barrier_cluster();  // neither CTA signals", "  //"}})
                    .empty());
  }
  SUBCASE("operands take the columns of scores that other warps still read") {
    CHECK_FALSE(
        noticed(own, {{"    scores_read_.wait_outstanding();\n    tcgen05_fence_after_thread_sync();\n"
                       "    const auto rows",
                       "    scores_read_.outstanding = false;\n    tcgen05_fence_after_thread_sync();\n"
                       "    const auto rows"}})
            .empty());
  }
  SUBCASE("the first product of a tile overwrites a query gradient that is being read") {
    CHECK_FALSE(noticed(own, {{"      query_grad_read_.wait_outstanding();\n      query_grad_read_.begin();\n"
                               "      tcgen05_fence_after_thread_sync();\n    }\n    mma_atb<kCtas>",
                               "      tcgen05_fence_after_thread_sync();\n    }\n    mma_atb<kCtas>"}})
                    .empty());
  }
  SUBCASE("score gradients overwrite operands that a product still reads") {
    CHECK_FALSE(
        noticed(shared,
                {{"    operands_read_.wait_outstanding();\n    tcgen05_fence_after_thread_sync();\n",
                  "    operands_read_.outstanding = false;\n    tcgen05_fence_after_thread_sync();\n"}})
            .empty());
  }
  SUBCASE("no barrier of the cluster at the end") {
    CHECK_FALSE(
        noticed(own, {{"  barrier_cluster();  // neither CTA signals the other any more\n", ""}}).empty());
  }
}

}  // namespace
}  // namespace jfa::test
