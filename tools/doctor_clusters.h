// What `jfa doctor` finds of clusters of CTAs.
#pragma once

#include <cuda.h>

#include "base/driver_table.h"
#include "tools/doctor.h"

namespace jfa::tools {

/// Asks the driver for GpuFacts::clusters, if the kernels of gpu.target want any.
void examine_clusters(const DriverTable& driver, CUdevice device, GpuFacts& gpu);

}  // namespace jfa::tools
