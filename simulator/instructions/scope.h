// The scope among an instruction's modifiers.
#pragma once

#include "simulator/decode/instruction_table.h"
#include "simulator/machine/memory_order.h"

namespace jfa::simulator {

inline MemoryScope scope_of(const Decoder& d) {
  if (d.has("cta")) return MemoryScope::kCta;
  return d.has("cluster") ? MemoryScope::kCluster : MemoryScope::kGpu;
}

}  // namespace jfa::simulator
