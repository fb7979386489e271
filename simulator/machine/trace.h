// What a run did when: warps, waits, asynchronous operations and phases of barriers, on simulated time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "simulator/machine/program.h"
#include "simulator/ptx/types.h"

namespace jfa::simulator {

/// "copies", "tensor core", "commits".
const char* to_string(Engine engine);

struct TraceEvent {
  enum class Kind : std::uint8_t { kRun, kWait, kOperation, kPhase };
  Kind kind = Kind::kRun;
  Dim3 cta;
  int track = 0;  // kRun, kWait: warp; kOperation: Engine; kPhase: offset of the mbarrier in shared memory
  std::uint64_t begin = 0, end = 0;  // warp instructions executed in the grid so far
  std::string name;
};

/// Where a run puts its events, in the order of their ends. Not thread-safe.
class Trace {
 public:
  static constexpr std::size_t kMostEvents = 1'000'000;

  void add(TraceEvent event) {
    if (events_.size() < kMostEvents)
      events_.push_back(std::move(event));
    else
      ++dropped_;
  }
  const std::vector<TraceEvent>& events() const { return events_; }
  /// Events beyond kMostEvents.
  std::uint64_t dropped() const { return dropped_; }

 private:
  std::vector<TraceEvent> events_;
  std::uint64_t dropped_ = 0;
};

}  // namespace jfa::simulator
