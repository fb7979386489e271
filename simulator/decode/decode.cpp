#include "simulator/decode/decode.h"

#include <algorithm>
#include <cstring>

#include "simulator/machine/machine.h"

namespace jfa::simulator {
namespace {

const std::map<std::string, SpecialRegister, std::less<>>& special_registers() {
  using S = SpecialRegister;
  static const std::map<std::string, SpecialRegister, std::less<>> table = {
      {"%tid.x", S::kTidX},
      {"%tid.y", S::kTidY},
      {"%tid.z", S::kTidZ},
      {"%ntid.x", S::kNtidX},
      {"%ntid.y", S::kNtidY},
      {"%ntid.z", S::kNtidZ},
      {"%ctaid.x", S::kCtaidX},
      {"%ctaid.y", S::kCtaidY},
      {"%ctaid.z", S::kCtaidZ},
      {"%nctaid.x", S::kNctaidX},
      {"%nctaid.y", S::kNctaidY},
      {"%nctaid.z", S::kNctaidZ},
      {"%laneid", S::kLaneid},
      {"%warpid", S::kWarpid},
      {"%nwarpid", S::kNwarpid},
      {"%smid", S::kSmid},
      {"%nsmid", S::kNsmid},
      {"%gridid", S::kGridid},
      {"%lanemask_eq", S::kLanemaskEq},
      {"%lanemask_le", S::kLanemaskLe},
      {"%lanemask_lt", S::kLanemaskLt},
      {"%lanemask_ge", S::kLanemaskGe},
      {"%lanemask_gt", S::kLanemaskGt},
      {"%clusterid.x", S::kClusteridX},
      {"%clusterid.y", S::kClusteridY},
      {"%clusterid.z", S::kClusteridZ},
      {"%nclusterid.x", S::kNclusteridX},
      {"%nclusterid.y", S::kNclusteridY},
      {"%nclusterid.z", S::kNclusteridZ},
      {"%cluster_ctaid.x", S::kClusterCtaidX},
      {"%cluster_ctaid.y", S::kClusterCtaidY},
      {"%cluster_ctaid.z", S::kClusterCtaidZ},
      {"%cluster_nctaid.x", S::kClusterNctaidX},
      {"%cluster_nctaid.y", S::kClusterNctaidY},
      {"%cluster_nctaid.z", S::kClusterNctaidZ},
      {"%cluster_ctarank", S::kClusterCtarank},
      {"%cluster_nctarank", S::kClusterNctarank},
      {"%is_explicit_cluster", S::kIsExplicitCluster},
      {"%dynamic_smem_size", S::kDynamicSmemSize},
      {"%total_smem_size", S::kTotalSmemSize},
  };
  return table;
}

constexpr std::uint32_t kMaxParameterBytes = 32764;   // what a kernel may take
constexpr std::uint32_t kMaxLocalBytes = 512 * 1024;  // what a thread may have

std::uint32_t align_up(std::uint32_t value, std::uint32_t alignment) {
  return (value + alignment - 1) / alignment * alignment;
}

Step end_of_entry(Warp& warp, const Instruction&, LaneMask active) { return warp.exit(active); }

}  // namespace

EntryBuilder::EntryBuilder(const PtxModule& module, const Function& function,
                           const VariableAddress& variable_address, Entry& entry)
    : module_(module),
      variable_address_(variable_address),
      entry_(entry),
      target_(parse_target(module.target)),
      entry_frame_(function, nullptr) {}

EntryBuilder::Frame::Frame(const Function& function_, const Frame* caller_)
    : function(function_),
      caller(caller_),
      register_slots(static_cast<std::size_t>(function_.register_count), kNoSlot),
      statement_pc(function_.statements.size()) {}

void EntryBuilder::run() {
  const Function& function = entry_frame_.function;
  entry_.name = function.name;
  const Dim3 block = function.required_block.x != 0 ? function.required_block : function.max_block;
  if (block.x != 0)
    entry_.max_threads = static_cast<std::uint32_t>(std::min<std::uint64_t>(block.count(), 1024));
  entry_.required_block = function.required_block;
  entry_.required_cluster = function.required_cluster;
  entry_.min_ctas_per_sm = function.min_ctas_per_sm;
  entry_.max_registers = function.max_registers;
  lay_out_parameters();
  decode_statements(entry_frame_);
  compute_reconvergence(entry_.code);
  watch_registers();
}

void EntryBuilder::lay_out_parameters() {
  std::uint32_t offset = 0;
  for (const Variable& p : entry_frame_.function.parameters) {
    offset = align_up(offset, p.alignment);
    if (p.size_bytes > kMaxParameterBytes - std::min(offset, kMaxParameterBytes))
      throw PtxError{entry_frame_.function.ptx_line,
                     "entry `" + entry_frame_.function.name + "` has more than " +
                         std::to_string(kMaxParameterBytes) + " bytes of parameters",
                     {}};
    const auto size = static_cast<std::uint32_t>(p.size_bytes);
    entry_.parameters.push_back({p.name, offset, size, p.alignment});
    entry_frame_.parameters[p.name] = offset;
    offset += size;
  }
  entry_.parameter_bytes = offset;
}

void EntryBuilder::decode_statements(Frame& frame) {
  frame_ = &frame;
  for (std::size_t i = 0; i < frame.function.statements.size(); ++i) decode_statement(i);
  for (const auto& [instruction, statement] : frame.branches)
    entry_.code[instruction].target = frame.statement_pc[static_cast<std::size_t>(statement)];
}

void EntryBuilder::decode_statement(std::size_t index) {
  const Statement& s = frame_->function.statements[index];
  frame_->statement_pc[index] = static_cast<std::uint32_t>(entry_.code.size());
  if (s.opcode.empty() && frame_->caller != nullptr) return;  // the end of a called function
  statement_ = &s;
  entry_.statements.push_back({s.text, s.ptx_line, s.file, s.source_line});
  used_registers_.emplace_back();
  watcher_.push_back(false);
  if (s.opcode.empty()) {
    emit(end_of_entry).flow = Flow::kExit;
    return;
  }
  Decoder decoder(*this, s);
  const KnownOpcode& known = known_opcode(s.opcode);
  const InstructionTable::Row* row = known.found.row;
  if (row == nullptr) decoder.fail("instruction `" + s.opcode + "` is not known to the simulator");
  if (!known.needs.empty())
    decoder.fail("instruction `" + s.opcode + "` needs " + std::string(known.needs) + ", this PTX is for " +
                 module_.target);
  entry_.statements.back().engine = row->facts.engine;
  decoder.modifiers_ = known.found.modifiers;
  touched_ = 0;
  row->decode(decoder);
  for (std::size_t i = 0; i < s.operands.size() && i < 64; ++i)
    if ((touched_ >> i & 1) == 0 && !row->hint)
      decoder.fail("operand " + std::to_string(i) + " of `" + s.opcode + "` is not known to the simulator");
  for (Instruction& i : behind_) entry_.code.push_back(i);
  behind_.clear();
}

const EntryBuilder::KnownOpcode& EntryBuilder::known_opcode(std::string_view opcode) {
  const auto [at, fresh] = known_opcodes_.try_emplace(opcode);
  KnownOpcode& known = at->second;
  if (!fresh) return known;
  known.found = InstructionTable::instance().find(opcode);
  if (target_) known.needs = known.found.missing(*target_);
  return known;
}

// Puts a check in front of every instruction that uses a watched register.
void EntryBuilder::watch_registers() {
  if (watched_.empty()) return;
  RegisterWatch& watch = entry_.watch;
  watch.use_of_pc.resize(entry_.code.size());
  for (std::size_t pc = 0; pc < entry_.code.size(); ++pc) {
    Instruction& in = entry_.code[pc];
    if (watcher_[in.statement]) continue;
    RegisterWatch::Use use;
    for (const Slot slot : used_registers_[in.statement])
      if (const auto it = watched_.find(slot); it != watched_.end()) use.registers.push_back(it->second);
    if (use.registers.empty()) continue;
    use.handler = in.handler;
    in.handler = watch.guard;
    watch.use_of_pc[pc] = static_cast<std::uint32_t>(watch.uses.size());
    watch.uses.push_back(std::move(use));
  }
}

Instruction& EntryBuilder::emit(Handler handler) {
  Instruction& in = entry_.code.emplace_back();
  in.handler = handler;
  in.statement = static_cast<std::uint32_t>(entry_.statements.size() - 1);
  if (statement_->guard.index >= 0 && !ignore_guard_) {
    in.guard = register_slot(statement_->guard);
    in.guard_negated = statement_->guard_negated;
  }
  return in;
}

// --- slots

Slot EntryBuilder::allocate(int bits) {
  constexpr std::uint32_t kPredicateBytes = 64;  // one word, but vectors stay aligned
  const std::uint32_t bytes = bits == 1 ? kPredicateBytes : std::max(bits, 32) / 8 * kWarpSize;
  const Slot slot = entry_.register_file_bytes;
  entry_.register_file_bytes += bytes;
  if (bits == 1) entry_.predicates.push_back(slot);
  return slot;
}

Slot EntryBuilder::register_slot(RegisterId reg) {
  Slot& slot = frame_->register_slots[static_cast<std::size_t>(reg.index)];
  if (slot == kNoSlot) slot = allocate(reg.bits);
  used_registers_[entry_.statements.size() - 1].push_back(slot);
  return slot;
}

Slot EntryBuilder::constant(std::uint64_t value, int bits) {
  if (bits < 64 && bits > 1) bits = 32, value &= 0xffffffffu;
  auto [it, fresh] = constants_.try_emplace({value, bits}, kNoSlot);
  if (fresh) {
    it->second = allocate(bits);
    entry_.constants.push_back({it->second, value, static_cast<std::uint8_t>(bits)});
  }
  return it->second;
}

Slot EntryBuilder::special(const std::string& name, const Decoder& decoder) {
  const auto which = special_registers().find(name);
  if (which == special_registers().end())
    decoder.fail("register `" + name + "` is not known to the simulator");
  auto [it, fresh] = specials_.try_emplace(name, kNoSlot);
  if (fresh) {
    it->second = allocate(32);
    entry_.specials.push_back({it->second, which->second});
  }
  return it->second;
}

Slot EntryBuilder::shared_address(const Variable& v, std::int64_t displacement, int bits,
                                  const Decoder& decoder) {
  const bool dynamic = v.external;
  std::uint32_t offset = 0;
  if (dynamic) {
    entry_.dynamic_alignment = std::max(entry_.dynamic_alignment, v.alignment);
  } else {
    auto [it, fresh] = shared_offsets_.try_emplace(&v, 0);
    if (fresh) {
      it->second = align_up(entry_.static_shared_bytes, v.alignment);
      if (v.size_bytes > kMaxSharedBytesPerCta - std::min(it->second, kMaxSharedBytesPerCta))
        decoder.fail("`" + v.name + "` and what lies before it are more shared memory than the " +
                     std::to_string(kMaxSharedBytesPerCta) + " bytes of a CTA");
      entry_.static_shared_bytes = it->second + static_cast<std::uint32_t>(v.size_bytes);
      entry_.shared_variables.push_back({v.name, it->second, static_cast<std::uint32_t>(v.size_bytes)});
    }
    offset = it->second;
  }
  const Slot slot = allocate(bits);
  entry_.shared_addresses.push_back(
      {slot, offset + static_cast<std::uint32_t>(displacement), dynamic, static_cast<std::uint8_t>(bits)});
  return slot;
}

Slot EntryBuilder::symbol(const std::string& name, std::int64_t displacement, int bits,
                          const Decoder& decoder) {
  const int width = bits == 64 ? 64 : 32;
  const auto number = [&](std::uint64_t address) {
    return constant(address + static_cast<std::uint64_t>(displacement), width);
  };
  const Variable* v = frame_->function.find_variable(statement_->scope, name);
  if (v == nullptr) {
    if (const auto it = frame_->parameters.find(name); it != frame_->parameters.end())
      return number(it->second);
    if (const auto address = variable_address_(name)) return number(*address);
    for (const Variable& m : module_.variables)
      if (m.name == name) v = &m;
  }
  if (v == nullptr) decoder.fail("`" + name + "` is not declared");
  if (v->space == Space::kShared) return shared_address(*v, displacement, width, decoder);
  if (v->space != Space::kLocal && v->space != Space::kParam)
    decoder.fail("the address of `" + name + "` is not supported");
  return number(local_offset(*v, decoder));
}

// Parameters of calls are local variables, too.
std::uint32_t EntryBuilder::local_offset(const Variable& v, const Decoder& decoder) {
  auto [it, fresh] = local_offsets_.try_emplace(&v, 0);
  if (fresh) {
    it->second = align_up(entry_.local_bytes, v.alignment);
    if (v.size_bytes > kMaxLocalBytes - std::min(it->second, kMaxLocalBytes))
      decoder.fail("`" + v.name + "` and what lies before it are more local memory than the " +
                   std::to_string(kMaxLocalBytes) + " bytes of a thread");
    entry_.local_bytes = align_up(it->second + static_cast<std::uint32_t>(v.size_bytes), 16);
  }
  return it->second;
}

void decode_entry(const PtxModule& module, const Function& function, const VariableAddress& variable_address,
                  Entry& entry) {
  EntryBuilder(module, function, variable_address, entry).run();
}

}  // namespace jfa::simulator
