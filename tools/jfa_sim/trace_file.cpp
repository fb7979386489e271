#include "tools/jfa_sim/trace_file.h"

#include <fmt/format.h>

#include <map>
#include <nlohmann/json.hpp>
#include <tuple>
#include <utility>

namespace jfa::sim {
namespace {

using simulator::TraceEvent;

// Threads of a process: warps first, then engines, then mbarriers.
constexpr int kFirstEngine = 1000;
constexpr int kFirstBarrier = 2000;

int thread_of(const TraceEvent& event) {
  switch (event.kind) {
    case TraceEvent::Kind::kRun:
    case TraceEvent::Kind::kWait:
      break;
    case TraceEvent::Kind::kOperation:
      return kFirstEngine + event.track;
    case TraceEvent::Kind::kPhase:
      return kFirstBarrier + event.track;
  }
  return event.track;
}

const char* category_of(const TraceEvent& event) {
  switch (event.kind) {
    case TraceEvent::Kind::kRun:
      return "run";
    case TraceEvent::Kind::kWait:
      return "wait";
    case TraceEvent::Kind::kOperation:
      return "operation";
    case TraceEvent::Kind::kPhase:
      return "phase";
  }
  return "";
}

std::string thread_name(const TraceEvent& event) {
  switch (event.kind) {
    case TraceEvent::Kind::kRun:
    case TraceEvent::Kind::kWait:
      break;
    case TraceEvent::Kind::kOperation:
      return to_string(static_cast<simulator::Engine>(event.track));
    case TraceEvent::Kind::kPhase:
      return fmt::format("mbarrier at {:#x}", event.track);
  }
  return fmt::format("warp {}", event.track);
}

nlohmann::json name_event(const char* what, int process, int thread, const std::string& name) {
  return {{"ph", "M"}, {"name", what}, {"pid", process}, {"tid", thread}, {"args", {{"name", name}}}};
}

}  // namespace

nlohmann::json to_chrome_trace(const simulator::Trace& trace) {
  nlohmann::json events = nlohmann::json::array();
  std::map<std::tuple<std::uint32_t, std::uint32_t, std::uint32_t>, int> processes;
  std::map<std::pair<int, int>, bool> threads;
  for (const TraceEvent& event : trace.events()) {
    const auto& cta = event.cta;
    const auto [process, is_new] =
        processes.try_emplace({cta.z, cta.y, cta.x}, static_cast<int>(processes.size()));
    if (is_new)
      events.push_back(
          name_event("process_name", process->second, 0, fmt::format("CTA ({},{},{})", cta.x, cta.y, cta.z)));
    const int thread = thread_of(event);
    if (threads.try_emplace({process->second, thread}, true).second)
      events.push_back(name_event("thread_name", process->second, thread, thread_name(event)));
    // Operations of one engine overlap, which slices of one thread may not: they are asynchronous events.
    if (event.kind == TraceEvent::Kind::kOperation) {
      const std::size_t id = events.size();
      for (const auto& [phase, at] : {std::pair{"b", event.begin}, std::pair{"e", event.end}})
        events.push_back({{"ph", phase},
                          {"name", event.name},
                          {"cat", category_of(event)},
                          {"id", id},
                          {"ts", at},
                          {"pid", process->second},
                          {"tid", thread}});
      continue;
    }
    events.push_back({{"ph", "X"},
                      {"name", event.name},
                      {"cat", category_of(event)},
                      {"ts", event.begin},
                      {"dur", event.end - event.begin},
                      {"pid", process->second},
                      {"tid", thread}});
  }
  return {{"traceEvents", std::move(events)}, {"otherData", {{"dropped_events", trace.dropped()}}}};
}

}  // namespace jfa::sim
