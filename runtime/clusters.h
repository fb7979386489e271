// How many clusters of CTAs a device holds at once. That is the driver's to say: multiprocessors that share
// too little with others, as in a slice of a GPU, have none.
#pragma once

#include <cuda.h>

#include "base/driver_table.h"
#include "generator/plan.h"
#include "jfa/attention.h"

namespace jfa {

/// Of a loaded entry whose plan has clusters; 0: the device cannot place one. The device's context is
/// current.
CUresult count_clusters(const DriverTable& driver, CUfunction function, const EntryPlan& entry,
                        int* clusters);

/// The same of an entry that is not loaded, by its threads and shared memory: asks for an empty kernel in its
/// place, which the driver compiles. Errors: kDevice names the call that failed.
Result<int> placeable_clusters(const DriverTable& driver, CUdevice device, const EntryPlan& entry);

}  // namespace jfa
