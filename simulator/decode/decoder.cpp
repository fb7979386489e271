// What the rows of the instruction table ask of a statement: its modifiers, its operands as slots,
// instructions.
#include <algorithm>
#include <cstring>

#include "simulator/decode/decode.h"
#include "simulator/machine/machine.h"

namespace jfa::simulator {
namespace {

// --- Instructions that decoding adds around those of the text.

Step narrow(Warp& warp, const Instruction& in, LaneMask active) {
  auto* d = warp.lanes<std::uint32_t>(in.operand[0]);
  const auto* s = warp.lanes<std::uint64_t>(in.operand[1]);
  for (int i = 0; i < kWarpSize; ++i)
    if (active >> i & 1) d[i] = static_cast<std::uint32_t>(s[i]);
  return Step::kNext;
}

Step invert_predicate(Warp& warp, const Instruction& in, LaneMask active) {
  warp.set_predicate(in.operand[0], active, ~warp.predicate(in.operand[1]));
  return Step::kNext;
}

// From small[0] bits to small[1]; immediate: sign extension.
Step widen(Warp& warp, const Instruction& in, LaneMask active) {
  const auto* s = warp.lanes<std::uint32_t>(in.operand[1]);
  const int unused = 64 - in.small[0];
  for (int i = 0; i < kWarpSize; ++i) {
    if (!(active >> i & 1)) continue;
    const std::uint64_t high = std::uint64_t{s[i]} << unused;
    const std::uint64_t value = in.immediate != 0
                                    ? static_cast<std::uint64_t>(static_cast<std::int64_t>(high) >> unused)
                                    : high >> unused;
    if (in.small[1] == 64)
      warp.lanes<std::uint64_t>(in.operand[0])[i] = value;
    else
      warp.lanes<std::uint32_t>(in.operand[0])[i] =
          static_cast<std::uint32_t>(in.small[1] == 16 ? value & 0xffff : value);
  }
  return Step::kNext;
}

}  // namespace

void Decoder::fail(const std::string& message) const {
  throw PtxError{statement_.ptx_line, message, statement_.text};
}

void Decoder::use_cta_group(int cta_group) {
  Entry& entry = builder_.entry_;
  if (entry.cta_group == 0) entry.cta_group = cta_group, entry.cta_group_line = statement_.ptx_line;
  if (entry.cta_group != cta_group)
    fail("cta_group::" + std::to_string(cta_group) + ", but PTX line " +
         std::to_string(entry.cta_group_line) + " has cta_group::" + std::to_string(entry.cta_group) +
         ": all tcgen05 instructions of a kernel must have the same");
}

bool Decoder::has(std::string_view modifier) const {
  return std::find(modifiers_.begin(), modifiers_.end(), modifier) != modifiers_.end();
}

std::string_view Decoder::modifier(int index) const {
  return static_cast<std::size_t>(index) < modifiers_.size() ? modifiers_[static_cast<std::size_t>(index)]
                                                             : std::string_view();
}

std::string_view Decoder::first_of(std::initializer_list<std::string_view> candidates) const {
  for (const std::string_view c : candidates)
    if (has(c)) return c;
  return {};
}

int Decoder::count() const { return static_cast<int>(statement_.operands.size()); }

const Operand& Decoder::at(int index) const {
  if (index >= count())
    fail("`" + statement_.opcode + "` needs more than " + std::to_string(count()) + " operands");
  builder_.touched_ |= std::uint64_t{1} << (index & 63);
  return statement_.operands[static_cast<std::size_t>(index)];
}

bool Decoder::is_vector(int index) const {
  return index < count() && at(index).kind == Operand::Kind::kVector;
}
int Decoder::vector_size(int index) const {
  return is_vector(index) ? static_cast<int>(at(index).elements.size()) : 1;
}
bool Decoder::is_sink(int index) const { return index < count() && at(index).kind == Operand::Kind::kSink; }
bool Decoder::is_address(int index) const {
  return index < count() && at(index).kind == Operand::Kind::kAddress;
}
bool Decoder::is_immediate(int index) const {
  return index < count() && at(index).kind == Operand::Kind::kInteger;
}

std::int64_t Decoder::immediate(int index) const {
  const Operand& o = at(index);
  if (o.kind != Operand::Kind::kInteger)
    fail("operand " + std::to_string(index) + " must be an integer constant");
  return static_cast<std::int64_t>(o.value);
}

std::string_view Decoder::special_name(int index) const {
  const Operand& o = at(index);
  return o.kind == Operand::Kind::kSpecial ? std::string_view(o.name) : std::string_view();
}

Slot Decoder::element_source(const Operand& o, int bits, bool is_float) {
  using K = Operand::Kind;
  const auto f64 = [&] {
    double value;
    std::memcpy(&value, &o.value, sizeof value);
    return value;
  };
  const auto f32_bits = [](float value) {
    std::uint32_t raw;
    std::memcpy(&raw, &value, sizeof raw);
    return std::uint64_t{raw};
  };
  const auto f64_bits = [](double value) {
    std::uint64_t raw;
    std::memcpy(&raw, &value, sizeof raw);
    return raw;
  };
  switch (o.kind) {
    case K::kRegister: {
      if ((bits == 1) != (o.reg.bits == 1)) fail("register `" + o.name + "` has the wrong type");
      const Slot slot = builder_.register_slot(o.reg);
      if (bits == 1) {
        if (!o.negated) return slot;
        const Slot inverse = builder_.allocate(1);
        Instruction& in = builder_.emit(invert_predicate);
        in.operand = {inverse, slot};
        return inverse;
      }
      if (o.reg.bits < bits && !(bits <= 32 && o.reg.bits <= 32))
        fail("register `" + o.name + "` is narrower than the " + std::to_string(bits) + " bits read");
      if (bits <= 32 && o.reg.bits == 64) {
        const Slot low = builder_.allocate(32);
        Instruction& in = builder_.emit(narrow);
        in.operand = {low, slot};
        return low;
      }
      return slot;
    }
    case K::kSpecial: {
      const Slot slot = builder_.special(o.name, *this);
      if (bits <= 32) return slot;
      const Slot wide = builder_.allocate(64);
      Instruction& in = builder_.emit(widen);
      in.operand = {wide, slot};
      in.small[0] = 32, in.small[1] = 64;
      return wide;
    }
    case K::kSymbol:
      return builder_.symbol(o.name, o.displacement, bits, *this);
    case K::kInteger: {
      if (bits == 1) return builder_.constant(((o.value != 0) != o.negated) ? kAllLanes : 0, 1);
      const auto value = static_cast<double>(static_cast<std::int64_t>(o.value));
      if (is_float && bits == 32) return builder_.constant(f32_bits(static_cast<float>(value)), 32);
      if (is_float && bits == 64) return builder_.constant(f64_bits(value), 64);
      return builder_.constant(bits < 32 ? o.value & ((1ull << bits) - 1) : o.value, bits);
    }
    case K::kFloat32:
      if (bits == 64 && is_float) {
        float value;
        std::memcpy(&value, &o.value, sizeof value);
        return builder_.constant(f64_bits(value), 64);
      }
      return builder_.constant(o.value, bits);
    case K::kFloat64:
      if (bits == 32) return builder_.constant(f32_bits(static_cast<float>(f64())), 32);
      return builder_.constant(o.value, bits);
    case K::kVector:
    case K::kAddress:
    case K::kSink:
      break;
  }
  fail("an operand of `" + statement_.opcode + "` cannot be read as a value");
}

Slot Decoder::element_destination(const Operand& o, int bits, bool sign_extend) {
  if (o.kind == Operand::Kind::kSink) return builder_.allocate(bits);  // written, and never read
  if (o.kind != Operand::Kind::kRegister)
    fail("a destination of `" + statement_.opcode + "` is not a register");
  if ((bits == 1) != (o.reg.bits == 1)) fail("register `" + o.name + "` has the wrong type");
  if (o.reg.bits < bits) fail("register `" + o.name + "` is narrower than the result");
  const Slot slot = builder_.register_slot(o.reg);
  if (bits == 1 || o.reg.bits == bits) return slot;
  if (o.reg.bits <= 32 && !sign_extend) return slot;  // handlers write 32 zero-extended bits
  const Slot result = builder_.allocate(bits);
  Instruction in;
  in.handler = widen;
  in.operand = {slot, result};
  in.small[0] = static_cast<std::uint8_t>(bits);
  in.small[1] = static_cast<std::uint8_t>(o.reg.bits);
  in.immediate = sign_extend;
  in.statement = static_cast<std::uint32_t>(builder_.entry_.statements.size() - 1);
  if (statement_.guard.index >= 0) {
    in.guard = builder_.register_slot(statement_.guard);
    in.guard_negated = statement_.guard_negated;
  }
  builder_.behind_.push_back(in);
  return result;
}

Slot Decoder::source(int index, int bits) { return element_source(at(index), bits, false); }
Slot Decoder::float_source(int index, int bits) { return element_source(at(index), bits, true); }

Slot Decoder::destination(int index, int bits, bool sign_extend) {
  return element_destination(at(index), bits, sign_extend);
}

Slot Decoder::second_destination(int index, int bits) {
  const Operand& o = at(index);
  return o.second == nullptr ? kNoSlot : element_destination(*o.second, bits, false);
}

std::vector<Slot> Decoder::vector_source(int index, int bits) {
  const Operand& o = at(index);
  std::vector<Slot> slots;
  if (o.kind != Operand::Kind::kVector) return {element_source(o, bits, false)};
  for (const Operand& e : o.elements) slots.push_back(element_source(e, bits, false));
  return slots;
}

std::vector<Slot> Decoder::vector_destination(int index, int bits, bool sign_extend) {
  const Operand& o = at(index);
  std::vector<Slot> slots;
  if (o.kind != Operand::Kind::kVector) return {element_destination(o, bits, sign_extend)};
  for (const Operand& e : o.elements) slots.push_back(element_destination(e, bits, sign_extend));
  return slots;
}

std::vector<std::uint16_t> Decoder::watch(int index, Handler guard) {
  const Operand& o = at(index);
  builder_.entry_.watch.guard = guard;
  std::vector<std::uint16_t> indices;
  const auto add = [&](const Operand& element) {
    if (element.kind == Operand::Kind::kSink) return;
    if (element.kind != Operand::Kind::kRegister)
      fail("an operand of `" + statement_.opcode + "` is not a register");
    const Slot slot = builder_.register_slot(element.reg);
    RegisterWatch& watch = builder_.entry_.watch;
    const auto [it, fresh] =
        builder_.watched_.try_emplace(slot, static_cast<std::uint16_t>(watch.names.size()));
    if (fresh) watch.names.push_back(element.name);
    indices.push_back(it->second);
  };
  if (o.kind == Operand::Kind::kVector) {
    for (const Operand& element : o.elements) add(element);
  } else {
    add(o);
  }
  builder_.watcher_[builder_.entry_.statements.size() - 1] = true;
  return indices;
}

AddressOperand Decoder::address(int index) {
  const Operand& o = at(index);
  if (o.kind != Operand::Kind::kAddress) fail("operand " + std::to_string(index) + " must be an address");
  const Operand& base = o.elements[0];
  AddressOperand a;
  a.displacement = o.displacement;
  switch (base.kind) {
    case Operand::Kind::kRegister:
      if (base.reg.bits != 32 && base.reg.bits != 64) fail("`" + base.name + "` cannot hold an address");
      a.base = builder_.register_slot(base.reg);
      a.is_64_bit = base.reg.bits == 64;
      break;
    case Operand::Kind::kSymbol:
      a.base = builder_.symbol(base.name, 0, 64, *this);
      break;
    case Operand::Kind::kInteger:
      a.base = builder_.constant(base.value, 64);
      break;
    default:
      fail("operand " + std::to_string(index) + " is not an address the simulator knows");
  }
  return a;
}

std::vector<Slot> Decoder::coordinates(int index) {
  const Operand& o = at(index);
  std::vector<Slot> slots;
  for (std::size_t i = 1; i < o.elements.size(); ++i)
    slots.push_back(element_source(o.elements[i], 32, false));
  return slots;
}

Instruction& Decoder::emit(Handler handler) {
  Instruction& in = builder_.emit(handler);
  in.converged = converged_;
  return in;
}

Instruction& Decoder::emit_branch(Handler handler, int index) {
  const Operand& o = at(index);
  if (o.kind != Operand::Kind::kSymbol) fail("operand " + std::to_string(index) + " must be a label");
  return emit_branch(handler, o.name);
}

Instruction& Decoder::emit_branch(Handler handler, std::string_view label) {
  const int statement = builder_.frame_->function.find_label(statement_.scope, label);
  if (statement < 0) fail("label `" + std::string(label) + "` is not defined here");
  builder_.frame_->branches.emplace_back(builder_.entry_.code.size(), statement);
  Instruction& in = emit(handler);
  in.flow = Flow::kBranch;
  return in;
}

Instruction& Decoder::emit_exit(Handler handler) {
  Instruction& in = emit(handler);
  in.flow = Flow::kExit;
  return in;
}

Slot Decoder::scratch(int bits) { return builder_.allocate(bits); }
Slot Decoder::carry() {
  if (builder_.carry_ == kNoSlot) builder_.carry_ = builder_.allocate(1);
  return builder_.carry_;
}
Slot Decoder::constant(std::uint64_t value, int bits) { return builder_.constant(value, bits); }
void Decoder::own(std::shared_ptr<void> data) { builder_.entry_.owned.push_back(std::move(data)); }

}  // namespace jfa::simulator
