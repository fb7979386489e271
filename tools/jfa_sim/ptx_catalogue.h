// The instructions of the PTX ISA (9.0), by family, to say which of them the simulator does not know.
#pragma once

#include <span>
#include <string_view>

namespace jfa::sim {

struct Family {
  std::string_view name;
  /// Separated by spaces. An instruction is an opcode with the modifiers that make it one of its own.
  std::string_view instructions;
};

std::span<const Family> ptx_families();

/// Why an instruction of the catalogue is not simulated; empty if nothing is on record.
std::string_view why_not_supported(std::string_view instruction);

}  // namespace jfa::sim
