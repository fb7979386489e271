// What the machine code of a cubin does, loop by loop. Everything is counted from the code: nothing here was
// measured.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "machine_code/opcodes.h"

namespace jfa::lint {

using namespace machine_code;  // NOLINT(google-build-using-namespace): the words of this room are its

/// A loop's task, told by what it contains.
enum class Role : std::uint8_t {
  attend,    // exponentials of a tile; on sm_90a its products too
  multiply,  // products
  unload,    // tensor memory to elsewhere, or into it
  load,      // the TMA's copies to shared memory
  store,     // the TMA's copies and sums from shared memory
  memory,    // global memory, by threads
  other,
};
std::string_view to_string(Role role);

/// A wait for wgmma groups.
struct ProductWait {
  unsigned groups_left = 0;      // that may still be on their way
  int cycles_behind = 0;         // issue cycles since the latest group was committed
  int earlier_waits = 0;         // since then
  int exponentials_between = 0;  // since then
  int exponentials_behind = 0;   // from the wait to the next product

  bool operator==(const ProductWait&) const = default;
};

/// Every instruction of the loop's body is counted once, whichever way a tile takes, but for those of inner
/// loops that do more than wait.
struct LoopFigures {
  Role role = Role::other;
  int depth = 1;  // 1: in no other loop
  bool innermost = true;
  std::uint32_t address = 0;  // of the first instruction

  int instructions = 0;
  int issue_cycles = 0;                       // model: the sum of stall counts, what the compiler planned for
  std::array<int, kPipeCount> by_pipe{};      // instructions
  std::array<int, kPipeCount> pipe_cycles{};  // model: that they keep fma, alu and xu of an SM quarter busy
  std::map<std::string, int> unknown;         // instructions by opcode

  int exponentials = 0;
  int scoreboard_waits = 0;  // instructions that wait for a result
  int branches = 0;
  int to_uniform = 0;            // R2UR
  int packed = 0, unpacked = 0;  // FFMA2, FADD2, FMUL2; FFMA, FADD, FMUL
  int compares = 0, selects = 0;
  /// On the way with all of its exponentials and the fewest compares and selects: that of a tile without a
  /// mask.
  int unmasked_compares = 0, unmasked_selects = 0;
  int tensor_loads = 0, tensor_stores = 0;
  int lone_tensor_loads = 0;  // waited for at once, none other in flight
  std::vector<ProductWait> product_waits;
};

struct EntryFigures {
  std::string name;
  int instructions = 0;
  int not_reached = 0;  // in subroutines and in what warps do that came apart
  int waiting_loops = 0;
  int irreducible_loops = 0;           // ways back into a loop with two entries, which is not listed
  std::map<std::string, int> unknown;  // in the whole entry, by opcode
  std::vector<LoopFigures> loops;      // but for those that only wait
};

struct Figures {
  int compute_capability = 0;  // 100 for 10.0, 90 for 9.0
  std::vector<EntryFigures> entries;
};

/// Of a cubin's bytes. kInvalidArgument begins with `where`; see read_cubin() and decode().
Result<Figures> lint(std::string_view where, std::string_view cubin);

/// What is worth a look in a loop, a line each.
std::vector<std::string> findings(const LoopFigures& loop, int compute_capability);

/// For people.
std::string text_of(const Figures& figures);
/// JSON, a loop a line. Figures that are 0 are left out, and so are loops of the role `other`.
std::string json_of(const Figures& figures);

}  // namespace jfa::lint
