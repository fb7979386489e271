#include "cache/observer.h"

#include <cstdio>

#include "cache/write_signals.h"

namespace jfa {

Observer::Observer(const CacheOptions& options) : on_event_(options.on_event), log_(options.log) {
  if (log_) return;
  log_ = [](const std::string& line) {
    const WriteSignalBlock block;  // a line that nobody can read is no reason to end the process
    std::fprintf(stderr, "%s\n", line.c_str());
  };
}

void Observer::count(std::uint64_t CacheStats::*counter, std::uint64_t by) {
  const std::lock_guard lock(mutex_);
  stats_.*counter += by;
}

void Observer::add_compile_ms(double milliseconds) {
  const std::lock_guard lock(mutex_);
  stats_.compile_ms += milliseconds;
}

CacheStats Observer::stats() const {
  const std::lock_guard lock(mutex_);
  return stats_;
}

void Observer::tell(const CacheEvent& event) const {
  if (on_event_) on_event_(event);
}

void Observer::log(const std::string& line) const { log_("jfa: " + line); }

void Observer::degrade(const std::string& cause, const std::string& where, const std::string& line) {
  {
    const std::lock_guard lock(mutex_);
    if (!told_causes_.insert(cause).second) return;
  }
  tell({CacheEvent::Kind::kDegrade, {}, {}, where, line});
  log(line);
}

}  // namespace jfa
