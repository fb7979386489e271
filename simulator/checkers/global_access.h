// What is remembered of an access of global memory.
#pragma once

#include <cstdint>

#include "simulator/machine/memory_order.h"
#include "simulator/machine/remote_clock.h"
#include "simulator/machine/vector_clock.h"
#include "simulator/ptx/types.h"

namespace jfa::simulator {

/// Accesses of some lanes of a warp in one tick; or of an asynchronous operation.
struct GlobalAccess {
  std::uint32_t tick = 0;  // 0: none. Of an operation: its id
  LaneMask lanes = 0;      // of an operation: that of the thread that issued it
  std::uint32_t pc = 0;
  ClusterId cluster = 0;
  Strand strand = 0;       // of the thread, also of an operation's
  std::uint8_t bytes = 0;  // of the four of a cell, a bit each
  bool strong : 1 = false;
  bool wrote : 1 = false;
  bool operation : 1 = false;
  MemoryScope scope : 2 = MemoryScope::kGpu;

  /// Whether both are of the same threads, or one operation, in one tick.
  bool together(const GlobalAccess& other) const {
    return tick == other.tick && cluster == other.cluster && strand == other.strand &&
           operation == other.operation;
  }
  bool same_kind(const GlobalAccess& other) const {
    return cluster == other.cluster && strand == other.strand && operation == other.operation &&
           strong == other.strong && wrote == other.wrote && scope == other.scope;
  }
  bool stands_for_earlier(const GlobalAccess& old, std::uint32_t synced) const {
    // What one thread stores in bulk ends in order; what it reads does not.
    if (operation) return wrote && old.lanes == lanes;
    return old.lanes == lanes || old.tick <= synced;
  }
};

}  // namespace jfa::simulator
