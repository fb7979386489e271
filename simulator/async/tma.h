// The TMA engine: tensor boxes between global and shared memory.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "simulator/async/bulk_copy.h"
#include "simulator/async/bulk_copy_reduction.h"
#include "simulator/async/tensor_map_box.h"
#include "simulator/machine/machine.h"

namespace jfa::simulator {

inline constexpr std::size_t kGatheredRows = 4;

struct TensorBox {
  TensorMap map;
  BoxCoordinates coordinates{};
  /// .tile::gather4 and .tile::scatter4: the positions of the box's four rows along dimension 1. The map has
  /// been made one of four rows.
  std::optional<std::array<std::int32_t, kGatheredRows>> gathered;

  template <class Visit>
  void for_each_row(Visit&& visit) const {
    for_each_box_row(map, coordinates, visit, gathered ? gathered->data() : nullptr);
  }
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
