// The simulator's front door below the driver: load a module from PTX, list its entries, run a grid.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "simulator/machine/device_memory.h"
#include "simulator/machine/program.h"
#include "simulator/machine/report.h"
#include "simulator/machine/schedule.h"
#include "simulator/ptx/types.h"

namespace jfa::simulator {

class Observer;
class Trace;
namespace timing {
class Recorder;
}

struct RunOptions {
  int sms = 2;
  Schedule schedule = Schedule::kEager;
  std::uint64_t seed = 0;                // of kRandom; of kStarve: who
  std::vector<Choice> choices{};         // of kReplay, by position
  std::uint64_t first_choice = 0;        // position of the launch's first decision
  bool record_choices = false;           // fill LaunchResult::choices; kEager and kLazy have none
  Trace* trace = nullptr;                // gets the run's events, if there is one; not owned
  timing::Recorder* recorder = nullptr;  // gets what warps do, for the timing model; not owned; of kEager
  std::vector<Observer*> observers{};    // watch the run, beside the checkers; not owned
  bool checks = true;                    // false: errors are hangs, traps and what the machine cannot do
  /// What some compilers take for granted although PTX does not promise it, and devices happen to give: an
  /// alignment of dynamic shared memory beyond the declared one, and rules that may be left out, which
  /// habits.h describes and has sets of. Defaults: PTX.
  std::uint32_t dynamic_shared_alignment = 16;
  bool tensor_fences = true;
  bool load_waits = true;
  bool load_lanes = true;
  bool product_waits = true;
  bool commit_waits = true;
  bool lane_issues = true;
  bool exit_bytes = true;
  bool exit_races = true;
  bool constant_races = true;
  /// Warp instructions after which the run is called a livelock; 0: no limit.
  std::uint64_t instruction_budget = 4'000'000'000;
};

struct LaunchConfig {
  Dim3 grid;
  Dim3 block;
  Dim3 cluster;  // 1×1×1: none
  std::uint32_t dynamic_shared_bytes = 0;
  std::vector<std::byte> parameters;  // laid out as Entry::parameters says
  /// The grid need not wait for the one before it to end (programmatic dependent launch).
  bool overlaps_predecessor = false;
  RunOptions options;
};

struct LaunchStatistics {
  std::uint64_t warp_instructions = 0;
  std::uint64_t async_steps = 0;
  std::uint64_t ctas = 0;
  std::uint64_t decisions = 0;  // of the schedule
  double product_seconds = 0;   // CPU time of asynchronous products: operands, arithmetic, accumulators
};

struct LaunchResult {
  bool ok = true;
  Report report;  // if not ok
  LaunchStatistics statistics;
  std::string printed;          // by printf, also of a run that failed
  std::vector<Choice> choices;  // if they were to be recorded
};

/// What one SM of a Blackwell offers.
inline constexpr std::uint32_t kSharedBytesPerSm = 233472;      // 228 KiB
inline constexpr std::uint32_t kMaxSharedBytesPerCta = 232448;  // 227 KiB, without the reserved 1 KiB
inline constexpr std::uint32_t kMaxThreadsPerSm = 2048;
inline constexpr std::uint32_t kMaxCtasPerSm = 32;

/// A loaded module: parsed, decoded, its .global and .const variables placed in a device's memory.
class Module {
 public:
  ~Module();
  /// Parses and decodes PTX text. Errors: kInvalidArgument with line and statement for what is malformed or
  /// not known. `source`, if given, is the CUDA text the PTX was made of: reports quote its lines. The
  /// variables live in `memory` as long as the module does.
  static Result<std::unique_ptr<Module>> load(const std::string& ptx, DeviceMemory& memory,
                                              const std::string& source = {});

  const std::vector<std::unique_ptr<Entry>>& entries() const { return entries_; }
  /// Null if there is none of that name.
  const Entry* find(const std::string& name) const;
  const std::string& target() const { return target_; }             // "sm_100f"
  const std::vector<std::string>& files() const { return files_; }  // by .file number; [0] empty
  /// A line of the CUDA source, 1-based, if `file` is the source given to load; else empty.
  std::string source_line(int file, int line) const;

 private:
  friend class Loader;
  Module() = default;
  std::vector<std::unique_ptr<Entry>> entries_;
  std::string target_;
  std::vector<std::string> files_;
  std::vector<std::string> source_lines_;
  DeviceMemory* memory_ = nullptr;
  std::vector<std::uint64_t> variables_;  // their addresses
};

/// CTAs of the entry that fit one SM at a time; 0 if none does.
int resident_ctas_per_sm(const Entry& entry, std::uint32_t threads, std::uint32_t dynamic_shared_bytes);

/// Runs a grid to its end, or to its first error.
LaunchResult run_grid(const Module& module, const Entry& entry, const LaunchConfig& config,
                      DeviceMemory& memory);

}  // namespace jfa::simulator
