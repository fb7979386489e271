// The table of opcodes. opcode_table.py compares it with nvdisasm, instruction by instruction, over any
// cubins.
//
// Names are nvdisasm's. Cycles are a model. Those of FFMA, FADD, FMUL, IMAD, the packed forms, ISETP, FSEL,
// LOP3, FMNMX, F2FP and MUFU are how long the compiler's own schedules wait between two of a kind; what else
// goes through their pipes is taken to be like them.
#include <array>

#include "machine_code/opcodes.h"

namespace jfa::machine_code {
namespace {

// An opcode with a form of its own stands in front of its others.
constexpr Opcode kTable[] = {
    {0x002, kAnyForm, "MOV", Pipe::alu, 2},
    {0x003, kAnyForm, "P2R", Pipe::alu, 2},
    {0x004, kAnyForm, "R2P", Pipe::alu, 2},
    {0x005, kAnyForm, "CS2R", Pipe::other, 0},
    {0x006, kAnyForm, "VOTE", Pipe::other, 0},
    {0x007, kAnyForm, "SEL", Pipe::alu, 2},
    {0x008, kAnyForm, "FSEL", Pipe::alu, 2},
    {0x009, kAnyForm, "FMNMX", Pipe::alu, 2},
    {0x00b, kAnyForm, "FSETP", Pipe::alu, 2},
    {0x00c, kAnyForm, "ISETP", Pipe::alu, 2},
    {0x00f, kAnyForm, "VIMNMX3", Pipe::alu, 2},
    {0x010, kAnyForm, "IADD3", Pipe::alu, 2},
    {0x011, kAnyForm, "LEA", Pipe::alu, 2},
    {0x012, kAnyForm, "LOP3", Pipe::alu, 2},
    {0x013, kAnyForm, "IABS", Pipe::alu, 2},
    {0x014, kAnyForm, "VABSDIFF", Pipe::alu, 2},
    {0x016, kAnyForm, "PRMT", Pipe::alu, 2},
    {0x019, kAnyForm, "SHF", Pipe::alu, 2},
    {0x01b, kAnyForm, "BMSK", Pipe::alu, 2},
    {0x01c, kAnyForm, "PLOP3", Pipe::alu, 2},
    {0x020, kAnyForm, "FMUL", Pipe::fma, 1},
    {0x021, kAnyForm, "FADD", Pipe::fma, 1},
    {0x023, kAnyForm, "FFMA", Pipe::fma, 1},
    {0x024, kAnyForm, "IMAD", Pipe::fma, 1},
    {0x025, kAnyForm, "IMAD", Pipe::fma, 1},
    {0x026, kAnyForm, "IDP", Pipe::fma, 1},
    {0x027, kAnyForm, "IMAD", Pipe::fma, 1},
    {0x028, kAnyForm, "DMUL", Pipe::other, 0},
    {0x029, kAnyForm, "DADD", Pipe::other, 0},
    {0x02a, kAnyForm, "DSETP", Pipe::other, 0},
    {0x02b, kAnyForm, "DFMA", Pipe::other, 0},
    {0x02d, kAnyForm, "PREEXIT", Pipe::sync, 0},
    {0x02e, kAnyForm, "ACQBULK", Pipe::sync, 0},
    {0x02f, kAnyForm, "ELECT", Pipe::other, 0},
    {0x030, kAnyForm, "HADD2", Pipe::fma, 1},
    {0x031, kAnyForm, "HFMA2", Pipe::fma, 1},
    {0x032, kAnyForm, "HMUL2", Pipe::fma, 1},
    {0x033, kAnyForm, "HSET2", Pipe::alu, 2},
    {0x034, kAnyForm, "HSETP2", Pipe::alu, 2},
    {0x035, kAnyForm, "HFMA2", Pipe::fma, 1},
    {0x036, kAnyForm, "VIADD", Pipe::alu, 2},
    {0x037, kAnyForm, "IMMA", Pipe::tensor, 0},
    {0x03a, kAnyForm, "MOVM", Pipe::lsu, 0},
    {0x03b, kAnyForm, "LDSM", Pipe::lsu, 0},
    {0x03c, kAnyForm, "HMMA", Pipe::tensor, 0},
    {0x03e, kAnyForm, "F2FP", Pipe::alu, 2},
    {0x040, kAnyForm, "HMNMX2", Pipe::alu, 2},
    {0x044, kAnyForm, "STSM", Pipe::lsu, 0},
    {0x045, kAnyForm, "I2FP", Pipe::alu, 2},
    {0x046, kAnyForm, "VIADDMNMX", Pipe::alu, 2},
    {0x048, kAnyForm, "VIMNMX", Pipe::alu, 2},
    {0x049, kAnyForm, "FFMA2", Pipe::fma, 2},
    {0x04a, kAnyForm, "FMUL2", Pipe::fma, 2},
    {0x04b, kAnyForm, "FADD2", Pipe::fma, 2},
    {0x04c, kAnyForm, "UVIRTCOUNT", Pipe::uniform, 0},
    {0x076, kAnyForm, "FMNMX3", Pipe::alu, 2},
    {0x082, kAnyForm, "UMOV", Pipe::uniform, 0},
    {0x086, kAnyForm, "VOTEU", Pipe::uniform, 0},
    {0x087, kAnyForm, "USEL", Pipe::uniform, 0},
    {0x08c, kAnyForm, "UISETP", Pipe::uniform, 0},
    {0x090, kAnyForm, "UIADD3", Pipe::uniform, 0},
    {0x091, kAnyForm, "ULEA", Pipe::uniform, 0},
    {0x092, kAnyForm, "ULOP3", Pipe::uniform, 0},
    {0x099, kAnyForm, "USHF", Pipe::uniform, 0},
    {0x09b, kAnyForm, "UBMSK", Pipe::uniform, 0},
    {0x09c, kAnyForm, "UPLOP3", Pipe::uniform, 0},
    {0x0a4, kAnyForm, "UIMAD", Pipe::uniform, 0},
    {0x0a5, kAnyForm, "UIMAD", Pipe::uniform, 0},
    {0x0b9, kAnyForm, "ULDC", Pipe::lsu, 0},
    {0x0bd, kAnyForm, "UFLO", Pipe::uniform, 0},
    {0x0bf, kAnyForm, "UPOPC", Pipe::uniform, 0},
    {0x0ca, kAnyForm, "R2UR", Pipe::uniform, 0},
    {0x0cc, kAnyForm, "CREDUX", Pipe::uniform, 0},
    {0x100, kAnyForm, "FLO", Pipe::xu, 8},
    {0x101, kAnyForm, "BREV", Pipe::xu, 8},
    {0x102, kAnyForm, "FCHK", Pipe::other, 0},
    {0x105, kAnyForm, "F2I", Pipe::xu, 8},
    {0x106, kAnyForm, "I2F", Pipe::xu, 8},
    {0x107, kAnyForm, "FRND", Pipe::xu, 8},
    {0x108, kAnyForm, "MUFU", Pipe::xu, 8},
    {0x109, kAnyForm, "POPC", Pipe::xu, 8},
    {0x111, kAnyForm, "F2I", Pipe::xu, 8},
    {0x112, kAnyForm, "I2F", Pipe::xu, 8},
    {0x118, kAnyForm, "NOP", Pipe::other, 0},
    {0x119, kAnyForm, "S2R", Pipe::other, 0},
    {0x11a, kAnyForm, "DEPBAR", Pipe::sync, 0},
    {0x11b, kAnyForm, "ENDCOLLECTIVE", Pipe::branch, 0},
    {0x11d, kAnyForm, "BAR", Pipe::sync, 0},
    {0x141, kAnyForm, "BSYNC", Pipe::branch, 0},
    {0x142, kAnyForm, "BREAK", Pipe::branch, 0},
    {0x144, kAnyForm, "CALL", Pipe::branch, 0},
    {0x145, kAnyForm, "BSSY", Pipe::branch, 0},
    {0x146, kAnyForm, "YIELD", Pipe::branch, 0},
    {0x147, kAnyForm, "BRA", Pipe::branch, 0},
    {0x148, kAnyForm, "WARPSYNC", Pipe::branch, 0},
    {0x149, kAnyForm, "BRX", Pipe::branch, 0},
    {0x14d, kAnyForm, "EXIT", Pipe::branch, 0},
    {0x150, kAnyForm, "RET", Pipe::branch, 0},
    {0x15c, kAnyForm, "BPT", Pipe::branch, 0},
    {0x15d, kAnyForm, "NANOSLEEP", Pipe::sync, 0},
    {0x180, kAnyForm, "LD", Pipe::lsu, 0},
    {0x181, kAnyForm, "LDG", Pipe::lsu, 0},
    {0x182, kAnyForm, "LDC", Pipe::lsu, 0},
    {0x183, kAnyForm, "LDL", Pipe::lsu, 0},
    {0x184, kAnyForm, "LDS", Pipe::lsu, 0},
    {0x185, kAnyForm, "ST", Pipe::lsu, 0},
    {0x186, kAnyForm, "STG", Pipe::lsu, 0},
    {0x187, kAnyForm, "STL", Pipe::lsu, 0},
    {0x188, kAnyForm, "STS", Pipe::lsu, 0},
    {0x189, kAnyForm, "SHFL", Pipe::lsu, 0},
    {0x18c, kAnyForm, "ATOMS", Pipe::lsu, 0},
    {0x18d, kAnyForm, "ATOMS", Pipe::lsu, 0},
    {0x18f, kAnyForm, "CCTL", Pipe::lsu, 0},
    {0x192, kAnyForm, "MEMBAR", Pipe::sync, 0},
    {0x1a1, kAnyForm, "MATCH", Pipe::other, 0},
    {0x1a3, kAnyForm, "ATOMG", Pipe::lsu, 0},
    {0x1a6, kAnyForm, "REDG", Pipe::lsu, 0},
    {0x1a7, 2, "SYNCS.PHASECHK", Pipe::sync, 0},
    {0x1a7, kAnyForm, "SYNCS", Pipe::sync, 0},
    {0x1a8, kAnyForm, "ATOMG", Pipe::lsu, 0},
    {0x1a9, kAnyForm, "ATOMG", Pipe::lsu, 0},
    {0x1ab, 2, "CGAERRBAR", Pipe::sync, 0},
    {0x1ab, 4, "ERRBAR", Pipe::sync, 0},
    {0x1ac, kAnyForm, "LDCU", Pipe::lsu, 0},
    {0x1ae, kAnyForm, "LDGSTS", Pipe::lsu, 0},
    {0x1af, kAnyForm, "LDGDEPBAR", Pipe::sync, 0},
    {0x1b2, kAnyForm, "SYNCS", Pipe::sync, 0},
    {0x1b4, kAnyForm, "UTMALDG", Pipe::bulk, 0},
    {0x1b5, kAnyForm, "UTMASTG", Pipe::bulk, 0},
    {0x1b6, kAnyForm, "UTMAREDG", Pipe::bulk, 0},
    {0x1b7, kAnyForm, "UTMACMDFLUSH", Pipe::bulk, 0},
    {0x1b8, kAnyForm, "UTMAPF", Pipe::bulk, 0},
    {0x1b9, kAnyForm, "UTMACCTL", Pipe::bulk, 0},
    {0x1ba, kAnyForm, "UBLKCP", Pipe::bulk, 0},
    {0x1bb, kAnyForm, "UBLKRED", Pipe::bulk, 0},
    {0x1bc, kAnyForm, "UBLKPF", Pipe::bulk, 0},
    {0x1bd, kAnyForm, "STAS", Pipe::lsu, 0},
    {0x1c3, kAnyForm, "S2UR", Pipe::uniform, 0},
    {0x1c4, kAnyForm, "REDUX", Pipe::other, 0},
    {0x1c5, kAnyForm, "WARPGROUP", Pipe::sync, 0},
    {0x1c6, kAnyForm, "FENCE", Pipe::sync, 0},
    {0x1c7, 4, "UCGABAR_ARV", Pipe::sync, 0},
    {0x1c7, 6, "UCGABAR_WAIT", Pipe::sync, 0},
    {0x1c8, kAnyForm, "USETMAXREG", Pipe::uniform, 0},
    {0x1ca, kAnyForm, "UGETNEXTWORKID", Pipe::sync, 0},
    {0x1e3, kAnyForm, "UTCATOMSWS", Pipe::sync, 0},
    {0x1e7, kAnyForm, "UTCCP", Pipe::tensor, 0},
    {0x1e9, kAnyForm, "UTCBAR", Pipe::sync, 0},
    {0x1ea, kAnyForm, "UTC*MMA", Pipe::tensor, 0},
    {0x1ed, kAnyForm, "STTM", Pipe::tensor_memory, 0},
    {0x1ee, kAnyForm, "LDTM", Pipe::tensor_memory, 0},
    {0x1f0, kAnyForm, "HGMMA", Pipe::tensor, 0},
    {0x1f1, kAnyForm, "IGMMA", Pipe::tensor, 0},
    {0x1f3, kAnyForm, "QGMMA", Pipe::tensor, 0},
};

constexpr std::size_t kLowBits = 1 << 12;

}  // namespace

std::string_view to_string(Pipe pipe) {
  static constexpr std::array<std::string_view, kPipeCount> kNames{
      "fma", "alu", "xu", "lsu", "tensor_memory", "tensor", "bulk", "sync", "uniform", "branch", "other"};
  return kNames[static_cast<std::size_t>(pipe)];
}

std::span<const Opcode> opcode_table() { return kTable; }

const Opcode* find_opcode(unsigned low_bits) {
  static const std::array<const Opcode*, kLowBits> by_bits = [] {
    std::array<const Opcode*, kLowBits> found{};
    for (std::size_t bits = 0; bits < kLowBits; ++bits) {
      for (const Opcode& row : kTable) {
        if (row.number != (bits & 0x1ff) || (row.form != kAnyForm && row.form != bits >> 9)) continue;
        found[bits] = &row;
        break;
      }
    }
    return found;
  }();
  return by_bits[low_bits % kLowBits];
}

}  // namespace jfa::machine_code
