// What the files of the tcgen05 family share.
#pragma once

#include "simulator/decode/instruction_table.h"

namespace jfa::simulator {

/// The N of `.cta_group::N`, which all of the kernel's instructions must have.
int cta_group(Decoder& d);

/// An operand `[taddr + displacement]`: a 32-bit register, lane in bits 31:16, column below.
AddressOperand tensor_address_operand(Decoder& d, int index);

/// tcgen05.alloc, dealloc, relinquish_alloc_permit.
void register_tcgen05_alloc(InstructionTable& table);
/// tcgen05.mma.
void register_tcgen05_mma(InstructionTable& table);
/// tcgen05.ld, st, wait::ld, wait::st.
void register_tcgen05_memory(InstructionTable& table);

}  // namespace jfa::simulator
