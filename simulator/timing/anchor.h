// Anchors: instructions that PTX and machine code have one for one.
#pragma once

#include <cstdint>
#include <string_view>

#include "machine_code/instruction.h"

namespace jfa::simulator::timing {

enum class Anchor : std::uint8_t {
  none,
  tensor_load,
  tensor_store,
  product,
  commit,
  mbarrier,       // arrivals, inits
  mbarrier_wait,  // try_wait, test_wait
  barrier,        // named ones
  cluster_arrive,
  cluster_wait,
  copy_in,
  copy_out,
  copy_commit,
  copy_wait,
  registers,  // setmaxnreg
  atomic,
};

/// Of a PTX statement, as written. Shuffles, votes, elect.sync and redux are
/// none: the compiler moves them.
Anchor anchor_of(std::string_view statement);
/// Whether a machine instruction is what an anchor becomes.
bool realizes(const machine_code::Instruction& instruction, Anchor anchor);
/// What has no counterpart in the machine code is an error; of the others the compiler may drop some.
bool is_indispensable(Anchor anchor);

/// ld.shared, st.shared: no anchors, since the compiler moves them, but as many as in PTX.
bool accesses_shared(std::string_view statement);
/// Whether a machine instruction of such a statement is the access; not what its address was loaded by.
bool realizes_access(const machine_code::Instruction& instruction);

/// Instructions whose time the model does not know, so that a kernel with them is refused: wgmma, mma.sync
/// and copies into tensor memory. Empty: none.
std::string_view unmodelled(std::string_view statement);

/// Bytes that a warp's ld, st, tcgen05.ld or tcgen05.st moves when all lanes take part.
std::uint32_t bytes_of_warp(std::string_view statement);

}  // namespace jfa::simulator::timing
