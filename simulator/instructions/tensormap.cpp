// tensormap.replace, tensormap.cp_fenceproxy and the fences of the tensormap proxy.
#include <fmt/format.h>

#include "simulator/async/tensor_map.h"
#include "simulator/decode/instruction_table.h"
#include "simulator/instructions/async_address.h"
#include "simulator/instructions/map_access.h"
#include "simulator/machine/machine.h"

namespace jfa::simulator {
namespace {

constexpr std::uint32_t kMapAlignment = 64;
constexpr std::uint32_t kPieceBytes = 16;  // of one checked access

// --- The 128 bytes, through the generic proxy

using MapBytes = std::array<std::byte, kTensorMapBytes>;

MapBytes read_map(Warp& warp, Space space, std::uint64_t address, const ProgramPoint& point) {
  MapBytes bytes;
  for (std::uint32_t at = 0; at < kTensorMapBytes; at += kPieceBytes)
    warp.read(space, address + at, kPieceBytes, bytes.data() + at, point);
  return bytes;
}

void write_map(Warp& warp, Space space, std::uint64_t address, const MapBytes& bytes,
               const ProgramPoint& point) {
  for (std::uint32_t at = 0; at < kTensorMapBytes; at += kPieceBytes)
    warp.write(space, address + at, kPieceBytes, bytes.data() + at, point);
}

void check_aligned(std::uint64_t address, const ProgramPoint& point) {
  if (address % kMapAlignment != 0)
    fail_at(ErrorKind::kMisaligned, point, address,
            fmt::format("a tensor map at {:#x} is not {}-byte aligned", address, kMapAlignment));
}

// --- tensormap.replace

struct Replacement {
  TensorMapField field{};
  std::uint32_t ordinal = 0;
  Space space = Space::kGeneric;
  AddressOperand map;
  Slot value = kNoSlot;
  bool wide = false;  // the value has 64 bits
};

Step replace(Warp& warp, const Instruction& in, LaneMask active) {
  const auto& r = in.data<Replacement>();
  for_each_lane(warp, in, active, [&](int lane, const ProgramPoint& point) {
    const std::uint64_t address = address_of(warp, r.map, lane);
    check_aligned(address, point);
    MapBytes bytes = read_map(warp, r.space, address, point);
    const std::uint64_t value =
        r.wide ? warp.lanes<std::uint64_t>(r.value)[lane] : warp.lanes<std::uint32_t>(r.value)[lane];
    const std::string wrong = replace_tensor_map_field(bytes.data(), r.field, r.ordinal, value);
    if (!wrong.empty()) fail_at(ErrorKind::kDescriptor, point, address, wrong);
    write_map(warp, r.space, address, bytes, point);
    const bool in_global =
        r.space == Space::kGlobal || (r.space == Space::kGeneric && address < kSharedWindow);
    if (in_global)
      for (Observer* observer : warp.machine().observers()) observer->change_map(warp, lane, address, false);
  });
  return Step::kNext;
}

// `constant`: the value is an immediate, of a table of the ISA.
void decode_replace(Decoder& d, TensorMapField field, bool constant) {
  Replacement r;
  r.field = field;
  if (d.has("global")) r.space = Space::kGlobal;
  if (d.has("shared") || d.has("shared::cta")) r.space = Space::kShared;
  r.map = d.address(0);
  int value = 1;
  if (const std::uint32_t ordinals = ordinals_of(field); ordinals != 0) {
    const std::int64_t ordinal = d.immediate(value++);
    if (ordinal < 0 || ordinal >= static_cast<std::int64_t>(ordinals))
      d.fail(fmt::format("{} has the ordinals 0..{}, not {}", name_of(field), ordinals - 1, ordinal));
    r.ordinal = static_cast<std::uint32_t>(ordinal);
  }
  if (constant && !d.is_immediate(value)) d.fail(fmt::format("{} takes an immediate", name_of(field)));
  if (field == TensorMapField::kSwizzleMode && d.immediate(value) == 4)
    d.fail("96-byte swizzles are for sm_103a only");
  r.wide = d.has("b64");
  r.value = d.source(value, r.wide ? 64 : 32);
  d.emit(replace).extra = d.attach(r);
}

// --- tensormap.cp_fenceproxy

struct Publication {
  AddressOperand to, from;  // global, shared
};

// The warp does it once: in the name of its first lane, and then all lanes know of it.
Step publish(Warp& warp, const Instruction& in, LaneMask active) {
  const auto& p = in.data<Publication>();
  const int lane = __builtin_ctz(active);
  const ProgramPoint point = warp.point(in, lane);
  const std::uint64_t to = address_of(warp, p.to, lane), from = address_of(warp, p.from, lane);
  for_each_lane(warp, in, active, [&](int other, const ProgramPoint& where) {
    if (address_of(warp, p.to, other) != to || address_of(warp, p.from, other) != from)
      fail(ErrorKind::kInvalidOperand, where,
           "the lanes of tensormap.cp_fenceproxy differ in their addresses");
  });
  check_aligned(to, point);
  check_aligned(from, point);
  write_map(warp, Space::kGlobal, to, read_map(warp, Space::kShared, from, point), point);
  for (Observer* observer : warp.machine().observers()) observer->change_map(warp, lane, to, true);
  if (warp.clock != nullptr) warp.cta().cluster().order.sync_lanes(*warp.clock, active, warp.live());
  return Step::kNext;
}

void check_size(const Decoder& d, int operand) {
  if (d.immediate(operand) != kTensorMapBytes)
    d.fail(fmt::format("the size of a tensor map is {}, not {}", kTensorMapBytes, d.immediate(operand)));
}

void decode_publication(Decoder& d) {
  const Publication p{d.address(0), d.address(1)};
  check_size(d, 2);
  d.require_converged();
  d.emit(publish).extra = d.attach(p);
}

// --- Fences

Step release_tensor_maps(Warp& warp, const Instruction&, LaneMask active) {
  for (Observer* observer : warp.machine().observers()) observer->release_maps(warp, active);
  return Step::kNext;
}

Step acquire(Warp& warp, const Instruction& in, LaneMask active) {
  const auto& map = in.data<AddressOperand>();
  for_each_lane(warp, in, active, [&](int lane, const ProgramPoint&) {
    for (Observer* observer : warp.machine().observers())
      observer->acquire_map(warp, lane, address_of(warp, map, lane));
  });
  return Step::kNext;
}

}  // namespace

const std::byte* use_tensor_map(Warp& warp, std::uint64_t address, const ProgramPoint& point) {
  Machine& machine = warp.machine();
  const std::byte* bytes = machine.read_generic(address, kTensorMapBytes, kMapAlignment, point);
  if (address >= kSharedWindow) return bytes;
  for (Observer* observer : machine.observers()) {
    for (std::uint32_t at = 0; at < kTensorMapBytes; at += kPieceBytes)
      observer->read(address + at, kPieceBytes, point, {});
    observer->use_map(warp, address, point);
  }
  return bytes;
}

void register_tensormap(InstructionTable& table) {
  struct Row {
    TensorMapField field;
    const char* type;
    bool constant;
  };
  using enum TensorMapField;
  for (const Row& row :
       {Row{kGlobalAddress, "b64", false}, Row{kRank, "b32", false}, Row{kBoxDim, "b32", false},
        Row{kGlobalDim, "b32", false}, Row{kGlobalStride, "b64", false}, Row{kElementStride, "b32", false},
        Row{kElementType, "b32", true}, Row{kInterleaveLayout, "b32", true}, Row{kSwizzleMode, "b32", true},
        Row{kSwizzleAtomicity, "b32", true}, Row{kFillMode, "b32", true}})
    table.add(fmt::format("tensormap.replace.tile.{} .(global|shared|shared::cta)? .b1024.{}",
                          name_of(row.field), row.type),
              [row](Decoder& d) { decode_replace(d, row.field, row.constant); },
              {.needs = {{row.field == kSwizzleAtomicity ? TargetNeed::kBlackwell
                                                         : TargetNeed::kHopperOrBlackwell}}});
  table.add(
      "tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release .(cta|cluster|gpu|sys) "
      ".sync.aligned",
      decode_publication);
  table.add("fence.proxy.tensormap::generic.release .(cta|cluster|gpu|sys)",
            [](Decoder& d) { d.emit(release_tensor_maps); }, {.synchronises = {{"fence.proxy"}}});
  table.add("fence.proxy.tensormap::generic.acquire .(cta|cluster|gpu|sys)",
            [](Decoder& d) {
              const AddressOperand map = d.address(0);
              check_size(d, 1);
              d.emit(acquire).extra = d.attach(map);
            },
            {.synchronises = {{"fence.proxy"}}});
}

}  // namespace jfa::simulator
