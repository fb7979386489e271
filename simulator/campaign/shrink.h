// Makes a failing schedule small: which of its choices does the failure need?
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "base/status.h"
#include "simulator/campaign/recording.h"

namespace jfa::simulator {

struct ShrinkLimits {
  std::size_t runs = 400;
  double seconds = 20;
};

struct ShrunkSchedule {
  bool replayable = false;  ///< false: the choices alone do not bring the failure back (eager, lazy)
  std::vector<Choice> choices;
  std::size_t recorded = 0;  ///< choices of the failing run
  std::size_t runs = 0;      ///< that it took
};

/// Runs the recording on `failing`, whose run ends with `report`, notes its choices, and leaves out as many
/// as it can so that a launch still fails with a report of the same kind at the same instruction. Errors:
/// those of replay(); kInternal if the run does not fail.
Result<ShrunkSchedule> shrink(const std::string& ptx, const Recording& recording, const RunOptions& failing,
                              const ShrinkLimits& limits = {});

}  // namespace jfa::simulator
