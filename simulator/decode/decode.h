// Turns a parsed entry into code: registers, constants and symbols get slots, statements become instructions.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "simulator/decode/instruction_table.h"
#include "simulator/machine/program.h"
#include "simulator/ptx/ptx.h"
#include "simulator/ptx/target.h"

namespace jfa::simulator {

/// Address of a module's .global or .const variable by name, if it has one.
using VariableAddress = std::function<std::optional<std::uint64_t>(std::string_view name)>;

/// Decodes one entry; throws PtxError for what the table does not know.
void decode_entry(const PtxModule& module, const Function& function, const VariableAddress& variable_address,
                  Entry& entry);

/// Fills in where the paths of each branch meet again: its immediate post-dominator.
void compute_reconvergence(std::vector<Instruction>& code);

/// Builds the entry's code and register file; Decoder is its face to the instruction families.
class EntryBuilder {
 public:
  EntryBuilder(const PtxModule& module, const Function& function, const VariableAddress& variable_address,
               Entry& entry);
  void run();

 private:
  friend class Decoder;

  /// A function being decoded: the entry, or one that it calls, decoded in place of each call.
  struct Frame {
    Frame(const Function& function_, const Frame* caller_);
    const Function& function;
    const Frame* caller;  // null: the entry
    std::vector<Slot> register_slots;
    std::vector<std::uint32_t> statement_pc;
    std::vector<std::pair<std::size_t, int>> branches;  // instruction, statement index of the target
    /// Of the entry: offsets in the parameter buffer. Of others: of the arguments, in local memory.
    std::map<std::string, std::uint32_t, std::less<>> parameters;
  };

  void lay_out_parameters();
  void decode_statements(Frame& frame);
  void decode_statement(std::size_t index);
  void watch_registers();
  /// Runs `emit_body`, whose instructions ignore the statement's guard: one branch in front stands for it.
  void emit_behind_guard(const std::function<void()>& emit_body);
  void inline_call(const Decoder& decoder, const CallOperands& call);
  std::uint32_t local_offset(const Variable& variable, const Decoder& decoder);

  Slot allocate(int bits);
  Slot register_slot(RegisterId reg);
  Slot constant(std::uint64_t value, int bits);
  Slot special(const std::string& name, const Decoder& decoder);
  Slot symbol(const std::string& name, std::int64_t displacement, int bits, const Decoder& decoder);
  Slot shared_address(const Variable& variable, std::int64_t displacement, int bits, const Decoder& decoder);
  Instruction& emit(Handler handler);
  /// The row of a statement, and what its instruction needs that the target lacks.
  struct KnownOpcode {
    InstructionTable::Found found;
    std::string_view needs;
  };
  const KnownOpcode& known_opcode(std::string_view opcode);

  const PtxModule& module_;
  const VariableAddress& variable_address_;
  Entry& entry_;
  const std::optional<Target> target_;
  Frame entry_frame_;

  const Statement* statement_ = nullptr;
  std::unordered_map<std::string_view, KnownOpcode> known_opcodes_;  // by opcode as written
  Slot carry_ = kNoSlot;
  std::map<std::pair<std::uint64_t, int>, Slot> constants_;
  std::map<std::string, Slot, std::less<>> specials_;
  std::map<const Variable*, std::uint32_t> shared_offsets_, local_offsets_;
  Frame* frame_ = nullptr;
  bool ignore_guard_ = false;
  std::vector<Instruction> behind_;                // to be appended when the statement is done
  std::uint64_t touched_ = 0;                      // operands that the row has looked at
  std::vector<std::vector<Slot>> used_registers_;  // by index in Entry::statements
  std::map<Slot, std::uint16_t> watched_;          // index in Entry::watch
  std::vector<bool> watcher_;                      // likewise: it owns registers, and checks by itself
};

}  // namespace jfa::simulator
