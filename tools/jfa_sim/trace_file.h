// A run's events as Chrome's trace format, which Perfetto shows: ui.perfetto.dev.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "simulator/machine/trace.h"

namespace jfa::sim {

/// {"traceEvents": […]}: a process for each CTA, a thread for each of its warps, engines and mbarriers; one
/// warp instruction of the grid is shown as a microsecond.
nlohmann::json to_chrome_trace(const simulator::Trace& trace);

}  // namespace jfa::sim
