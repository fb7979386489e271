// What a grid has read of a page of global memory that it has not written: most pages stay so, and what they
// cost is one entry for a warp's load, or for a copy's rows.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "simulator/checkers/global_access.h"

namespace jfa::simulator {

/// Of one page of at most 32 KiB.
class GlobalReadLog {
 public:
  /// A weak read of bytes of the page by one lane, or by an operation.
  void add(std::uint32_t offset, std::uint32_t bytes, const GlobalAccess& access) {
    if (runs_.empty() || !runs_.back().extend(offset, bytes, access)) append(offset, bytes, access);
  }

  /// Calls visit(offset, bytes, access) for every read that a later one of the same thread does not stand
  /// for, those of a thread in the order in which it made them, then forgets them.
  template <class Visit>
  void take(Visit visit) {
    for (const Run& run : runs_) {
      GlobalAccess access = run.access;
      LaneMask lanes = run.access.lanes;
      for (int i = 0; i < run.count; ++i, lanes &= lanes - 1) {
        if (!access.operation) access.lanes = lanes & -lanes;
        visit(static_cast<std::uint32_t>(run.offset + i * run.stride), std::uint32_t{run.bytes}, access);
      }
    }
    runs_ = {};
  }

  std::size_t size() const { return runs_.size(); }

 private:
  // Reads at equal distances, by one lane each in ascending order, or all by one operation.
  struct Run {
    GlobalAccess access;  // of all
    std::uint16_t offset = 0, bytes = 0;
    std::int16_t stride = 0;
    std::uint16_t count = 1;

    bool extend(std::uint32_t next, std::uint32_t next_bytes, const GlobalAccess& next_access) {
      if (!access.together(next_access) || access.pc != next_access.pc || bytes != next_bytes) return false;
      if (!access.operation && next_access.lanes <= access.lanes) return false;
      if (access.operation && count == 0xffff) return false;
      const auto step = static_cast<std::int16_t>(static_cast<int>(next) - offset - (count - 1) * stride);
      if (count == 1)
        stride = step;
      else if (step != stride)
        return false;
      access.lanes |= next_access.lanes;
      ++count;
      return true;
    }
  };
  void append(std::uint32_t offset, std::uint32_t bytes, const GlobalAccess& access);
  void forget_repeated();

  std::vector<Run> runs_;
};

}  // namespace jfa::simulator
