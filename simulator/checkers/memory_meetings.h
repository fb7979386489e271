// Where threads meet by way of memory: strong writes leave what their threads have published, strong reads
// find it.
#pragma once

#include <cstdint>
#include <unordered_map>

#include "simulator/machine/happens_before.h"
#include "simulator/machine/memory_order.h"
#include "simulator/ptx/types.h"

namespace jfa::simulator {

/// Who accesses memory now.
struct MemoryAccessor {
  HappensBefore* order = nullptr;
  WarpClock* clock = nullptr;
  int lane = 0;
  LaneMask live = 0;
  LaneMask bit() const { return LaneMask{1} << lane; }
};
/// The lane of the point, 0 if it has none.
MemoryAccessor accessor_of(const ProgramPoint& point);

/// Of one grid's global memory, or one CTA's shared memory.
class MemoryMeetings {
 public:
  /// What writers have left at the place is acquired, at once or by the thread's next fence.
  void read(std::uint64_t address, std::uint32_t bytes, const MemoryAccessor& accessor,
            const MemoryOrder& order);
  /// A release, or a relaxed write behind a fence, leaves what its thread has published. An atomic adds to
  /// what it has found; any other write takes its place.
  void write(std::uint64_t address, std::uint32_t bytes, const MemoryAccessor& accessor,
             const MemoryOrder& order);

 private:
  std::unordered_map<std::uint64_t, WarpClock::Published> left_;  // by word
};

}  // namespace jfa::simulator
