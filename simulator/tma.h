// The TMA engine: tensor boxes between global and shared memory.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "simulator/bulk_copy.h"
#include "simulator/bulk_copy_reduction.h"
#include "simulator/machine.h"
#include "simulator/tensor_map_box.h"

namespace jfa::simulator {

struct TensorBox {
  TensorMap map;
  BoxCoordinates coordinates{};
};

/// Starts cp.async.bulk.tensor into one or, multicast, several CTAs. Throws what the hardware faults on, and
/// what is in flight at the destinations.
void start_tensor_load(Machine& machine, const TensorBox& box,
                       const std::vector<BulkDestination>& destinations, const ProgramPoint& point);

/// Starts a store, or with an op a reduction, from shared memory of `cta`, in the open bulk group of the
/// point's thread.
void start_tensor_store(Machine& machine, const TensorBox& box, Cta& cta, std::uint32_t offset,
                        std::optional<ReductionOp> reduction, const ProgramPoint& point);

}  // namespace jfa::simulator
