#pragma once

namespace jfa::simulator {

class InstructionTable;

/// cp.async, the copies of single threads: 4, 8 or 16 bytes each.
void register_async_copy(InstructionTable& table);

}  // namespace jfa::simulator
