// The launches of a forward or a backward on small jagged batches that take every path of the kernels, for
// mutants of them.
#pragma once

#include <string>
#include <vector>

#include "generator/emit.h"
#include "simulator/campaign/recording.h"

namespace jfa::test {

struct AttentionRecording {
  std::string target;
  KernelSource source;
  std::string ptx;
  simulator::Recording recording;
};

/// Forwards: "plain", "window", "pma". Backwards: "backward-self", "backward-groups", "backward-window",
/// "backward-short", whose keys all fit one tile, and with a shared query whose heads fit a tile of 64 rows,
/// of 128, or none: "backward-pma", "backward-pma-128", "backward-pma-many". By CTA pairs, own queries and
/// shared ones: "backward-two-cta", "backward-pma-two-cta".
std::vector<std::string> recorded_configurations();

/// Compiles, runs and records one of them. device_name: a simulated device. Throws jfa::Error.
AttentionRecording record(const std::string& configuration, const std::string& device_name);

}  // namespace jfa::test
