#include "machine_code/instruction.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>

namespace jfa::machine_code {
namespace {

constexpr unsigned kAlways = 7;  // the predicate that is always true

unsigned field(std::uint64_t word, unsigned first, unsigned bits) {
  return static_cast<unsigned>(word >> first & ((1u << bits) - 1));
}

// A branch counts words of 4 bytes from its successor on: the low 8 bits at bit 16, the others from bit 34
// to 81.
std::int64_t branch_target(const Instruction& instruction) {
  const std::uint64_t upper = instruction.low >> 34 | instruction.high << 30;
  const auto words = static_cast<std::int64_t>(upper << 16) >> 16;
  return std::int64_t{instruction.address} + std::int64_t{kInstructionBytes} +
         (words * 256 + field(instruction.low, 16, 8)) * 4;
}

// Whether all threads do what the instruction says: no guard, no second predicate, no uniform operand.
bool unconditional(const Instruction& instruction) {
  constexpr unsigned kPlainForm = 4;
  return field(instruction.low, 12, 4) == kAlways && field(instruction.high, 23, 4) == kAlways &&
         field(instruction.high, 27, 1) == 0 && instruction.low_bits() >> 9 == kPlainForm;
}

// BRA.DIV goes where lanes that came apart are gathered one by one, which is never the way of a hot loop.
bool leaves_for_divergence(const Instruction& instruction) {
  return instruction.low_bits() == 0x947 && field(instruction.high, 27, 1) != 0;
}

Flow flow_of(const Instruction& instruction) {
  if (instruction.is("BRA")) {
    if (leaves_for_divergence(instruction)) return Flow::next;
    return unconditional(instruction) ? Flow::branch : Flow::conditional;
  }
  if (instruction.is("BRX")) return Flow::indirect;
  const bool ends = instruction.is("EXIT") || instruction.is("RET");
  return ends && unconditional(instruction) ? Flow::end : Flow::next;
}

Instruction decode_one(std::string_view code, std::uint32_t address) {
  Instruction instruction;
  instruction.address = address;
  std::memcpy(&instruction.low, code.data() + address, sizeof(instruction.low));
  std::memcpy(&instruction.high, code.data() + address + sizeof(instruction.low), sizeof(instruction.high));
  instruction.opcode = find_opcode(instruction.low_bits());
  instruction.stall = field(instruction.high, 41, 4);
  instruction.write_scoreboard = field(instruction.high, 46, 3);
  instruction.read_scoreboard = field(instruction.high, 49, 3);
  instruction.waits = field(instruction.high, 52, 6);
  instruction.guarded = field(instruction.low, 12, 4) != kAlways;
  instruction.flow = flow_of(instruction);
  return instruction;
}

}  // namespace

std::string Instruction::name() const {
  return opcode != nullptr ? std::string(opcode->name) : fmt::format("{:#05x}", low_bits());
}

bool Instruction::is_exponential() const {
  constexpr unsigned kExp2 = 2;
  return is("MUFU") && field(high, 10, 4) == kExp2;
}

bool Instruction::commits_products() const {
  constexpr unsigned kNoGroup = 7;
  return (is("HGMMA") || is("QGMMA") || is("IGMMA")) && field(high, 20, 3) != kNoGroup;
}

std::optional<unsigned> Instruction::product_groups_left() const {
  if (!is("WARPGROUP") || field(high, 16, 1) == 0) return std::nullopt;
  return field(high, 8, 3);
}

Result<std::vector<Instruction>> decode(std::string_view where, const CubinEntry& entry) {
  static_assert(std::endian::native == std::endian::little);
  std::vector<Instruction> instructions;
  const auto error = [&](const Instruction& instruction, std::string_view what) {
    return Status::invalid_argument(fmt::format("{}: offset {}: {} of entry '{}' {}", where,
                                                entry.offset + instruction.address, instruction.name(),
                                                entry.name, what));
  };
  const auto outside = [&](std::int64_t target) {
    return target < 0 || target % std::int64_t{kInstructionBytes} != 0 ||
           target >= static_cast<std::int64_t>(entry.code.size());
  };
  for (std::size_t at = 0; at < entry.code.size(); at += kInstructionBytes) {
    Instruction instruction = decode_one(entry.code, static_cast<std::uint32_t>(at));
    if (instruction.flow == Flow::branch || instruction.flow == Flow::conditional) {
      const std::int64_t target = branch_target(instruction);
      if (outside(target)) return error(instruction, fmt::format("goes to {:#x}, outside of it", target));
      instruction.target = static_cast<std::uint32_t>(target);
    }
    if (instruction.flow == Flow::indirect) {
      const auto targets = entry.indirect.find(instruction.address);
      if (targets == entry.indirect.end()) return error(instruction, "has no list of targets");
      for (const std::uint32_t target : targets->second)
        if (outside(target)) return error(instruction, fmt::format("goes to {:#x}, outside of it", target));
    }
    instructions.push_back(instruction);
  }
  return instructions;
}

}  // namespace jfa::machine_code
