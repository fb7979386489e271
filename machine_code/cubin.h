// The machine code of a cubin, entry by entry, out of its ELF file.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace jfa::machine_code {

/// Where an indirect branch may go: addresses by the branch's own.
using IndirectTargets = std::map<std::uint32_t, std::vector<std::uint32_t>>;

struct CubinEntry {
  std::string name;
  std::string_view code;   // instructions of 16 bytes; lives as long as the file
  std::size_t offset = 0;  // of the code, in the file
  IndirectTargets indirect;
  /// Lines of the PTX by instruction, 0: unknown. Empty if the cubin has none: it was compiled without
  /// --generate-line-info.
  std::vector<int> ptx_lines;
};

struct Cubin {
  int compute_capability = 0;       // 100 for 10.0, 90 for 9.0
  std::vector<CubinEntry> entries;  // in the file's order
};

/// Reads the bytes of a cubin, which must outlive the result. kInvalidArgument begins with `where` and names
/// the offset of what is no ELF file, is not a cubin or lies outside of the file.
Result<Cubin> read_cubin(std::string_view where, std::string_view file);

}  // namespace jfa::machine_code
