// A plan becomes one self-contained CUDA text. Pure: same plan, same bytes.
#pragma once

#include <string>
#include <vector>

#include "generator/plan.h"

namespace jfa {

struct KernelSource {
  KernelSpec spec;                   // what it was emitted for, with
  Tuning tuning;                     // what differs from the defaults
  std::string name;                  // name(plan), for people
  std::string text;                  // includes nothing; compiles alone with nvcc and NVRTC
  std::string target;                // "sm_100f", "compute_100f"
  std::vector<std::string> options;  // of NVRTC, without the architecture
  std::vector<std::string> entries;  // names of the extern "C" kernels
};

/// line_info: ask the compiler for line information, as profilers and compute-sanitizer want it; the machine
/// code is the same. A virtual target has it always: the simulator's reports name source lines.
KernelSource emit(const KernelPlan& plan, bool line_info = false);
bool has_line_info(const KernelSource& source);

/// The source of a specialisation. Errors: of plan().
Result<KernelSource> source_of(const KernelSpec& spec, const Tuning& tuning = {}, bool line_info = false);

}  // namespace jfa
