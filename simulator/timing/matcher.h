// The way of a warp through the machine code, found from what it did in PTX.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "machine_code/cubin.h"
#include "machine_code/instruction.h"
#include "machine_code/loops.h"
#include "simulator/machine/program.h"
#include "simulator/machine/recorder.h"
#include "simulator/timing/anchor.h"

namespace jfa::simulator::timing {

/// The machine code of an entry beside its PTX.
struct MachineEntry {
  std::string name;
  std::vector<machine_code::Instruction> code;
  std::vector<int> ptx_lines;             // by instruction; 0: unknown
  std::vector<std::uint32_t> statements;  // by instruction: index into Entry::statements, or kNoStatement
  std::vector<Anchor> anchors;            // by instruction: what it realizes of its own statement
  machine_code::FlowGraph graph;
  static constexpr std::uint32_t kNoStatement = 0xffffffffu;
};

/// kInvalidArgument if the cubin lacks the entry or line information, or the PTX has what the model does not
/// know.
Result<MachineEntry> machine_entry(std::string_view where, const machine_code::Cubin& cubin,
                                   const Entry& entry);

/// A machine instruction that a warp issues.
struct Step {
  static constexpr std::uint32_t kNoEvent = 0xffffffffu;
  std::uint32_t instruction = 0;
  std::uint32_t event = kNoEvent;  // index into RecordedWarp::instructions: what it realizes

  Step(std::uint32_t instruction_index, std::uint32_t event_index)
      : instruction(instruction_index), event(event_index) {}
};

struct Way {
  std::vector<Step> steps;
  std::size_t segments = 0;   // from anchor to anchor
  std::size_t ambiguous = 0;  // of those: several ways fit equally well, and the shortest was taken
};

/// Ways of all warps of an entry; it remembers segments.
class Matcher {
 public:
  Matcher(const Entry& entry, const MachineEntry& machine);
  ~Matcher();
  /// kInvalidArgument names the two lines between which no way was found.
  Result<Way> match(const RecordedWarp& warp, std::string_view who);

 private:
  class Search;
  struct Candidate;
  struct Segment;
  const std::vector<Candidate>& ways(std::uint32_t from, const Segment& segment);
  std::string place(std::uint32_t statement) const;

  const Entry& entry_;
  const MachineEntry& machine_;
  std::vector<bool> begins_statement_;   // by pc
  std::vector<Anchor> anchors_;          // by statement, if the machine code has it
  std::vector<std::uint32_t> sites_;     // by statement: machine instructions made of it
  std::vector<std::uint32_t> block_of_;  // by machine instruction
  std::map<std::vector<std::uint64_t>, std::vector<Candidate>> memory_;
};

}  // namespace jfa::simulator::timing
