// tcgen05.mma and tcgen05.commit as asynchronous operations.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "simulator/machine.h"
#include "simulator/matrix_descriptor.h"
#include "simulator/mma.h"
#include "simulator/tensor_memory_state.h"

namespace jfa::simulator {

/// The operands of one tcgen05.mma, as one thread passes them.
struct MmaArguments {
  MmaKind kind = MmaKind::kF16;
  int cta_group = 1;
  std::uint32_t d_address = 0;             // tensor memory
  std::optional<std::uint32_t> a_address;  // tensor memory: the TS form
  std::uint64_t a_descriptor = 0;          // shared memory: the SS form
  std::uint64_t b_descriptor = 0;
  std::uint32_t instruction_descriptor = 0;
  bool enable_input_d = false;
  int scale_input_d = 0;  // D enters as D * 2^-scale
  /// Bit i of the concatenated words: lane i of D is not written; lanes 128 … 255 are the odd CTA's.
  std::array<std::uint32_t, 8> disable_output_lane{};
};

/// Checks the operands, puts what the product reads and writes in flight, and hands it to the scheduler.
void issue_mma(Warp& warp, const MmaArguments& arguments, const ProgramPoint& point);

/// Arrives on the mbarriers once all earlier operations of the thread are complete.
void issue_commit(Warp& warp, int thread, std::vector<SharedPlace> barriers, const ProgramPoint& point);

}  // namespace jfa::simulator
