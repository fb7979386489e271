// What a plan says of its entries' memory and of the tensor core's work.
#include <doctest/doctest.h>

#include <nlohmann/json.hpp>
#include <set>
#include <string>

#include "generator/plan.h"

namespace {

using namespace jfa;

KernelPlan plan_of(Target target, Pass pass, int padded_dim, bool broadcast_q) {
  KernelSpec spec;
  spec.target = target;
  spec.pass = pass;
  spec.padded_dim = padded_dim;
  spec.broadcast_q = broadcast_q;
  return plan(spec).value();
}

int end_of(const std::vector<MemoryRegion>& map) {
  int end = 0;
  for (const MemoryRegion& region : map) {
    CHECK_MESSAGE(region.begin == end, region.name);
    end += region.size;
  }
  return end;
}

}  // namespace

TEST_CASE("memory maps have no gaps and fill what their entry asks for") {
  constexpr int kTileAlignmentBytes = 1024;
  for (const Target target : all_targets()) {
    for (const Pass pass : {Pass::forward, Pass::backward}) {
      for (const int padded_dim : {16, 32, 64, 96, 128}) {
        for (const bool broadcast_q : {false, true}) {
          const KernelPlan plan = plan_of(target, pass, padded_dim, broadcast_q);
          for (const EntryPlan* entry : entries_of(plan)) {
            CAPTURE(entry->name);
            if (entry->shared_bytes > 0)
              CHECK(end_of(entry->shared_map) + kTileAlignmentBytes == entry->shared_bytes);
            CHECK(end_of(entry->tensor_map) <= plan.tensor_memory_columns);
          }
        }
      }
    }
  }
}

TEST_CASE("every tensor core entry of 10.x says what a tile costs") {
  const KernelPlan forward = plan_of(Target::sm_100f, Pass::forward, 128, false);
  CHECK(tensor_core_cycles(forward.main, Target::sm_100f) == 1024);  // two products of 128 x 128 x 128
  const KernelPlan plan = plan_of(Target::sm_100f, Pass::backward, 64, true);
  CHECK(tensor_core_cycles(plan.backward->broadcast->main, Target::sm_100f) == 5 * 256);

  const KernelPlan by_length = plan_of(Target::sm_100f, Pass::backward, 128, false);
  CHECK(tensor_core_cycles(by_length.backward->short_keys->main, Target::sm_100f) == 4 * 256 + 512);

  const nlohmann::json json = nlohmann::json::parse(describe(plan));
  std::set<std::string> described;
  for (const auto& entry : json.at("entries")) {
    if (entry.at("grid") != "persistent") continue;
    described.insert(entry.at("name"));
    CHECK(entry.at("tensor_core").at("cycles_of_a_tile").get<int>() > 0);
    CHECK(!entry.at("tensor_map").empty());
    CHECK(!entry.at("shared_map").empty());
  }
  CHECK(described ==
        std::set<std::string>{"jfa_backward_keys", "jfa_backward_queries", "jfa_backward_broadcast"});
}
