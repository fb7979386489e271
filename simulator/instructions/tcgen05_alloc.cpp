// tcgen05.alloc, dealloc, relinquish_alloc_permit: by a whole warp, for cta_group::2 by one in each CTA of
// the pair.
#include <fmt/format.h>

#include <bit>

#include "simulator/instructions/async_address.h"
#include "simulator/instructions/tcgen05.h"
#include "simulator/machine/machine.h"
#include "simulator/tensor_core/tensor_memory_state.h"
#include "simulator/tensor_core/tensor_pair.h"

namespace jfa::simulator {
namespace {

struct AllocWait : Wait {
  AllocWait(TensorMemory& memory_, std::uint32_t columns_) : memory(memory_), columns(columns_) {}
  bool ready() const override { return memory.fits(columns); }
  std::string describe() const override {
    return fmt::format("{} free columns of tensor memory ({})", columns, memory.describe_allocations());
  }
  TensorMemory& memory;
  std::uint32_t columns;
};

TensorPair& pair_of(Warp& warp, const ProgramPoint& point) {
  return warp.cta().cluster().extension<TensorPairs>().of(warp.cta(), point);
}

Step behind(Warp& warp, std::unique_ptr<Wait> wait) {
  return wait == nullptr ? Step::kNext : warp.wait_for(std::move(wait), Resume::kNext);
}

int first_lane(LaneMask active) { return std::countr_zero(active); }

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
  const std::uint32_t columns = uniform(warp, data.columns, active, "nCols", point);
  std::optional<std::uint32_t> first;
  if (data.group == 2) {
    TensorPair& pair = pair_of(warp, point);
    first = pair.allocate(warp, columns, point);
    if (!first) return warp.wait_for(pair.wait_to_allocate(warp), Resume::kRetry);
  } else {
    first = state.memory().allocate(state.owner(), columns, point);
    if (!first) return warp.wait_for(std::make_unique<AllocWait>(state.memory(), columns), Resume::kRetry);
    state.sm().allocate({0xff, *first, *first + columns});
  }
  const int lane = first_lane(active);
  const std::uint32_t address = TensorAddress(0, *first).bits();
  warp.write(data.space, address_of(warp, data.result, lane), sizeof(address), &address,
             warp.point(instruction, lane));
  return Step::kNext;
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
  const TensorAddress address(uniform(warp, data.address, active, "taddr", point));
  const std::uint32_t columns = uniform(warp, data.columns, active, "nCols", point);
  if (data.group == 2) return behind(warp, pair_of(warp, point).deallocate(warp, address, columns, point));
  if (address.column + columns <= kTensorColumns) {
    state.sm().check_free({0xff, address.column, address.column + columns}, "tcgen05.dealloc",
                          state.warp(warp.index()).strand, point);
  }
  state.memory().deallocate(state.owner(), address, columns, point);
  return Step::kNext;
}

Step relinquish(Warp& warp, const Instruction& instruction, LaneMask) {
  const ProgramPoint point = warp.point(instruction);
  if (instruction.small[0] == 2) return behind(warp, pair_of(warp, point).relinquish(warp, point));
  auto& state = warp.cta().extension<CtaTensorMemory>();
  state.memory().relinquish(state.owner());
  return Step::kNext;
}

}  // namespace

void register_tcgen05_alloc(InstructionTable& table) {
  table.add("tcgen05.alloc.(cta_group::1|cta_group::2).sync.aligned.shared::cta?.b32", [](Decoder& d) {
    d.require_converged();
    AllocData data;
    data.group = cta_group(d);
    data.space = d.has("shared::cta") ? Space::kShared : Space::kGeneric;
    data.result = d.address(0);
    data.columns = d.source(1, 32);
    d.emit(alloc).extra = d.attach(data);
  });
  table.add("tcgen05.dealloc.(cta_group::1|cta_group::2).sync.aligned.b32",
            [](Decoder& d) {
              d.require_converged();
              DeallocData data;
              data.group = cta_group(d);
              data.address = d.source(0, 32);
              data.columns = d.source(1, 32);
              d.emit(dealloc).extra = d.attach(data);
            },
            {.synchronises = {{"tcgen05.dealloc"}}});
  table.add("tcgen05.relinquish_alloc_permit.(cta_group::1|cta_group::2).sync.aligned",
            [](Decoder& d) {
              d.require_converged();
              const int group = cta_group(d);
              d.emit(relinquish).small[0] = static_cast<std::uint8_t>(group);
            },
            {.synchronises = {{"tcgen05.relinquish"}}});
}

}  // namespace jfa::simulator
