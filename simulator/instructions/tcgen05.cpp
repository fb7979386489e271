// tcgen05: fences, copies, shifts and commits. Allocation of tensor memory: tcgen05_alloc.cpp. Products:
// tcgen05_mma.cpp. Loads and stores: tcgen05_memory.cpp.
#include "simulator/instructions/tcgen05.h"

#include <fmt/format.h>

#include "simulator/decode/instruction_table.h"
#include "simulator/instructions/async_address.h"
#include "simulator/machine/machine.h"
#include "simulator/tensor_core/tensor_commit.h"
#include "simulator/tensor_core/tensor_copy.h"
#include "simulator/tensor_core/tensor_memory_state.h"
#include "simulator/tensor_core/tensor_shift.h"

namespace jfa::simulator {
namespace {

CtaTensorMemory::WarpState& state_of(Warp& warp) {
  return warp.cta().extension<CtaTensorMemory>().warp(warp.index());
}

// --- Fences.

Step fence_before(Warp& warp, const Instruction&, LaneMask) {
  warp.cta().extension<CtaTensorMemory>().sm().fence_before(state_of(warp).strand);
  return Step::kNext;
}

Step fence_after(Warp& warp, const Instruction&, LaneMask active) {
  warp.cta().extension<CtaTensorMemory>().sm().fence_after(state_of(warp).strand, warp, active);
  return Step::kNext;
}

// --- cp.

struct CopyData {
  TensorCopyShape shape;
  int group = 1;
  AddressOperand to;
  Slot descriptor = kNoSlot;
};

Step copy_to_tensor_memory(Warp& warp, const Instruction& instruction, LaneMask active) {
  const auto& data = instruction.data<CopyData>();
  for_each_lane(warp, instruction, active, [&](int lane, const ProgramPoint& point) {
    issue_tensor_copy(warp, data.shape, data.group,
                      static_cast<std::uint32_t>(address_of(warp, data.to, lane)),
                      warp.lanes<std::uint64_t>(data.descriptor)[lane], point);
  });
  return Step::kNext;
}

// Of an element in shared memory: 8, unless it is unpacked on the way.
std::uint32_t source_bits(Decoder& d) {
  const std::string_view source = d.first_of({"b6x16_p32", "b4x16_p64"});
  if (d.has("b8x16") == source.empty()) d.fail(".b8x16 and the format that becomes it go together");
  return source.empty() ? 8 : source == "b6x16_p32" ? 6 : 4;
}

// `warps`, those that share a copy, has its dot.
void add_copy(InstructionTable& table, const std::string& shape_text, const std::string& warps,
              const TensorCopyShape& shape) {
  const auto decode = [shape](Decoder& d) {
    CopyData data;
    data.shape = shape;
    data.shape.source_bits = source_bits(d);
    data.group = cta_group(d);
    data.to = tensor_address_operand(d, 0);
    data.descriptor = d.source(1, 64);
    d.emit(copy_to_tensor_memory).extra = d.attach(data);
  };
  table.add(fmt::format("tcgen05.cp.(cta_group::1|cta_group::2).{}{}.b8x16?.(b6x16_p32|b4x16_p64)?",
                        shape_text, warps),
            decode, {.engine = Engine::kTensorCore});
}

// --- shift.

struct ShiftData {
  int group = 1;
  AddressOperand at;
};

Step shift_tensor_memory(Warp& warp, const Instruction& instruction, LaneMask active) {
  const auto& data = instruction.data<ShiftData>();
  for_each_lane(warp, instruction, active, [&](int lane, const ProgramPoint& point) {
    issue_tensor_shift(warp, data.group, static_cast<std::uint32_t>(address_of(warp, data.at, lane)), point);
  });
  return Step::kNext;
}

void decode_tensor_shift(Decoder& d) {
  d.emit(shift_tensor_memory).extra = d.attach(ShiftData{cta_group(d), tensor_address_operand(d, 0)});
}

// --- commit.

struct CommitData {
  AddressOperand barrier;
  Slot mask = kNoSlot;  // CTAs by rank; kNoSlot: the one that the address names
};

Step commit_tcgen05(Warp& warp, const Instruction& instruction, LaneMask active) {
  const auto& data = instruction.data<CommitData>();
  Cta& cta = warp.cta();
  for_each_lane(warp, instruction, active, [&](int lane, const ProgramPoint& point) {
    const SharedPlace place = shared_place_of(warp, data.barrier, lane, point);
    std::vector<SharedPlace> barriers{place};
    if (data.mask != kNoSlot) {
      barriers.clear();
      const std::uint32_t mask = warp.lanes<std::uint32_t>(data.mask)[lane] & 0xffff;
      for (std::uint32_t rank = 0; rank < 16; ++rank) {
        if ((mask >> rank & 1) == 0) continue;
        Cta* target = cta.cluster().cta(rank);
        if (target == nullptr) {
          fail(ErrorKind::kInvalidOperand, point,
               fmt::format("multicast mask {:#06x} names rank {} of a cluster of {} CTAs", mask, rank,
                           cta.cluster().size()));
        }
        barriers.push_back({target, place.offset});
      }
      if (barriers.empty())
        fail(ErrorKind::kInvalidOperand, point, "the multicast mask of tcgen05.commit is empty");
    }
    issue_commit(warp, warp.thread(lane), std::move(barriers), point);
  });
  return Step::kNext;
}

void decode_commit(Decoder& d) {
  CommitData data;
  cta_group(d);
  data.barrier = d.address(0);
  if (d.has("multicast::cluster")) data.mask = d.source(1, 16);
  d.emit(commit_tcgen05).extra = d.attach(data);
}

}  // namespace

int cta_group(Decoder& d) {
  const int group = d.has("cta_group::2") ? 2 : 1;
  d.use_cta_group(group);
  return group;
}

AddressOperand tensor_address_operand(Decoder& d, int index) {
  const AddressOperand operand = d.address(index);
  if (operand.base == kNoSlot || operand.is_64_bit) d.fail("a tensor memory address is a 32-bit register");
  return operand;
}

void register_tcgen05(InstructionTable& table) {
  table.set_need(TargetNeed::kBlackwell);
  table.add("tcgen05.fence::before_thread_sync", [](Decoder& d) { d.emit(fence_before); },
            {.synchronises = {{"tcgen05.fence::before"}}});
  table.add("tcgen05.fence::after_thread_sync", [](Decoder& d) { d.emit(fence_after); },
            {.synchronises = {{"tcgen05.fence::after"}}});
  add_copy(table, "128x256b", "", {.rows = 128, .row_bytes = 32});
  add_copy(table, "128x128b", "", {.rows = 128, .row_bytes = 16});
  add_copy(table, "64x128b", ".warpx2::02_13",
           {.rows = 64, .row_bytes = 16, .replicas = 2, .replica_step = 2});
  add_copy(table, "64x128b", ".warpx2::01_23",
           {.rows = 64, .row_bytes = 16, .replicas = 2, .group_step = 2, .replica_step = 1});
  add_copy(table, "32x128b", ".warpx4", {.rows = 32, .row_bytes = 16, .replicas = 4, .replica_step = 1});
  add_copy(table, "4x256b", "", {.rows = 4, .row_bytes = 32, .group_rows = 1});
  table.add("tcgen05.shift.(cta_group::1|cta_group::2).down", decode_tensor_shift,
            {.needs = {{TargetNeed::kBlackwellExact}}, .engine = Engine::kTensorCore});
  table.add(
      "tcgen05.commit.(cta_group::1|cta_group::2).mbarrier::arrive::one.shared::cluster?.multicast::cluster?."
      "b64",
      decode_commit, {.engine = Engine::kCommit, .synchronises = {{"tcgen05.commit"}}});
  register_tcgen05_alloc(table);
  register_tcgen05_mma(table);
  register_tcgen05_memory(table);
  table.set_need(TargetNeed::kNothing);
}

}  // namespace jfa::simulator
