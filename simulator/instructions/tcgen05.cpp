// tcgen05: allocation of tensor memory, fences, copies, shifts and commits. Products: tcgen05_mma.cpp. Loads
// and stores: tcgen05_memory.cpp.
#include "simulator/instructions/tcgen05.h"

#include <fmt/format.h>

#include <bit>

#include "simulator/instruction_table.h"
#include "simulator/instructions/async_address.h"
#include "simulator/machine.h"
#include "simulator/tensor_commit.h"
#include "simulator/tensor_copy.h"
#include "simulator/tensor_memory_state.h"
#include "simulator/tensor_shift.h"

namespace jfa::simulator {
namespace {

CtaTensorMemory::WarpState& state_of(Warp& warp) {
  return warp.cta().extension<CtaTensorMemory>().warp(warp.index());
}

int first_lane(LaneMask active) { return std::countr_zero(active); }

// --- alloc, dealloc, relinquish_alloc_permit: by a whole warp, for cta_group::2 by one in each CTA of the
// pair.

struct AllocWait : Wait {
  AllocWait(TensorMemory& memory_, std::uint32_t columns_) : memory(memory_), columns(columns_) {}
  bool ready() const override { return memory.fits(columns); }
  std::string describe() const override {
    return fmt::format("{} free columns of tensor memory ({})", columns, memory.describe_allocations());
  }
  TensorMemory& memory;
  std::uint32_t columns;
};

struct PeerWait : Wait {
  PeerWait(CtaTensorMemory& peer_, std::uint64_t round_) : peer(peer_), round(round_) {}
  bool ready() const override { return peer.collective_rounds >= round; }
  std::string describe() const override { return "the peer CTA's cta_group::2 instruction on tensor memory"; }
  CtaTensorMemory& peer;
  std::uint64_t round;
};

// For cta_group::2: goes on when the peer has executed as many collective instructions.
Step meet_peer(Warp& warp, int group, const ProgramPoint& point) {
  if (group == 1) return Step::kNext;
  auto& own = warp.cta().extension<CtaTensorMemory>();
  auto& peer = pair_peer(warp.cta(), point).extension<CtaTensorMemory>();
  return warp.wait_for(std::make_unique<PeerWait>(peer, ++own.collective_rounds), Resume::kNext);
}

std::uint32_t uniform(Warp& warp, Slot slot, LaneMask active, const char* name, const ProgramPoint& point) {
  const std::uint32_t* values = warp.lanes<std::uint32_t>(slot);
  const int first = first_lane(active);
  for (int lane = first; lane < kWarpSize; ++lane) {
    if ((active >> lane & 1) != 0 && values[lane] != values[first]) {
      fail(ErrorKind::kInvalidOperand, point,
           fmt::format("{} must be the same in all lanes: lane {} has {:#x}, lane {} has {:#x}", name, first,
                       values[first], lane, values[lane]));
    }
  }
  return values[first];
}

struct AllocData {
  AddressOperand result;
  Slot columns = kNoSlot;
  int group = 1;
  Space space = Space::kGeneric;
};

Step alloc(Warp& warp, const Instruction& instruction, LaneMask active) {
  const auto& data = instruction.data<AllocData>();
  const ProgramPoint point = warp.point(instruction);
  auto& state = warp.cta().extension<CtaTensorMemory>();
  state.check_cta_group(data.group, point);
  const std::uint32_t columns = uniform(warp, data.columns, active, "nCols", point);
  const std::optional<std::uint32_t> first = state.memory().allocate(state.owner(), columns, point);
  if (!first) return warp.wait_for(std::make_unique<AllocWait>(state.memory(), columns), Resume::kRetry);
  state.shadow().forget({0xff, *first, *first + columns});
  const int lane = first_lane(active);
  const std::uint32_t address = TensorAddress(0, *first).bits();
  warp.write(data.space, address_of(warp, data.result, lane), sizeof(address), &address,
             warp.point(instruction, lane));
  return meet_peer(warp, data.group, point);
}

struct DeallocData {
  Slot address = kNoSlot;
  Slot columns = kNoSlot;
  int group = 1;
};

Step dealloc(Warp& warp, const Instruction& instruction, LaneMask active) {
  const auto& data = instruction.data<DeallocData>();
  const ProgramPoint point = warp.point(instruction);
  auto& state = warp.cta().extension<CtaTensorMemory>();
  state.check_cta_group(data.group, point);
  const TensorAddress address(uniform(warp, data.address, active, "taddr", point));
  const std::uint32_t columns = uniform(warp, data.columns, active, "nCols", point);
  if (warp.machine().checks() && address.column + columns <= kTensorColumns) {
    state.shadow().check_free({0xff, address.column, address.column + columns}, "tcgen05.dealloc",
                              state_of(warp).strand, point);
  }
  state.memory().deallocate(state.owner(), address, columns, point);
  return Step::kNext;
}

Step relinquish(Warp& warp, const Instruction& instruction, LaneMask) {
  auto& state = warp.cta().extension<CtaTensorMemory>();
  state.check_cta_group(instruction.small[0], warp.point(instruction));
  state.memory().relinquish(state.owner());
  return Step::kNext;
}

// --- Fences.

Step fence_before(Warp& warp, const Instruction&, LaneMask) {
  warp.cta().extension<CtaTensorMemory>().shadow().fence_before(state_of(warp).strand);
  return Step::kNext;
}

Step fence_after(Warp& warp, const Instruction&, LaneMask active) {
  warp.cta().extension<CtaTensorMemory>().shadow().fence_after(state_of(warp).strand, warp.clock, active);
  return Step::kNext;
}

// --- cp.

struct CopyData {
  TensorCopyShape shape;
  int group = 1;
  AddressOperand to;
  Slot descriptor = kNoSlot;
};

Step copy(Warp& warp, const Instruction& instruction, LaneMask active) {
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
    d.emit(copy).extra = d.attach(data);
  };
  table.add(fmt::format("tcgen05.cp.(cta_group::1|cta_group::2).{}{}.b8x16?.(b6x16_p32|b4x16_p64)?",
                        shape_text, warps),
            decode);
}

// --- shift.

struct ShiftData {
  int group = 1;
  AddressOperand at;
};

Step shift(Warp& warp, const Instruction& instruction, LaneMask active) {
  const auto& data = instruction.data<ShiftData>();
  for_each_lane(warp, instruction, active, [&](int lane, const ProgramPoint& point) {
    issue_tensor_shift(warp, data.group, static_cast<std::uint32_t>(address_of(warp, data.at, lane)), point);
  });
  return Step::kNext;
}

void decode_shift(Decoder& d) {
  d.emit(shift).extra = d.attach(ShiftData{cta_group(d), tensor_address_operand(d, 0)});
}

// --- commit.

struct CommitData {
  AddressOperand barrier;
  Slot mask = kNoSlot;  // CTAs by rank; kNoSlot: the one that the address names
  int group = 1;
};

Step commit(Warp& warp, const Instruction& instruction, LaneMask active) {
  const auto& data = instruction.data<CommitData>();
  Cta& cta = warp.cta();
  for_each_lane(warp, instruction, active, [&](int lane, const ProgramPoint& point) {
    cta.extension<CtaTensorMemory>().check_cta_group(data.group, point);
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
  data.group = cta_group(d);
  data.barrier = d.address(0);
  if (d.has("multicast::cluster")) data.mask = d.source(1, 16);
  d.emit(commit).extra = d.attach(data);
}

}  // namespace

int cta_group(const Decoder& d) { return d.has("cta_group::2") ? 2 : 1; }

AddressOperand tensor_address_operand(Decoder& d, int index) {
  const AddressOperand operand = d.address(index);
  if (operand.base == kNoSlot || operand.is_64_bit) d.fail("a tensor memory address is a 32-bit register");
  return operand;
}

void register_tcgen05(InstructionTable& table) {
  table.add("tcgen05.alloc.(cta_group::1|cta_group::2).sync.aligned.shared::cta?.b32", [](Decoder& d) {
    d.require_converged();
    AllocData data;
    data.group = cta_group(d);
    data.space = d.has("shared::cta") ? Space::kShared : Space::kGeneric;
    data.result = d.address(0);
    data.columns = d.source(1, 32);
    d.emit(alloc).extra = d.attach(data);
  });
  table.add("tcgen05.dealloc.(cta_group::1|cta_group::2).sync.aligned.b32", [](Decoder& d) {
    d.require_converged();
    DeallocData data;
    data.group = cta_group(d);
    data.address = d.source(0, 32);
    data.columns = d.source(1, 32);
    d.emit(dealloc).extra = d.attach(data);
  });
  table.add("tcgen05.relinquish_alloc_permit.(cta_group::1|cta_group::2).sync.aligned", [](Decoder& d) {
    d.require_converged();
    const int group = cta_group(d);
    d.emit(relinquish).small[0] = static_cast<std::uint8_t>(group);
  });
  table.add("tcgen05.fence::before_thread_sync", [](Decoder& d) { d.emit(fence_before); });
  table.add("tcgen05.fence::after_thread_sync", [](Decoder& d) { d.emit(fence_after); });
  add_copy(table, "128x256b", "", {.rows = 128, .row_bytes = 32});
  add_copy(table, "128x128b", "", {.rows = 128, .row_bytes = 16});
  add_copy(table, "64x128b", ".warpx2::02_13",
           {.rows = 64, .row_bytes = 16, .replicas = 2, .replica_step = 2});
  add_copy(table, "64x128b", ".warpx2::01_23",
           {.rows = 64, .row_bytes = 16, .replicas = 2, .group_step = 2, .replica_step = 1});
  add_copy(table, "32x128b", ".warpx4", {.rows = 32, .row_bytes = 16, .replicas = 4, .replica_step = 1});
  add_copy(table, "4x256b", "", {.rows = 4, .row_bytes = 32, .group_rows = 1});
  table.add("tcgen05.shift.(cta_group::1|cta_group::2).down", decode_shift);
  table.add(
      "tcgen05.commit.(cta_group::1|cta_group::2).mbarrier::arrive::one.shared::cluster?.multicast::cluster?."
      "b64",
      decode_commit);
  register_tcgen05_mma(table);
  register_tcgen05_memory(table);
}

}  // namespace jfa::simulator
