// What the scheduler tells a trace.
#include <utility>

#include "simulator/machine/scheduler.h"
#include "simulator/machine/trace.h"

namespace jfa::simulator {
namespace {

std::string up_to(const std::string& text, const char* marks) {
  return text.substr(0, text.find_first_of(marks));
}

}  // namespace

const char* to_string(Engine engine) {
  switch (engine) {
    case Engine::kCopy:
      return "copies";
    case Engine::kTensorCore:
      return "tensor core";
    case Engine::kCommit:
      return "commits";
  }
  return "?";
}

void Scheduler::trace_run(const Warp& warp, std::uint64_t since) const {
  const std::uint64_t now = machine_.clock();
  if (now == since) return;
  machine_.trace()->add({TraceEvent::Kind::kRun, warp.cta().index(), warp.index(), since, now, "run"});
}

void Scheduler::trace_wait(const Warp& warp, const Split& split) const {
  machine_.trace()->add({TraceEvent::Kind::kWait, warp.cta().index(), warp.index(), split.wait_since,
                         machine_.clock(), up_to(split.wait->describe(), ":\n")});
}

void Scheduler::trace_operation(const AsyncOperation& operation, std::string name) const {
  const ProgramPoint& issue = operation.issue();
  if (issue.cta == nullptr) return;
  machine_.trace()->add({TraceEvent::Kind::kOperation, issue.cta->index(),
                         static_cast<int>(operation.engine_), operation.posted_at_, machine_.clock(),
                         std::move(name)});
}

}  // namespace jfa::simulator
