// Who wants to hear of every call.
#pragma once

#include <atomic>

namespace jfa {

enum CallWatcher : unsigned {
  kTraceWatcher = 1,  // a log at LogLevel::kTrace
  kRangeWatcher = 2,  // a tool that takes NVTX ranges
};

/// Of those above, as bits. What a call costs that nobody watches is one relaxed load of it.
inline constinit std::atomic<unsigned> call_watchers{0};

inline void set_call_watcher(CallWatcher watcher, bool on) {
  if (on)
    call_watchers.fetch_or(watcher, std::memory_order_relaxed);
  else
    call_watchers.fetch_and(~static_cast<unsigned>(watcher), std::memory_order_relaxed);
}

}  // namespace jfa
