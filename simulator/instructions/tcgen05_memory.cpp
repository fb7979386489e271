// tcgen05.ld and tcgen05.st: a warp moves registers from and to its own quarter of tensor memory.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>

#include "simulator/instructions/tcgen05.h"
#include "simulator/machine/machine.h"
#include "simulator/tensor_core/tensor_memory_shape.h"
#include "simulator/tensor_core/tensor_memory_state.h"

namespace jfa::simulator {
namespace {

struct TransferData {
  TensorShape shape = TensorShape::k32x32b;
  int repetitions = 1;
  bool packed = false;  // .pack::16b or .unpack::16b
  std::uint32_t half_split = 0;
  AddressOperand address;
  std::vector<Slot> registers;
  std::vector<std::uint16_t> watched;  // a load's, in RegisterWatch

  std::uint32_t columns() const {
    return static_cast<std::uint32_t>(repetitions * columns_per_repetition(shape) * (packed ? 2 : 1));
  }
};

constexpr const char *kLoadName = "tcgen05.ld", *kStoreName = "tcgen05.st";

// The address, the same in all lanes, checked against the warp's quarter.
TensorAddress own_address(Warp& warp, const TransferData& data, LaneMask active, bool reads,
                          const ProgramPoint& point) {
  const char* const what = reads ? kLoadName : kStoreName;
  const std::uint32_t* values = warp.lanes<std::uint32_t>(data.address.base);
  const std::uint32_t bits = values[std::countr_zero(active)];
  for (int lane = 0; lane < kWarpSize; ++lane) {
    if ((active >> lane & 1) != 0 && values[lane] != bits) {
      fail(ErrorKind::kInvalidOperand, point,
           fmt::format("the address of {} must be the same in all lanes: {:#x} and {:#x}", what, bits,
                       values[lane]));
    }
  }
  TensorAddress address(bits + static_cast<std::uint32_t>(data.address.displacement));
  const std::uint32_t quarter = static_cast<std::uint32_t>(warp.index() % 4) * 32;
  const bool half_allowed = shape_lanes(data.shape) == 16;
  // The lanes of a load come from the warp, but for the half of them that a small shape takes.
  if (reads && !warp.machine().config().options.load_lanes)
    address.lane = quarter + (half_allowed ? address.lane & 16 : 0);
  if (address.lane != quarter && !(half_allowed && address.lane == quarter + 16)) {
    fail_at(ErrorKind::kTensorMemory, point, address.bits(),
            fmt::format(
                "{} of warp {} at lane {}: it may touch lanes {} to {} only{}", what, warp.index(),
                address.lane, quarter, quarter + 31,
                address.lane / 32 * 32 == quarter ? ", and the shape must start at the first of them" : ""));
  }
  return address;
}

// Puts the cells in flight; 16x32bx2 touches two ranges of columns.
void begin(Warp& warp, const TransferData& data, TensorAddress address, MemoryAccess access, const char* what,
           const ProgramPoint& point) {
  auto& state = warp.cta().extension<CtaTensorMemory>();
  CtaTensorMemory::WarpState& own = state.warp(warp.index());
  const bool reads = access == MemoryAccess::kRead;
  auto& pending = reads ? own.loads : own.stores;
  std::vector<CtaTensorMemory::WarpState::Transfer> begun;
  const auto touch = [&](std::uint32_t first_column) {
    const std::uint32_t blocks = (shape_lanes(data.shape) == 32 ? 3u : 1u)
                                 << address.lane / kTensorBlockLanes;
    const TensorRegion region{blocks, first_column, first_column + data.columns()};
    state.memory().check_allocated(state.owner(), region, what, point);
    const FlightRef flight = state.sm().issue(access, region, what, own.strand, 0, point);
    if (flight.owner != nullptr) begun.push_back({flight, &data.watched});
    if (reads) {
      state.memory().check_initialised(region, what, point);
    } else {
      state.memory().set_initialised(region);
    }
  };
  touch(address.column);
  if (data.shape == TensorShape::k16x32bx2 && data.half_split != 0) touch(address.column + data.half_split);
  pending.insert(pending.end(), begun.begin(), begun.end());
}

// Without RunOptions::load_waits: what a warp uses has been loaded.
void finish_used_loads(Warp& warp, const std::vector<std::uint16_t>& used) {
  auto& state = warp.cta().extension<CtaTensorMemory>();
  std::erase_if(state.warp(warp.index()).loads, [&](const auto& load) {
    const auto& loaded = *load.registers;
    if (std::find_first_of(loaded.begin(), loaded.end(), used.begin(), used.end()) == loaded.end())
      return false;
    load.flight.end(state.wait(warp));
    return true;
  });
}

// Runs in place of instructions that use registers of some load: not before its wait::ld.
Step run_behind_loads(Warp& warp, const Instruction& instruction, LaneMask active) {
  const Entry& entry = warp.machine().entry();
  const RegisterWatch& watch = entry.watch;
  const RegisterWatch::Use& use =
      watch.uses[watch.use_of_pc[static_cast<std::size_t>(&instruction - entry.code.data())]];
  if (!warp.cta().extension<CtaTensorMemory>().warp(warp.index()).loads.empty()) {
    if (!warp.machine().config().options.load_waits) finish_used_loads(warp, use.registers);
    for (const auto& observer : warp.register_observers)
      observer->access_loaded(use.registers, warp.point(instruction));
  }
  return use.handler(warp, instruction, active);
}

// Whether all of a warp's lanes have a lane of tensor memory each, and their registers lie side by side
// there.
bool moves_rows(const TransferData& data, LaneMask active) {
  return data.shape == TensorShape::k32x32b && !data.packed && active == kAllLanes;
}

// Lane after lane: cells of different lanes lie so far apart that they would drive each other from the cache.
void load_rows(Warp& warp, const TransferData& data, TensorMemory& memory, TensorAddress address) {
  for (int lane = 0; lane < kWarpSize; ++lane) {
    const std::uint32_t* cell = memory.lane(address.lane + static_cast<std::uint32_t>(lane)) + address.column;
    for (const Slot slot : data.registers) {
      if (slot != kNoSlot) warp.lanes<std::uint32_t>(slot)[lane] = *cell;
      ++cell;
    }
  }
}

void store_rows(Warp& warp, const TransferData& data, TensorMemory& memory, TensorAddress address) {
  for (int lane = 0; lane < kWarpSize; ++lane) {
    std::uint32_t* cell = memory.lane(address.lane + static_cast<std::uint32_t>(lane)) + address.column;
    for (const Slot slot : data.registers) *cell++ = warp.lanes<std::uint32_t>(slot)[lane];
  }
}

// The registers get their values at once: until wait::ld nobody may look at them or change the cells, so no
// schedule can tell.
Step load_tensor_memory(Warp& warp, const Instruction& instruction, LaneMask active) {
  const auto& data = instruction.data<TransferData>();
  const ProgramPoint point = warp.point(instruction);
  const TensorAddress address = own_address(warp, data, active, /*reads=*/true, point);
  begin(warp, data, address, MemoryAccess::kRead, kLoadName, point);
  for (const auto& observer : warp.register_observers) observer->load(data.watched, point);
  TensorMemory& memory = warp.cta().extension<CtaTensorMemory>().memory();
  if (moves_rows(data, active)) {
    load_rows(warp, data, memory, address);
    return Step::kNext;
  }
  for (std::size_t r = 0; r < data.registers.size(); ++r) {
    if (data.registers[r] == kNoSlot) continue;
    std::uint32_t* values = warp.lanes<std::uint32_t>(data.registers[r]);
    for (int lane = 0; lane < kWarpSize; ++lane) {
      if ((active >> lane & 1) == 0) continue;
      const TensorCell cell =
          register_cell(data.shape, static_cast<int>(r), lane, data.half_split, data.packed);
      const std::uint32_t* cells = memory.lane(address.lane + cell.lane) + address.column + cell.column;
      values[lane] = data.packed ? (cells[0] & 0xffff) | cells[1] << 16 : cells[0];
    }
  }
  return Step::kNext;
}

Step store_tensor_memory(Warp& warp, const Instruction& instruction, LaneMask active) {
  const auto& data = instruction.data<TransferData>();
  const ProgramPoint point = warp.point(instruction);
  const TensorAddress address = own_address(warp, data, active, /*reads=*/false, point);
  begin(warp, data, address, MemoryAccess::kWrite, kStoreName, point);
  TensorMemory& memory = warp.cta().extension<CtaTensorMemory>().memory();
  if (moves_rows(data, active)) {
    store_rows(warp, data, memory, address);
    return Step::kNext;
  }
  for (std::size_t r = 0; r < data.registers.size(); ++r) {
    const std::uint32_t* values = warp.lanes<std::uint32_t>(data.registers[r]);
    for (int lane = 0; lane < kWarpSize; ++lane) {
      if ((active >> lane & 1) == 0) continue;
      const TensorCell cell =
          register_cell(data.shape, static_cast<int>(r), lane, data.half_split, data.packed);
      std::uint32_t* cells = memory.lane(address.lane + cell.lane) + address.column + cell.column;
      if (data.packed) {
        cells[0] = values[lane] & 0xffff;
        cells[1] = values[lane] >> 16;
      } else {
        cells[0] = values[lane];
      }
    }
  }
  return Step::kNext;
}

void finish_transfers(Warp& warp, std::vector<CtaTensorMemory::WarpState::Transfer>& pending) {
  if (pending.empty()) return;
  const Epoch event = warp.cta().extension<CtaTensorMemory>().wait(warp);
  for (const auto& transfer : pending) transfer.flight.end(event);
  pending.clear();
}

Step wait_loads(Warp& warp, const Instruction&, LaneMask) {
  finish_transfers(warp, warp.cta().extension<CtaTensorMemory>().warp(warp.index()).loads);
  for (const auto& observer : warp.register_observers) observer->wait_loads();
  return Step::kNext;
}

Step wait_stores(Warp& warp, const Instruction&, LaneMask) {
  finish_transfers(warp, warp.cta().extension<CtaTensorMemory>().warp(warp.index()).stores);
  return Step::kNext;
}

TransferData decode_tensor_transfer(Decoder& d) {
  struct Shape {
    const char* name;
    TensorShape shape;
    int most_repetitions;
  };
  constexpr std::array kShapes = {
      Shape{"32x32b", TensorShape::k32x32b, 128}, Shape{"16x64b", TensorShape::k16x64b, 128},
      Shape{"16x128b", TensorShape::k16x128b, 64}, Shape{"16x256b", TensorShape::k16x256b, 32},
      Shape{"16x32bx2", TensorShape::k16x32bx2, 128}};
  d.require_converged();
  TransferData data;
  data.packed = d.has("pack::16b") || d.has("unpack::16b");
  const std::string_view count = d.modifier(4);  // x1 … x128
  std::from_chars(count.data() + 1, count.data() + count.size(), data.repetitions);
  for (const Shape& shape : kShapes) {
    if (d.modifier(3) != shape.name) continue;
    data.shape = shape.shape;
    if (data.repetitions > shape.most_repetitions) {
      d.fail(fmt::format(".{} goes up to .x{} with shape .{}", count, shape.most_repetitions, shape.name));
    }
  }
  return data;
}

// Operand `index` is immHalfSplitoff, which only and always 16x32bx2 has.
void decode_half_split(Decoder& d, TransferData& data, int index, bool present) {
  const bool wanted = data.shape == TensorShape::k16x32bx2;
  if (wanted != present)
    d.fail(wanted ? "immHalfSplitoff is missing" : "immHalfSplitoff is for shape .16x32bx2");
  if (present) data.half_split = static_cast<std::uint32_t>(d.immediate(index));
}

void check_registers(Decoder& d, const TransferData& data) {
  const auto wanted = static_cast<std::size_t>(data.repetitions * registers_per_repetition(data.shape));
  if (data.registers.size() != wanted) {
    d.fail(fmt::format("{} registers in the vector, the shape moves {}", data.registers.size(), wanted));
  }
}

}  // namespace

void register_tcgen05_memory(InstructionTable& table) {
  const std::string shapes = ".(32x32b|16x64b|16x128b|16x256b|16x32bx2).(x1|x2|x4|x8|x16|x32|x64|x128)";
  table.add("tcgen05.ld.sync.aligned" + shapes + ".pack::16b?.b32", [](Decoder& d) {
    TransferData data = decode_tensor_transfer(d);
    data.registers = d.vector_destination(0, 32);
    data.watched = d.watch(0, run_behind_loads);
    data.address = tensor_address_operand(d, 1);
    decode_half_split(d, data, 2, d.count() == 3);
    check_registers(d, data);
    d.emit(load_tensor_memory).extra = d.attach(std::move(data));
  });
  table.add("tcgen05.st.sync.aligned" + shapes + ".unpack::16b?.b32", [](Decoder& d) {
    TransferData data = decode_tensor_transfer(d);
    data.address = tensor_address_operand(d, 0);
    const bool split = d.count() == 3;
    decode_half_split(d, data, 1, split);
    data.registers = d.vector_source(split ? 2 : 1, 32);
    check_registers(d, data);
    d.emit(store_tensor_memory).extra = d.attach(std::move(data));
  });
  table.add("tcgen05.wait::ld.sync.aligned",
            [](Decoder& d) {
              d.require_converged();
              d.emit(wait_loads);
            },
            {.synchronises = {{"tcgen05.wait::ld"}}});
  table.add("tcgen05.wait::st.sync.aligned",
            [](Decoder& d) {
              d.require_converged();
              d.emit(wait_stores);
            },
            {.synchronises = {{"tcgen05.wait::st"}}});
}

}  // namespace jfa::simulator
