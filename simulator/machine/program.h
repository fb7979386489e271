// Decoded code: what the parser and the decoder make of one entry, and what the machine runs.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "simulator/ptx/types.h"

namespace jfa::simulator {

class Warp;
struct Entry;
struct Instruction;

/// What the interpreter does after an instruction.
enum class Step : std::uint8_t {
  kNext,   // go to the next instruction
  kYield,  // the same, but let others run first: a poll that found nothing
  kMoved,  // the handler has set the split's pc, or split it
  kRetry,  // run the same instruction again, with whatever lanes the split has by now
  kWait,   // Warp::wait_for was called
  kExit,   // the active lanes have left
};

/// Where control may go behind an instruction.
enum class Flow : std::uint8_t { kNext, kBranch, kExit };

inline constexpr std::uint32_t kNoPc = 0xffffffffu;

/// Executes one instruction for the active lanes: never zero, guard already applied.
using Handler = Step (*)(Warp& warp, const Instruction& instruction, LaneMask active);

struct Instruction {
  Handler handler = nullptr;
  std::array<Slot, 6> operand = {kNoSlot, kNoSlot, kNoSlot, kNoSlot, kNoSlot, kNoSlot};  // destination first
  std::int64_t immediate = 0;   // displacement of the address, or what the family likes
  const void* extra = nullptr;  // decoded data of the family, owned by the Entry; see Decoder::attach
  Slot guard = kNoSlot;         // predicate slot
  bool guard_negated = false;
  Flow flow = Flow::kNext;
  bool converged = false;               // see Decoder::require_converged
  std::uint8_t small[2] = {0, 0};       // what the family likes
  std::uint32_t target = 0;             // branches: the pc to go to
  std::uint32_t reconvergence = kNoPc;  // branches: the pc where the paths meet again
  std::uint32_t statement = 0;          // index into Entry::statements

  template <class T>
  const T& data() const {
    return *static_cast<const T*>(extra);
  }
};

/// Where a PTX statement came from.
/// The asynchronous engines of an SM.
enum class Engine : std::uint8_t { kCopy, kTensorCore, kCommit };

struct StatementPlace {
  std::string text;  // the statement as written, on one line
  int ptx_line = 0;
  int file = 0;  // index into Module::files; 0 unknown
  int source_line = 0;
  Engine engine = Engine::kCopy;  // which runs what its instruction posts
};

struct Parameter {
  std::string name;
  std::uint32_t offset = 0;  // in the parameter buffer
  std::uint32_t size_bytes = 0;
  std::uint32_t alignment = 1;
};

/// A slot whose value is known only when a warp starts.
enum class SpecialRegister : std::uint8_t {
  kTidX,
  kTidY,
  kTidZ,
  kNtidX,
  kNtidY,
  kNtidZ,
  kCtaidX,
  kCtaidY,
  kCtaidZ,
  kNctaidX,
  kNctaidY,
  kNctaidZ,
  kLaneid,
  kWarpid,
  kNwarpid,
  kSmid,
  kNsmid,
  kGridid,
  kLanemaskEq,
  kLanemaskLe,
  kLanemaskLt,
  kLanemaskGe,
  kLanemaskGt,
  kClusteridX,
  kClusteridY,
  kClusteridZ,
  kNclusteridX,
  kNclusteridY,
  kNclusteridZ,
  kClusterCtaidX,
  kClusterCtaidY,
  kClusterCtaidZ,
  kClusterNctaidX,
  kClusterNctaidY,
  kClusterNctaidZ,
  kClusterCtarank,
  kClusterNctarank,
  kIsExplicitCluster,
  kDynamicSmemSize,
  kTotalSmemSize,
};
struct SpecialSlot {
  Slot slot = 0;
  SpecialRegister which{};
};
struct ConstantSlot {
  Slot slot = 0;
  std::uint64_t value = 0;  // in every lane
  std::uint8_t bits = 32;   // 1 (a predicate), 32 or 64
};
/// A slot with the address of a shared variable: the offset, and the CTA's rank above it, and the window if
/// generic.
struct SharedAddressSlot {
  Slot slot = 0;
  std::uint32_t offset = 0;  // of the variable; relative to the arena if dynamic
  bool dynamic = false;      // .extern .shared
  std::uint8_t bits = 32;
};

/// Registers that an asynchronous engine may own while the warp goes on, and the instructions that use them:
/// they run through a handler that checks first. See Decoder::watch.
struct RegisterWatch {
  struct Use {
    Handler handler = nullptr;             // the instruction's own
    std::vector<std::uint16_t> registers;  // that it reads or writes, by index
  };
  std::vector<std::string> names;  // of the watched registers, by index
  std::vector<Use> uses;
  std::vector<std::uint32_t> use_of_pc;  // index into uses; empty if nothing is watched
  Handler guard = nullptr;               // runs in place of the instructions that use them
};

/// One kernel.
struct Entry {
  std::string name;
  std::vector<Instruction> code;  // ends with an exit
  std::vector<StatementPlace> statements;
  std::vector<Parameter> parameters;
  std::uint32_t parameter_bytes = 0;
  std::uint32_t static_shared_bytes = 0;  // without the reserved ones
  std::uint32_t shared_alignment = 16;    // of the static part
  std::uint32_t dynamic_alignment = 16;   // of .extern .shared
  std::uint32_t local_bytes = 0;          // per thread
  std::uint32_t register_file_bytes = 0;  // per warp, with constants
  std::vector<SpecialSlot> specials;
  std::vector<ConstantSlot> constants;
  std::vector<Slot> predicates;
  std::vector<SharedAddressSlot> shared_addresses;
  std::vector<Parameter> shared_variables;  // static ones, offsets as in SharedAddressSlot
  std::uint32_t max_threads = 1024;         // .maxntid, or the product of .reqntid
  Dim3 required_block{0, 0, 0};             // .reqntid, zeros: none
  Dim3 required_cluster{0, 0, 0};           // .reqnctapercluster
  std::uint32_t min_ctas_per_sm = 0;
  std::uint32_t max_registers = 0;
  int cta_group = 0;       // of its tcgen05 instructions; 0: none has one
  int cta_group_line = 0;  // of the PTX: the first that has
  RegisterWatch watch;
  std::vector<std::shared_ptr<void>> owned;  // what Instruction::extra points to
};

}  // namespace jfa::simulator
