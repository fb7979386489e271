// ld, st and ldu: every space, vectors, and the hints around them.
#include <cstring>

#include "simulator/instructions/lanes.h"
#include "simulator/instructions/scope.h"
#include "simulator/machine/recorder.h"

namespace jfa::simulator {
namespace {

/// What a load or store moves: `count` elements of one type, side by side in memory.
struct Access {
  Space space = Space::kGeneric;
  AddressOperand address;
  std::vector<Slot> slots;
  int element_bytes = 4;
  MemoryOrder order;
  bool polls = false;  // a strong load: a loop around it may wait for another thread
};

// Addresses of all lanes; inactive ones are garbage.
void find_addresses(Warp& warp, const Access& a, u64 (&addresses)[kWarpSize]) {
  const auto displacement = static_cast<u64>(a.address.displacement);
  if (a.address.is_64_bit) {
    const auto* base = warp.lanes<u64>(a.address.base);
    for (int i = 0; i < kWarpSize; ++i) addresses[i] = base[i] + displacement;
  } else {
    const auto* base = warp.lanes<u32>(a.address.base);
    for (int i = 0; i < kWarpSize; ++i) addresses[i] = static_cast<u32>(base[i] + displacement);
  }
}

// For the timing model: which banks of shared memory the lanes want.
template <Space space>
void record(Warp& warp, const Instruction& in, LaneMask active, const u64 (&addresses)[kWarpSize],
            u32 bytes) {
  if constexpr (space == Space::kShared || space == Space::kSharedCluster)
    if (timing::Recorder* recorder = warp.machine().recorder())
      recorder->accesses_shared(warp.point(in), active, addresses, bytes, space == Space::kSharedCluster);
}

// Host memory behind one lane's address; the frequent spaces without a detour.
template <Space space>
std::byte* locate(Warp& warp, u64 address, u32 bytes, bool write, const ProgramPoint& point,
                  const MemoryOrder& order) {
  if constexpr (space == Space::kShared) {
    Cta& cta = warp.cta();
    if (address >> kSharedRankShift == cta.rank()) {
      const u32 offset = static_cast<u32>(address) & kSharedOffsetMask;
      SharedMemory& shared = cta.shared();
      if (write)
        shared.check_write(offset, bytes, point, order);
      else
        shared.check_read(offset, bytes, point, order);
      return shared.data(offset);
    }
  }
  if constexpr (space == Space::kGlobal)
    if (address < kSharedWindow) return warp.locate_global(address, bytes, write, point, order);
  return warp.locate(space, address, bytes, write, point, order);
}

template <Space space, class T>
Step load(Warp& warp, const Instruction& in, LaneMask active) {
  const auto& a = in.data<Access>();
  u64 addresses[kWarpSize];
  find_addresses(warp, a, addresses);
  const std::size_t count = a.slots.size();
  const u32 bytes = static_cast<u32>(sizeof(T) * count);
  record<space>(warp, in, active, addresses, bytes);
  ProgramPoint point = warp.point(in);
  for (int i = 0; i < kWarpSize; ++i) {
    if (!(active >> i & 1)) continue;
    point.lane = i;
    const std::byte* from = locate<space>(warp, addresses[i], bytes, false, point, a.order);
    for (std::size_t k = 0; k < count; ++k) {
      T value;
      std::memcpy(&value, from + k * sizeof(T), sizeof(T));
      if (a.slots[k] != kNoSlot) Lane<T>::at(warp, a.slots[k])[i] = value;
    }
  }
  return a.polls ? Step::kYield : Step::kNext;
}

template <Space space, class T>
Step store(Warp& warp, const Instruction& in, LaneMask active) {
  const auto& a = in.data<Access>();
  u64 addresses[kWarpSize];
  find_addresses(warp, a, addresses);
  const std::size_t count = a.slots.size();
  const u32 bytes = static_cast<u32>(sizeof(T) * count);
  record<space>(warp, in, active, addresses, bytes);
  ProgramPoint point = warp.point(in);
  for (int i = 0; i < kWarpSize; ++i) {
    if (!(active >> i & 1)) continue;
    point.lane = i;
    std::byte* to = locate<space>(warp, addresses[i], bytes, true, point, a.order);
    for (std::size_t k = 0; k < count; ++k) {
      const auto value = static_cast<T>(Lane<T>::at(warp, a.slots[k])[i]);
      std::memcpy(to + k * sizeof(T), &value, sizeof(T));
    }
  }
  return Step::kNext;
}

// 128-bit registers: two halves.
template <Space space, bool writes>
Step move_128(Warp& warp, const Instruction& in, LaneMask active) {
  const auto& a = in.data<Access>();
  u64 addresses[kWarpSize];
  find_addresses(warp, a, addresses);
  record<space>(warp, in, active, addresses, 16);
  ProgramPoint point = warp.point(in);
  for (int i = 0; i < kWarpSize; ++i) {
    if (!(active >> i & 1)) continue;
    point.lane = i;
    std::byte* memory = locate<space>(warp, addresses[i], 16, writes, point, a.order);
    u64* low = warp.lanes<u64>(a.slots[0]) + i;
    u64* high = low + kWarpSize;
    if (writes) {
      std::memcpy(memory, low, 8);
      std::memcpy(memory + 8, high, 8);
    } else {
      std::memcpy(low, memory, 8);
      std::memcpy(high, memory + 8, 8);
    }
  }
  return Step::kNext;
}

template <Space space>
Handler handler_for(int bytes, bool writes) {
  switch (bytes) {
    case 1:
      return writes ? store<space, u8> : load<space, u8>;
    case 2:
      return writes ? store<space, u16> : load<space, u16>;
    case 4:
      return writes ? store<space, u32> : load<space, u32>;
    case 8:
      return writes ? store<space, u64> : load<space, u64>;
    default:
      return writes ? move_128<space, true> : move_128<space, false>;
  }
}

Handler handler_for(Space space, int bytes, bool writes) {
  switch (space) {
    case Space::kGeneric:
      return handler_for<Space::kGeneric>(bytes, writes);
    case Space::kGlobal:
    case Space::kConst:
      return handler_for<Space::kGlobal>(bytes, writes);
    case Space::kShared:
      return handler_for<Space::kShared>(bytes, writes);
    case Space::kSharedCluster:
      return handler_for<Space::kSharedCluster>(bytes, writes);
    case Space::kLocal:
      return handler_for<Space::kLocal>(bytes, writes);
    case Space::kParam:
      return handler_for<Space::kParam>(bytes, writes);
  }
  return nullptr;
}

Space space_of(Decoder& d) {
  if (d.has("global")) return Space::kGlobal;
  if (d.has("const")) return Space::kConst;
  if (d.has("shared") || d.has("shared::cta")) return Space::kShared;
  if (d.has("shared::cluster")) return Space::kSharedCluster;
  if (d.has("local")) return Space::kLocal;
  if (d.has("param") || d.has("param::entry")) return Space::kParam;
  return Space::kGeneric;
}

void decode_access(Decoder& d, bool writes) {
  Access a;
  a.space = space_of(d);
  const std::string_view type = d.first_of({"b8", "u8", "s8", "b16", "u16", "s16", "b32", "u32", "s32", "f32",
                                            "b64", "u64", "s64", "f64", "b128"});
  const int bits = std::stoi(std::string(type.substr(1)));
  a.element_bytes = bits / 8;
  a.order.strong = !d.first_of({"volatile", "relaxed", "acquire", "release", "mmio"}).empty();
  a.order.acquires = d.has("acquire");
  a.order.releases = d.has("release");
  a.order.scope = scope_of(d);
  a.polls = !writes && a.order.strong;
  const int address = writes ? 0 : 1, value = writes ? 1 : 0;
  a.address = d.address(address);
  if (a.space == Space::kParam && d.is_call_parameter(address)) a.space = Space::kLocal;
  const std::string_view vector = d.first_of({"v2", "v4", "v8"});
  const int count = vector.empty() ? 1 : vector[1] - '0';
  if (count * bits > 256) d.fail("a vector of more than 256 bits");
  a.slots = writes ? d.vector_source(value, bits) : d.vector_destination(value, bits, type[0] == 's');
  if (static_cast<int>(a.slots.size()) != count)
    d.fail("a vector of " + std::to_string(a.slots.size()) + " registers, expected " + std::to_string(count));
  if (d.has("L2::cache_hint")) d.source(2, 64);
  const Handler handler = handler_for(a.space, a.element_bytes, writes);
  const Access* data = d.attach(std::move(a));
  d.emit(handler).extra = data;
}

// st.bulk [address], bytes, 0.
struct Clear {
  Space space = Space::kGeneric;
  AddressOperand address;
  Slot bytes = kNoSlot;
};

Step clear(Warp& warp, const Instruction& in, LaneMask active) {
  const auto& c = in.data<Clear>();
  for (int i = 0; i < kWarpSize; ++i) {
    if (!(active >> i & 1)) continue;
    const ProgramPoint point = warp.point(in, i);
    const u64 bytes = warp.lanes<u64>(c.bytes)[i];
    if (bytes % 8 != 0 || bytes > kSharedBytesPerSm)
      fail(ErrorKind::kInvalidOperand, point,
           "st.bulk of " + std::to_string(bytes) + " bytes: a multiple of 8 within shared memory");
    const u64 base =
        c.address.is_64_bit ? warp.lanes<u64>(c.address.base)[i] : warp.lanes<u32>(c.address.base)[i];
    const u64 zero = 0;
    for (u64 at = 0; at < bytes; at += 8)
      warp.write(c.space, base + static_cast<u64>(c.address.displacement) + at, 8, &zero, point);
  }
  return Step::kNext;
}

void decode_clear(Decoder& d) {
  Clear c{space_of(d), d.address(0), d.source(1, 64)};
  if (d.immediate(2) != 0) d.fail("st.bulk writes zeros");
  d.emit(clear).extra = d.attach(c);
}

}  // namespace

void register_memory(InstructionTable& t) {
  const std::string space = " .(global|shared|shared::cta|shared::cluster|local|param|param::entry|const)? ";
  const std::string hints =
      " .(L1::evict_normal|L1::evict_unchanged|L1::evict_first|L1::evict_last|L1::no_allocate)?"
      " .(L2::evict_normal|L2::evict_first|L2::evict_last)? .L2::cache_hint? .(L2::64B|L2::128B|L2::256B)? ";
  const std::string types = " .(v2|v4|v8)? .(b8|u8|s8|b16|u16|s16|b32|u32|s32|f32|b64|u64|s64|f64|b128)";
  const RowFacts wide{.needs = {{TargetNeed::kVersion100, "v8"}}};
  const DecodeFunction load_row = [](Decoder& d) { decode_access(d, false); };
  const DecodeFunction store_row = [](Decoder& d) { decode_access(d, true); };
  t.add("ld .(weak|relaxed|acquire|volatile|mmio)? .(cta|cluster|gpu|sys)? " + space +
            " .(ca|cg|cs|lu|cv)? .nc? " + hints + types,
        load_row, wide);
  t.add("ldu " + space + types, load_row);
  t.add("st.bulk.weak?.(shared|shared::cta)?", decode_clear, {.needs = {{TargetNeed::kVersion100}}});
  t.add("st .(weak|relaxed|release|volatile|mmio)? .(cta|cluster|gpu|sys)? " + space + " .(wb|cg|cs|wt)? " +
            hints + types,
        store_row, wide);
}

}  // namespace jfa::simulator
