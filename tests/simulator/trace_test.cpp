// Traces: what jfa-sim run --trace writes, read back.
#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>

#include "tests/simulator/async.h"
#include "tools/jfa_sim/trace_file.h"

namespace jfa::simulator::trace_test {
namespace {

using nlohmann::json;

// Two warps: one starts a copy and waits for it, the other waits for the first at a barrier.
const char* const kBody = R"(
  mov.u32 %t, %tid.x; setp.eq.u32 %first, %t, 0;
  setp.lt.u32 %p, %t, 32;
  @%first mbarrier.init.shared.b64 [bar], 1;
  @!%p bra MEET;
  bar.warp.sync 0xffffffff;
  @%first mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], 64;
  @%first cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [tile], [%in], 64, [bar];
  WAIT: mbarrier.try_wait.parity.shared.b64 %q, [bar], 0;
  @!%q bra WAIT;
  MEET:
  bar.sync 0;
)";

json trace_of(Schedule schedule) {
  PtxRun run(kBody);
  Trace trace;
  run.options.schedule = schedule;
  run.options.trace = &trace;
  const LaunchResult result = run.launch(64, 2);
  REQUIRE_MESSAGE(result.ok, result.report.text());
  return json::parse(sim::to_chrome_trace(trace).dump());
}

TEST_CASE("a trace has warps, waits, operations and phases of every CTA") {
  for (const Schedule schedule : {Schedule::kEager, Schedule::kLazy, Schedule::kRandom, Schedule::kLate}) {
    CAPTURE(std::string(to_string(schedule)));
    const json trace = trace_of(schedule);
    std::map<std::string, std::set<int>> processes;  // by category
    std::map<std::string, std::set<std::string>> names;
    std::set<std::string> threads, ctas;
    std::map<std::pair<int, int>, std::uint64_t> busy_until;
    std::map<std::uint64_t, int> open;
    for (const json& event : trace.at("traceEvents")) {
      const std::string phase = event.at("ph");
      if (phase == "M") {
        (event.at("name") == "process_name" ? ctas : threads).insert(event.at("args").at("name"));
        continue;
      }
      const std::string category = event.at("cat");
      processes[category].insert(event.at("pid").get<int>());
      names[category].insert(event.at("name"));
      const auto at = event.at("ts").get<std::uint64_t>();
      if (phase == "b" || phase == "e") {
        open[event.at("id").get<std::uint64_t>()] += phase == "b" ? 1 : -1;
        continue;
      }
      REQUIRE(phase == "X");
      if (category != "run") continue;
      // A warp does one thing at a time.
      auto& until = busy_until[{event.at("pid"), event.at("tid")}];
      CHECK(at >= until);
      until = at + event.at("dur").get<std::uint64_t>();
    }
    CHECK(ctas == std::set<std::string>{"CTA (0,0,0)", "CTA (1,0,0)"});
    for (const char* name : {"warp 0", "warp 1", "copies", "mbarrier at 0x400"}) {
      CAPTURE(std::string(name));
      CHECK(threads.count(name) == 1);
    }
    for (const char* category : {"run", "wait", "operation", "phase"}) {
      CAPTURE(std::string(category));
      CHECK(processes[category].size() == 2);
    }
    for (const auto& [id, balance] : open) CHECK(balance == 0);
    CHECK(std::any_of(names["operation"].begin(), names["operation"].end(),
                      [](const std::string& name) { return name.find("bulk copy of 64 bytes") == 0; }));
    CHECK(std::any_of(names["phase"].begin(), names["phase"].end(),
                      [](const std::string& name) { return name.find("phase 0 of mbarrier") == 0; }));
    CHECK(names["wait"].count("barrier 0") == 1);
    CHECK(trace.at("otherData").at("dropped_events") == 0);
  }
}

}  // namespace
}  // namespace jfa::simulator::trace_test
