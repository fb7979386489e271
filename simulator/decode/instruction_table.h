// The table of instructions: one row says how an instruction is written and how it is decoded. Rows are the
// only place that knows; decoding, errors for the unknown, and the coverage list all come from them.
//
//   void register_integer(InstructionTable& table) {
//     table.add("not .(b16|b32|b64)", [](Decoder& d) { … });
//   }
//
// A pattern is the opcode and its modifiers, each with its dot. (a|b) is a choice, a trailing ? makes it
// optional. A modifier with its own colons is one modifier: `.mbarrier::complete_tx::bytes`. Other orders of
// the modifiers that mean the same need no rows of their own.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "simulator/machine/program.h"
#include "simulator/ptx/target.h"
#include "simulator/ptx/types.h"

namespace jfa::simulator {

struct Statement;    // ptx.h
struct Operand;      // ptx.h
class EntryBuilder;  // decode.cpp

/// An address operand `[base + displacement]`.
struct AddressOperand {
  Slot base = kNoSlot;  // lanes of 32 or 64 bits
  bool is_64_bit = true;
  std::int64_t displacement = 0;
};

/// `call (results), callee, (arguments)`: where the parameters lie in the thread's local memory.
struct CallOperands {
  std::string callee;
  std::vector<std::uint32_t> results, arguments;
};

class Decoder {
 public:
  // --- The opcode.
  /// True if the modifier (without its dot) was written.
  bool has(std::string_view modifier) const;
  /// The modifier that the i-th group of the pattern (0-based; every `.x` after the opcode counts) matched;
  /// empty if it was optional and absent.
  std::string_view modifier(int index) const;
  /// The first of `candidates` that was written; empty if none.
  std::string_view first_of(std::initializer_list<std::string_view> candidates) const;

  // --- Operands, by position as written: destinations first. Vectors and addresses count as one.
  int count() const;
  bool is_vector(int index) const;
  int vector_size(int index) const;  // 1 for a lone operand
  bool is_sink(int index) const;     // `_`
  bool is_immediate(int index) const;
  bool is_address(int index) const;
  std::string_view special_name(int index) const;  // "%clock64"; empty if it is no special register
  std::int64_t immediate(int index) const;         // fails if it is not an integer immediate
  /// Slot to read `bits` (1 predicate, 8…128) from: a register, immediate, symbol or special register. A
  /// wider register is narrowed, a negated predicate (!p) inverted, by an extra instruction in front.
  Slot source(int index, int bits);
  /// As source, but an immediate is turned into a float of that width: 0f…, 0d… and decimals.
  Slot float_source(int index, int bits);
  /// The one of the two that suits type T.
  template <class T>
  Slot float_or_source(int index) {
    constexpr int bits = static_cast<int>(sizeof(T)) * 8;
    return std::is_floating_point_v<T> ? float_source(index, bits) : source(index, bits);
  }
  /// Slot to write to. With a register wider than `bits` the result is extended behind: sign_extend or zero.
  Slot destination(int index, int bits, bool sign_extend = false);
  /// The second destination of `d|p`, or kNoSlot.
  Slot second_destination(int index, int bits);
  /// Elements of `{…}` (or of a lone register). An element `_` gives kNoSlot.
  std::vector<Slot> vector_source(int index, int bits);
  std::vector<Slot> vector_destination(int index, int bits, bool sign_extend = false);
  /// `[reg+imm]`, `[symbol+imm]`, `[imm]`.
  AddressOperand address(int index);
  /// `[%rd1, {%r1, %r2}]`: the coordinates beside the address.
  std::vector<Slot> coordinates(int index);

  /// The registers of operand `index` will be owned by an asynchronous engine: instructions of other
  /// statements that use them run through `guard`. Their indices in Entry::watch; an element `_` has none.
  std::vector<std::uint16_t> watch(int index, Handler guard);

  /// The instruction is one of tcgen05 and of this cta_group. Refuses the statement if others of the kernel
  /// are of another.
  void use_cta_group(int cta_group);

  // --- Output.
  /// The instruction is `.aligned`: the interpreter waits until every live lane of the warp stands at it, and
  /// refuses the kernel if they cannot. Call before emit.
  void require_converged() { converged_ = true; }
  /// Appends an instruction; guard and place are filled in. The reference is good until the next emit.
  Instruction& emit(Handler handler);
  /// The same for an instruction that may jump to the label in operand `index`.
  Instruction& emit_branch(Handler handler, int index);
  /// The same for a label that is no operand.
  Instruction& emit_branch(Handler handler, std::string_view label);
  /// And for one that ends the active lanes.
  Instruction& emit_exit(Handler handler);

  // --- Control flow that becomes several instructions.
  /// The labels of the .branchtargets list that operand `index` names.
  const std::vector<std::string>& branch_targets(int index);
  /// Instructions that `emit_body` emits ignore the guard; a branch around them stands for it.
  void emit_behind_guard(const std::function<void()>& emit_body);
  /// True in a function that was called: its instructions stand in place of the call.
  bool is_called() const;
  /// To the end of the called function.
  Instruction& emit_return(Handler handler);
  /// Whether `[symbol]` is a parameter of a call, or of the function being called: those are local variables.
  bool is_call_parameter(int index) const;
  /// The operands of a call.
  CallOperands call();
  /// Decodes the called function in place of the call.
  void inline_call(const CallOperands& call);
  /// Data for Instruction::extra, kept as long as the entry.
  template <class T>
  const T* attach(T value) {
    auto owned = std::make_shared<T>(std::move(value));
    const T* pointer = owned.get();
    own(owned);
    return pointer;
  }
  /// A slot of the instruction's own.
  Slot scratch(int bits);
  /// The carry flag of add.cc and its kin: a predicate.
  Slot carry();
  /// A slot that holds a value in every lane.
  Slot constant(std::uint64_t value, int bits);

