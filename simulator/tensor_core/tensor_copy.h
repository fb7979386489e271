// tcgen05.cp: from shared memory to tensor memory, in the order of issue before products of the same thread.
#pragma once

#include <cstdint>

#include "simulator/machine/machine.h"

namespace jfa::simulator {

/// What a copy moves: `rows` rows of `row_bytes`, of which each group of `group_rows` goes to the first lanes
/// of `replicas` quarters of 32 lanes: group g to quarter g * group_step, and then every replica_step
/// quarters.
struct TensorCopyShape {
  std::uint32_t rows = 128;
  std::uint32_t row_bytes = 32;
  std::uint32_t replicas = 1;
  std::uint32_t group_step = 1;
  std::uint32_t replica_step = 0;
  std::uint32_t group_rows = 32;
  std::uint32_t source_bits = 8;  ///< of an element: 4 or 6 are put into a byte each, 16 of every 16 bytes

  std::uint32_t columns() const { return row_bytes / 4; }
  /// Shape 4x256b: a lane of every quarter, whichever the address says.
  bool is_refresh() const { return group_rows == 1; }
};

/// Starts a copy. descriptor: a K-major matrix descriptor of rows of bytes. Throws like issue_mma, and
/// kTensorMemory for an address that is not of lane 0, or for a refresh not of the first quarter.
void issue_tensor_copy(Warp& warp, const TensorCopyShape& shape, int cta_group, std::uint32_t address,
                       std::uint64_t descriptor, const ProgramPoint& point);

}  // namespace jfa::simulator
