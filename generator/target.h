// The table of targets. A target is one folder of templates, one plan file, and one row here.
#pragma once

#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

#include "jfa/status.h"

namespace jfa {

struct TargetFamily;  // generator/plan/family.h

/// What NVRTC is asked for. A real architecture has machine code: sm_100f runs on 10.0 and 10.3; the `a`
/// targets on one device generation each. A virtual one has PTX alone, which is what simulated devices run.
enum class Target : std::uint8_t {
  sm_100f,
  sm_100a,
  sm_103a,
  sm_90a,
  compute_100f,
  compute_100a,
  compute_103a,
  compute_90a,
};

struct TargetRow {
  Target target;
  Target virtual_target;  // whose PTX becomes the target's machine code; a virtual one is its own
  std::string_view name;
  const TargetFamily* family;                // the kernels that are built for it
  std::vector<std::pair<int, int>> devices;  // compute capabilities whose default target it is
  std::pair<int, int> oldest_nvrtc;          // version that knows it first, as the release notes have it
};

/// All rows, the default target first.
const std::vector<TargetRow>& target_table();
const TargetRow& row_of(Target target);
/// nullptr if no target has that name.
const TargetRow* find_target(std::string_view name);

std::string_view to_string(Target target);
/// Every target, the default one first, real ones before virtual ones.
std::vector<Target> all_targets();
/// The target of that name, or kInvalidArgument naming it.
Result<Target> parse_target(std::string_view name);
/// The default target of a device of compute capability major.minor; kUnsupported by name for others.
Result<Target> target_for_device(int major, int minor);
bool is_virtual(Target target);
Target virtual_target(Target target);

}  // namespace jfa
