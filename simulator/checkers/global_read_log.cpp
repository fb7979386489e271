#include "simulator/checkers/global_read_log.h"

#include <algorithm>
#include <tuple>

namespace jfa::simulator {

void GlobalReadLog::append(std::uint32_t offset, std::uint32_t bytes, const GlobalAccess& access) {
  constexpr std::size_t kWorthwhile = 64;
  if (runs_.size() >= kWorthwhile && runs_.size() == runs_.capacity()) {
    forget_repeated();
    if (runs_.size() > runs_.capacity() / 2) runs_.reserve(2 * runs_.capacity());
  }
  Run& run = runs_.emplace_back();
  run.access = access;
  run.offset = static_cast<std::uint16_t>(offset);
  run.bytes = static_cast<std::uint16_t>(bytes);
}

// Lanes that have read the same again: who is ordered behind that is behind what they read before. Of
// operations that is not so, which need not end in the order of their beginnings.
void GlobalReadLog::forget_repeated() {
  const auto key = [](const Run& r) {
    return std::make_tuple(r.access.operation ? r.access.tick : 0u, r.access.cluster, r.access.strand,
                           r.access.lanes, r.offset, r.bytes, r.stride, r.count);
  };
  std::sort(runs_.begin(), runs_.end(), [&](const Run& a, const Run& b) {
    return std::make_tuple(key(a), b.access.tick) < std::make_tuple(key(b), a.access.tick);
  });
  runs_.erase(
      std::unique(runs_.begin(), runs_.end(), [&](const Run& a, const Run& b) { return key(a) == key(b); }),
      runs_.end());
  // take() promises a thread's reads in their order.
  std::sort(runs_.begin(), runs_.end(),
            [](const Run& a, const Run& b) { return a.access.tick < b.access.tick; });
}

}  // namespace jfa::simulator
