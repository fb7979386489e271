// What an instruction of a cubin is called and which pipe it takes: one table, opcode_table.cpp.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace jfa::machine_code {

enum class Pipe : std::uint8_t {
  fma,            // FFMA, FADD, FMUL, IMAD and their packed forms
  alu,            // compares, selects, maxima, integers, packing of 16-bit elements
  xu,             // MUFU, conversions and bit counts
  lsu,            // shared, global, local and constant memory, shuffles
  tensor_memory,  // LDTM, STTM
  tensor,         // UTC*MMA, HGMMA, HMMA
  bulk,           // the TMA: copies, reductions and prefetches by one thread
  sync,           // mbarriers, CTA and cluster barriers, fences, waits for what is asynchronous
  uniform,        // the uniform datapath, and moves to it
  branch,         // whatever changes or guards the flow of a warp
  other,
};
inline constexpr std::size_t kPipeCount = 11;
std::string_view to_string(Pipe pipe);

/// Bits 0 to 8 of an instruction are its opcode, bits 9 to 11 say where its operands come from, which of a
/// few opcodes makes instructions of their own.
inline constexpr unsigned kAnyForm = 8;
struct Opcode {
  std::uint16_t number;  // 9 bits
  std::uint8_t form;     // 3 bits, or kAnyForm
  std::string_view name;
  Pipe pipe;
  std::uint8_t
      cycles;  // model: that one instruction of a warp keeps the pipe of its SM quarter busy; 0: not modelled
};

std::span<const Opcode> opcode_table();
/// By the low 12 bits of an instruction; nullptr if the table lacks it.
const Opcode* find_opcode(unsigned low_bits);

}  // namespace jfa::machine_code
