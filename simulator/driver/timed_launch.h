// A launch that was recorded on a simulated device with timing=1.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "base/driver_table.h"
#include "simulator/machine/recorder.h"

namespace jfa::simulator::timing {

struct TimedLaunch {
  const Entry* entry = nullptr;  // lives as long as its library
  Dim3 grid, block, cluster;
  std::map<std::uint32_t, RecordedCta> ctas;  // the first ones of the grid, one an SM
};

/// Whether it is a simulated device with timing=1.
bool times_launches(const DriverTable* table);
/// What a device with timing=1 has launched since the last call. Empty for other tables. Thread-safe.
std::vector<TimedLaunch> take_timed_launches(const DriverTable* table);

}  // namespace jfa::simulator::timing
