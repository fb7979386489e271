// Which line of the PTX an instruction was made of: the line program that ptxas writes beside the code.
#pragma once

#include <cstdint>
#include <map>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace jfa::machine_code {

/// A row: instructions from this address on, up to the next row's, are of this line.
struct LineRow {
  std::uint32_t address = 0;
  int line = 0;
};

/// The rows of a line program (DWARF 2), sequence by sequence. Addresses are within an entry; which entry a
/// sequence belongs to says the relocation of its first address, by the offset of that in the section.
struct LineSequence {
  std::size_t relocated_at = 0;
  std::vector<LineRow> rows;  // by address
};

/// kInvalidArgument names the offset of what is not a line program.
Result<std::vector<LineSequence>> read_line_program(std::string_view section);

/// Lines of `count` instructions.
std::vector<int> lines_of(const LineSequence& sequence, std::size_t count);

}  // namespace jfa::machine_code
