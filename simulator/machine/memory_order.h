// How an access of memory takes part in its order, as the qualifiers of the instruction say.
#pragma once

#include <cstdint>

namespace jfa::simulator {

/// Among whom a strong access or a fence orders. .sys is kGpu here: there is one device.
enum class MemoryScope : std::uint8_t { kCta, kCluster, kGpu };

enum class MemoryAccess : std::uint8_t { kRead, kWrite };

struct MemoryOrder {
  bool strong = false;  ///< volatile, relaxed, acquire, release or atomic: no race with others of its scope
  bool acquires = false;
  bool releases = false;
  bool updates = false;  ///< an atomic: what it writes follows what it has read
  MemoryScope scope = MemoryScope::kGpu;
};

}  // namespace jfa::simulator
