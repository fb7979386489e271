// The loops of an entry: blocks, dominators, natural loops.
#pragma once

#include <cstddef>
#include <vector>

#include "machine_code/cubin.h"
#include "machine_code/instruction.h"

namespace jfa::machine_code {

/// Instructions that run one after the other.
struct Block {
  std::size_t begin = 0, end = 0;  // of the entry's instructions
  std::vector<std::size_t> next;   // blocks
};

struct Loop {
  std::size_t head = 0;             // block
  std::vector<std::size_t> blocks;  // all that come back to the head, in the order of Flow
  int depth = 1;                    // 1: in no other loop
  bool innermost = true;
  bool waits =
      false;  // polls a barrier and does nothing else: counted as straight code of the loop around it
};

struct FlowGraph {
  std::vector<Block> blocks;
  /// Blocks that branches reach from the entry, every one behind those that lead to it but for loops; where a
  /// branch may be taken or not, what is not taken comes first. Subroutines, and code for warps that came
  /// apart, are not reached.
  std::vector<std::size_t> order;
  std::vector<Loop> loops;  // outer ones in front of inner ones, otherwise in `order` of their heads
  /// Ways back that are no loop, since there are two ways into it.
  int irreducible = 0;
};

FlowGraph flow_graph(const std::vector<Instruction>& instructions, const IndirectTargets& indirect);

}  // namespace jfa::machine_code
