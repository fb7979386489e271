// The forward's launches on small jagged batches that take every path of the kernel, for mutants of it.
#pragma once

#include <string>
#include <vector>

#include "simulator/recording.h"

namespace jfa::test {

struct ForwardRecording {
  std::string target;
  std::string source;  // the CUDA text
  std::string ptx;
  simulator::Recording recording;
};

/// "plain", "window", "pma".
std::vector<std::string> recorded_configurations();

/// Compiles, runs and records one of them. device_name: a simulated device. Throws jfa::Error.
ForwardRecording record_forward(const std::string& configuration, const std::string& device_name);

}  // namespace jfa::test
