// tcgen05.cp: from shared memory to tensor memory, in the order of issue before products of the same thread.
#pragma once

#include <cstdint>

#include "simulator/machine.h"

namespace jfa::simulator {

/// What a copy moves: `rows` rows of `row_bytes`, of which each group of 32 goes to `replicas` groups of 32
/// lanes: group g to g * group_step, and then every replica_step groups.
struct TensorCopyShape {
  std::uint32_t rows = 128;
  std::uint32_t row_bytes = 32;
  std::uint32_t replicas = 1;
  std::uint32_t group_step = 1;
  std::uint32_t replica_step = 0;

  std::uint32_t columns() const { return row_bytes / 4; }
};

/// Starts a copy. descriptor: a K-major matrix descriptor of rows of bytes. Throws like issue_mma.
void issue_tensor_copy(Warp& warp, const TensorCopyShape& shape, int cta_group, std::uint32_t address,
                       std::uint64_t descriptor, const ProgramPoint& point);

}  // namespace jfa::simulator
