// What a plan says of its entries' memory and of the tensor core's work.
#include "generator/plan.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "generator/emit_wgmma.h"
#include "generator/plan/family.h"
#include "generator/workspace.h"
#include "templates/attention/backward_parameters.h"

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

}  // namespace

TEST_CASE("the shared memory of an entry is that of its regions, one behind the other") {
  for (const Target target : all_targets()) {
    for (const Pass pass : {Pass::forward, Pass::backward}) {
      for (const int padded_dim : {16, 32, 64, 96, 128}) {
        for (const bool broadcast_q : {false, true}) {
          const KernelPlan plan = plan_of(target, pass, padded_dim, broadcast_q);
          for (const EntryPlan* entry : entries_of(plan)) {
            CAPTURE(entry->name);
            int end = 0;
            for (const Region& region : entry->shared_map) {
              if (!region.over.empty()) continue;
              CHECK_MESSAGE(region.begin == end, region.type);
              end = region.end();
            }
            if (entry->grid == EntryPlan::Grid::kPersistent)
              CHECK(end + kTileAlignmentBytes == entry->shared_bytes);
          }
        }
      }
    }
  }
}

TEST_CASE("every tensor core entry of 10.x says what a tile costs") {
  const KernelPlan forward = plan_of(Target::sm_100f, Pass::forward, 128, false);
  CHECK(tensor_core_cycles(forward.forward().main, Target::sm_100f) ==
        1024);  // two products of 128 x 128 x 128
  const KernelPlan plan = plan_of(Target::sm_100f, Pass::backward, 64, true);
  CHECK(tensor_core_cycles(plan.backward().broadcast->main, Target::sm_100f) == 5 * 256);

  const KernelPlan by_length = plan_of(Target::sm_100f, Pass::backward, 128, false);
  CHECK(tensor_core_cycles(by_length.backward().short_keys->main, Target::sm_100f) == 4 * 256 + 512);

  const nlohmann::json json = nlohmann::json::parse(describe(plan));
  std::set<std::string> described;
  for (const auto& entry : json.at("entries")) {
    if (entry.at("grid") != "persistent") continue;
    described.insert(entry.at("name"));
    CHECK(entry.at("tensor_core").at("cycles_of_a_tile").get<int>() > 0);
    CHECK(!entry.at("tensor_map").empty());
    CHECK(!entry.at("shared_map").empty());
  }
  CHECK(described == std::set<std::string>{"jfa_backward_keys", "jfa_backward_queries",
                                           "jfa_backward_broadcast", "jfa_backward_two_cta"});
}

TEST_CASE("a backward's paths name all of its entries, each path in the order of its launches") {
  for (const Target target : all_targets()) {
    for (const bool broadcast_q : {false, true}) {
      const nlohmann::json json =
          nlohmann::json::parse(describe(plan_of(target, Pass::backward, 128, broadcast_q)));
      std::set<std::string> entries, named;
      for (const auto& entry : json.at("entries")) entries.insert(entry.at("name"));
      for (const auto& path : json.at("paths")) {
        CHECK(!path.at("calls").get<std::string>().empty());
        CHECK(!path.at("why").get<std::string>().empty());
        CHECK(path.at("entries").front().get<std::string>().starts_with("jfa_prepare"));
        if (broadcast_q) CHECK(path.at("entries").back() == "jfa_sum_query_grad");
        for (const auto& entry : path.at("entries")) named.insert(entry);
      }
      CHECK(named == entries);
      const bool has_pairs = json.contains("two_cta");
      CHECK(has_pairs == (row_of(target).family->limits.tensor_columns > 0));
      CHECK(json.at("paths").size() == (has_pairs ? 3 : 2));
    }
  }
  CHECK(
      !nlohmann::json::parse(describe(plan_of(Target::sm_90a, Pass::forward, 128, false))).contains("paths"));
}

TEST_CASE("the paths say which calls take clusters of two CTAs, and what they are chosen by") {
  const auto described = [](bool broadcast_q, int two_cta) {
    KernelSpec spec;
    spec.pass = Pass::backward;
    spec.broadcast_q = broadcast_q;
    spec.groups = 4;
    return nlohmann::json::parse(describe(plan(spec, {{{"two_cta", two_cta}}}).value()));
  };
  const auto calls = [&](bool broadcast_q, int two_cta) {
    std::vector<std::string> calls;
    const nlohmann::json json = described(broadcast_q, two_cta);
    for (const auto& path : json.at("paths")) calls.push_back(path.at("calls"));
    return calls;
  };
  using Calls = std::vector<std::string>;
  CHECK(calls(true, 0) == Calls{"4 * (q_len rounded up to 8) <= 128", "others"});
  CHECK(calls(true, 1) ==
        Calls{"4 * (q_len rounded up to 8) <= 128", "128 < 4 * (q_len rounded up to 8) <= 256", "others"});
  CHECK(calls(true, 2) == Calls{"4 * (q_len rounded up to 8) <= 256"});
  CHECK(calls(false, 0) == Calls{"at most 128 keys in the whole batch", "others"});
  CHECK(calls(false, 1) ==
        Calls{"at most 128 keys in the whole batch", "at most 256 keys in the whole batch", "others"});
  CHECK(calls(false, 2) == Calls{"at most 256 keys in the whole batch", "others"});

  const nlohmann::json own = described(false, 1);
  const nlohmann::json& path = own.at("paths")[1];
  CHECK(path.at("entries") == std::vector<std::string>{"jfa_prepare_backward", "jfa_delta",
                                                       "jfa_backward_short", "jfa_backward_two_cta"});
  const std::string why = path.at("why");
  CHECK(why.find("sequences of 129 to 256 keys") != why.npos);
  CHECK(why.find("complete after one product") != why.npos);
  CHECK(why.find("not by a clock") != why.npos);
  const std::string why_on = described(false, 2).at("paths")[0].at("why");
  CHECK(why_on.find("asked for by two_cta = 2") != why_on.npos);
  CHECK(why_on.find("model") == why_on.npos);
  for (const auto& entry : own.at("entries")) {
    const bool pairs = entry.at("name") == "jfa_backward_two_cta";
    CHECK(entry.value("cluster", 1) == (pairs ? 2 : 1));
  }
}

