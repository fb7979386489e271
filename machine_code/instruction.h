// One instruction of sm_90a or sm_100: 128 bits, of which the opcode, the guard, a branch's target and the
// control word are read.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "machine_code/cubin.h"
#include "machine_code/opcodes.h"

namespace jfa::machine_code {

inline constexpr std::size_t kInstructionBytes = 16;

enum class Flow : std::uint8_t {
  next,
  branch,       // to `target`
  conditional,  // to `target` or on
  indirect,     // to one of a list
  end,
};

inline constexpr unsigned kNoScoreboard = 7;

struct Instruction {
  std::uint32_t address = 0;  // within the entry
  std::uint64_t low = 0, high = 0;
  const Opcode* opcode = nullptr;  // nullptr: unknown
  Flow flow = Flow::next;
  std::uint32_t target = 0;

  // Bits 105 to 125, which the compiler writes and the hardware obeys.
  unsigned stall = 0;                         // cycles until the warp's next instruction may issue
  unsigned write_scoreboard = kNoScoreboard;  // released when the result is there
  unsigned read_scoreboard = kNoScoreboard;   // released when the operands have been read
  unsigned waits = 0;                         // for scoreboards, one bit each
  bool guarded = false;                       // a predicate decides, thread by thread

  unsigned low_bits() const { return low & 0xfff; }
  /// nvdisasm's, or the low 12 bits if the table lacks the opcode.
  std::string name() const;
  bool is(std::string_view opcode_name) const { return opcode != nullptr && opcode->name == opcode_name; }
  bool is_exponential() const;    ///< MUFU.EX2
  bool commits_products() const;  ///< the last wgmma of a group
  /// Of a wait for wgmma groups: how many may still be on their way.
  std::optional<unsigned> product_groups_left() const;
};

/// All instructions of an entry. kInvalidArgument begins with `where` and names the file's offset of a branch
/// that leaves the entry, or of an indirect one whose targets the cubin does not list.
Result<std::vector<Instruction>> decode(std::string_view where, const CubinEntry& entry);

}  // namespace jfa::machine_code