  /// Refuses the statement: its text, PTX line and source line are added.
  [[noreturn]] void fail(const std::string& message) const;

 private:
  friend class EntryBuilder;
  Decoder(EntryBuilder& builder, const Statement& statement) : builder_(builder), statement_(statement) {}
  void own(std::shared_ptr<void> data);
  const Operand& at(int index) const;
  Slot element_source(const Operand& operand, int bits, bool is_float);
  Slot element_destination(const Operand& operand, int bits, bool sign_extend);

  EntryBuilder& builder_;
  const Statement& statement_;
  bool converged_ = false;
  std::vector<std::string_view> modifiers_;  // by group of the pattern
};

using DecodeFunction = std::function<void(Decoder&)>;

/// An operand that says how many.
struct CountOperand {
  int operand = -1;       // its position; -1: none
  int step = 1;           // the least change of it that is another number
  bool optional = false;  // 1 if it is not written
  bool only_up = false;   // less only waits for more
  bool bytes = false;
};

/// What an instruction does for the order of others.
struct Synchronisation {
  std::string_view operation;      // "mbarrier wait"
  std::string_view modifier = "";  // that the instruction has, if it is to be this
  CountOperand count{};
};

/// What instructions need of a target if one of their modifiers begins so; "": whatever those are.
struct Requirement {
  TargetNeed target;
  std::string_view modifier = "";
};

/// What else is known of the instructions of a row.
struct RowFacts {
  std::vector<Requirement> needs{};  // the first whose modifier fits counts
  Engine engine = Engine::kCopy;     // which runs what they post
  std::vector<Synchronisation>
      synchronises{};  // the first whose modifier fits counts; none: they order nothing
};

class InstructionTable {
 public:
  /// The one table, all families registered.
  static const InstructionTable& instance();

  void add(std::string_view pattern, DecodeFunction decode, RowFacts facts = {});
  /// What is needed by rows that are added from here on and say nothing themselves.
  void set_need(TargetNeed need) { need_ = need; }
  /// An instruction that has no effect in this model: a hint, a prefetch. Operands are not looked at.
  void add_hint(std::string_view pattern);

  struct Row {
    std::string pattern;
    std::string opcode;
    std::vector<std::vector<std::string>> groups;  // choices of each modifier; "" among them: optional
    DecodeFunction decode;
    RowFacts facts;
    bool hint = false;
  };
  struct Found {
    const Row* row = nullptr;
    std::vector<std::string_view> modifiers;  // what each of its groups matched; empty if absent
    /// The instruction in the row's order of modifiers.
    std::string spelling() const;
    /// Which targets have it, if `target` is none of them; empty if it is.
    std::string_view missing(const Target& target) const;
    /// Null if the instruction orders nothing.
    const Synchronisation* synchronisation() const;
  };
  /// The row for an opcode as written ("add.rn.f32"): the first that has its modifiers in that order, else
  /// the one that has them in another which means the same (modifier_order.h). The row is null if there is
  /// none, or several.
  Found find(std::string_view opcode) const;
  /// For the coverage list.
  const std::vector<Row>& rows() const { return rows_; }

 private:
  TargetNeed need_ = TargetNeed::kNothing;
  std::vector<Row> rows_;
  std::map<std::string, std::vector<std::size_t>, std::less<>> rows_of_opcode_;
};

// The families, one file each under simulator/instructions/.
void register_move(InstructionTable& table);
void register_integer(InstructionTable& table);
void register_integer_rare(InstructionTable& table);  // called by register_integer
void register_bits(InstructionTable& table);
void register_float(InstructionTable& table);
void register_half(InstructionTable& table);  // called by register_float
void register_approximate(InstructionTable& table);
void register_compare(InstructionTable& table);
void register_convert(InstructionTable& table);
void register_convert_narrow(InstructionTable& table);  // called by register_convert
void register_convert_scale(InstructionTable& table);   // called by register_convert
void register_memory(InstructionTable& table);
void register_atomics(InstructionTable& table);
void register_control(InstructionTable& table);
void register_call(InstructionTable& table);
void register_warp(InstructionTable& table);
void register_barrier(InstructionTable& table);
void register_mbarrier(InstructionTable& table);   // mbarrier.*
void register_bulk(InstructionTable& table);       // cp.async.bulk.*
void register_fence(InstructionTable& table);      // fence.*, membar
void register_tensormap(InstructionTable& table);  // tensormap.*
void register_tcgen05(InstructionTable& table);
void register_wgmma(InstructionTable& table);        // wgmma.*, setmaxnreg
void register_warp_matrix(InstructionTable& table);  // ldmatrix, stmatrix, movmatrix
void register_mma_sync(InstructionTable& table);
void register_cluster_launch(InstructionTable& table);

}  // namespace jfa::simulator