TEST_CASE("a backward's lists have room for unowned rows before the first sequence and behind the last") {
  // One row more than a tile each: two tiles.
  const auto map_of = [](bool broadcast_q) {
    const WorkspaceShape call{1, broadcast_q ? 5 : 3 * 129, 3 * 129, 2};
    return backward_workspace_map(plan_of(Target::sm_100f, Pass::backward, 64, broadcast_q),
                                  {call, broadcast_q ? 5 : 3 * 129, 64, false});
  };
  CHECK(map_of(false).key_tile_capacity == 6);
  CHECK(map_of(false).query_tile_capacity == 6);
  CHECK(map_of(false).query_run_capacity == 6);
  CHECK(map_of(false).short_tile_capacity == 12);
  CHECK(map_of(true).key_tile_capacity == 6);
  const BackwardWorkspaceMap map = map_of(true);
  CHECK(map.delta - map.key_sequences >= 3 * sizeof(kernel::KeySequence));
}

TEST_CASE("a call needs as much workspace on every target: it is asked for before a device is known") {
  for (const Target target : all_targets()) {
    for (const bool broadcast_q : {false, true}) {
      for (const std::int64_t keys : {100, 10'000, 1'000'000}) {
        const WorkspaceShape call{3, 40, keys, 8};
        const auto forward_bytes = [&](Target of) {
          return workspace_map(plan_of(of, Pass::forward, 64, broadcast_q), call).bytes;
        };
        const auto backward_bytes = [&](Target of) {
          return backward_workspace_map(plan_of(of, Pass::backward, 64, broadcast_q), {call, 120, 64, true})
              .bytes;
        };
        const Target first = all_targets().front();
        CHECK(forward_bytes(target) == forward_bytes(first));
        CHECK(backward_bytes(target) == backward_bytes(first));
      }
    }
  }
}

TEST_CASE("parts of a shared query's keys keep the multiprocessors evenly busy") {
  CHECK(broadcast_parts(132, 4, 80) == 33);
  CHECK(broadcast_parts(132, 1, 320) == 132);
  CHECK(broadcast_parts(132, 8, 40) == 16);  // 128 of 132 are busy
  CHECK(broadcast_parts(148, 5, 64) == 29);  // 145 of 148
  CHECK(broadcast_parts(132, 100, 4) == 1);  // nothing up to 4 parts is more even
  CHECK(broadcast_parts(132, 50, 7) == 5);   // 250 of two rounds of 132
  CHECK(broadcast_parts(132, 1, 60) == 60);  // too few tiles to keep all busy: as many as can be
  CHECK(broadcast_parts(74, 2, 20) == 20);
  CHECK(broadcast_parts(132, 4, 1) == 1);  // few key tiles
  CHECK(broadcast_parts(132, 4096, 1) == 1);
  CHECK(broadcast_parts(2, 1, 320) == 2);
}

TEST_CASE("a wgmma wrapper has an operand for every register, at any width") {
  for (int columns = 8; columns <= 256; columns += 8) {
    CAPTURE(columns);
    const int registers = columns / 2;
    for (const bool shared : {true, false}) {
      const std::string text = shared ? wgmma_ss_text(columns) : wgmma_rs_text(columns);
      const auto count = [&](const std::string& part) {
        int times = 0;
        for (std::size_t at = text.find(part); at != text.npos; at = text.find(part, at + 1)) ++times;
        return times;
      };
      CHECK(count(fmt::format("m64n{}k16", columns)) == 1);
      CHECK(count(fmt::format("float (&d)[{}]", registers)) == 1);
      CHECK(count("\"+f\"(d[") == registers);
      // Accumulators, operands, the predicate's source, and of two shared operands how each of them lies.
      const int operands = registers + (shared ? 5 : 6);
      CHECK(count(fmt::format("%{}", operands - 1)) == 1);
      CHECK(count(fmt::format("%{}", operands)) == 0);
    }
  }
}
