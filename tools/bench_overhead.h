// What a call of forward() costs on the host.
#pragma once

#include "jfa/attention.h"

namespace jfa::tools {

/// Medians over many calls, in microseconds of host time.
struct Overhead {
  double with_workspace_us = 0;  // forward() with the caller's workspace
  double with_pool_us = 0;       // forward() with a workspace from the library's pool
  double bare_us = 0;            // the same tensor-map encodings and launches, straight to the driver
};

/// Measures a small attention, so that the device is never behind.
Result<Overhead> measure_overhead(Device& device);

}  // namespace jfa::tools
