// Cubins written by hand, for tests of what reads them.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace jfa::test {

/// The 128 bits of an instruction.
struct Bits {
  std::uint64_t low = 0, high = 0;
};

/// An opcode of 12 bits, without a guard, a destination or sources, that nobody waits for.
Bits instruction(unsigned opcode, unsigned stall = 1);
Bits guarded(Bits bits, unsigned predicate);
Bits writes(Bits bits, unsigned scoreboard);
Bits waits_for(Bits bits, unsigned scoreboard);
/// BRA from one instruction to another, by index.
Bits branch(int from, int to);
Bits exponential();

struct CodeEntry {
  std::string name;
  std::vector<Bits> code;
  std::vector<std::pair<std::uint32_t, std::vector<std::uint32_t>>> indirect;  // branches and their targets
};

/// A cubin with these entries, and no more of an ELF file than is read.
std::string cubin_of(const std::vector<CodeEntry>& entries);

}  // namespace jfa::test
