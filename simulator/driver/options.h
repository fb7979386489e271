// The name of a simulated device and the options in it.
#pragma once

#include <string>

#include "base/status.h"
#include "simulator/machine/launch.h"
#include "simulator/ptx/target.h"

namespace jfa::simulator {

struct DeviceOptions {
  std::string name;         ///< as given: "sim:sm_100a?sms=4"
  std::string target_name;  ///< "sm_90a", "sm_100a", or "sm_100f": a device that runs family images only
  Target target;
  RunOptions run;
  bool timing = false;  ///< its launches are recorded for the timing model
};

/// Parses "sim:<target>[?option=value[&option=value…]]", options as in driver_table.h. Errors name the
/// target, or the option and its value.
Result<DeviceOptions> parse_device_name(const std::string& name);

}  // namespace jfa::simulator
