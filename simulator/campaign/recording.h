// What a program had in device memory and what it launched: enough to run it again, on another schedule or
// with other code, without the program.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"
#include "simulator/machine/launch.h"

namespace jfa::simulator {

struct RecordedBuffer {
  std::uint64_t address = 0;  // one that a DeviceMemory gave out
  std::string name;           // for reports
  std::vector<std::byte> bytes;
};

struct RecordedLaunch {
  std::string entry;
  LaunchConfig config;  // its options are not used
};

struct Recording {
  std::vector<RecordedBuffer> buffers;  // before the first launch
  std::vector<RecordedLaunch> launches;
};

struct ReplayResult {
  bool ok = true;
  Report report;                                // of the launch that failed; those behind it did not run
  LaunchStatistics statistics;                  // of all launches
  std::string printed;                          // by the kernels' printf
  std::vector<Choice> choices;                  // of all launches, if they were to be recorded
  std::vector<std::vector<std::byte>> buffers;  // afterwards, in the recording's order
};

/// A recording's memory, as it was before the first launch, and its code.
struct PlacedRecording {
  DeviceMemory memory;
  std::unique_ptr<Module> module;
};

/// Errors: of Module::load; kInvalidArgument for an entry that the PTX lacks and for buffers that overlap.
Result<std::unique_ptr<PlacedRecording>> place(const std::string& ptx, const Recording& recording,
                                               const std::string& source = {});

/// Runs the launches one after another in a memory of their own. `source`: see Module::load. Thread-safe.
/// Errors: of place().
Result<ReplayResult> replay(const std::string& ptx, const Recording& recording, const RunOptions& options,
                            const std::string& source = {});

}  // namespace jfa::simulator
