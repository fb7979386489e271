// What the model says of a launch, for people and programs.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "simulator/timing/modelled_launch.h"

namespace jfa::simulator::timing {

/// A figure with every constant set.
struct Range {
  double low = 0, nominal = 0, high = 0;
};

/// Cycles and who has them.
struct Share {
  std::string who;
  double cycles = 0;
};

/// Neighbouring warps that run the same code.
struct RoleSummary {
  std::string name;  // "warps 4-7"
  int sm = 0, first = 0, last = 0;
  double instructions = 0;                     // a warp
  double cycles = 0;                           // from the first issue to the last, of the slowest warp
  std::array<double, kCauseCount> by_cause{};  // cycles a warp, by what each issue waited for last
  std::vector<Share> waits;                    // cycles a warp: for whom, of another role or an engine
  /// The wait or product that the role comes by most often, and the median of the cycles between two times.
  std::string landmark;
  int landmark_line = 0;  // of the source
  std::size_t visits = 0;
  Range period;
};

struct LaunchSummary {
  std::string entry;
  std::size_t warps = 0, segments = 0, ambiguous = 0;
  Range cycles;
  std::vector<RoleSummary> roles;
  double tensor_share = 0, shared_share = 0, copy_share = 0;  // busy, of the first SM
  std::vector<Share> chain;                                   // the critical one: who and what for
  std::vector<Share> lines;                                   // of it: the dearest of the source
};

/// `source`: the CUDA text, for its lines; may be empty.
LaunchSummary summarize(const TimedLaunch& launch, const ModelledLaunch& modelled, std::string_view source);

/// With labels: that it is a model, of which constants, and not measured.
std::string text_of(const LaunchSummary& summary);
/// "model, constants 1234abcd, low/nominal/high; not measured on sm_100".
std::string label();

/// What happened when, in cycles, for Perfetto: a process an SM, a thread a warp or engine. Nominal
/// constants.
std::string chrome_trace(const TimedLaunch& launch, const ModelledLaunch& modelled);
/// Roles over time as a picture; the first `most_cycles` of it, 0: all.
std::string svg(const LaunchSummary& summary, const ModelledLaunch& modelled, double most_cycles);

}  // namespace jfa::simulator::timing
