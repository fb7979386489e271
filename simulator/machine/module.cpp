#include <algorithm>

#include "simulator/machine/launch.h"

namespace jfa::simulator {

Module::~Module() {
  for (const std::uint64_t address : variables_) memory_->free(address);
}

const Entry* Module::find(const std::string& name) const {
  for (const auto& entry : entries_)
    if (entry->name == name) return entry.get();
  return nullptr;
}

std::string Module::source_line(int file, int line) const {
  const auto index = static_cast<std::size_t>(line) - 1;
  return file == 1 && line > 0 && index < source_lines_.size() ? source_lines_[index] : std::string();
}

int resident_ctas_per_sm(const Entry& entry, std::uint32_t threads, std::uint32_t dynamic_shared_bytes) {
  const std::uint32_t shared = kReservedSharedBytes + entry.static_shared_bytes + dynamic_shared_bytes;
  const std::uint32_t rounded_threads = (threads + kWarpSize - 1) / kWarpSize * kWarpSize;
  if (rounded_threads == 0 || shared - kReservedSharedBytes > kMaxSharedBytesPerCta) return 0;
  return static_cast<int>(
      std::min({kSharedBytesPerSm / shared, kMaxThreadsPerSm / rounded_threads, kMaxCtasPerSm}));
}

}  // namespace jfa::simulator
