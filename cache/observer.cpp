#include "cache/observer.h"

#include <cstdio>

#include "cache/log_record.h"

namespace jfa {
namespace {

constexpr std::size_t kShownDigits = 16;  // of a request's key, as messages have it

std::string record_of(const CacheEvent& event) {
  char elapsed_ms[32] = "";
  if (event.elapsed_ms != 0) std::snprintf(elapsed_ms, sizeof elapsed_ms, "%.1f", event.elapsed_ms);
  return log_record({"cache", to_string(event.kind), event.name, event.key.substr(0, kShownDigits),
                     elapsed_ms, event.where, event.detail});
}

// Whoever tells such an event has a warning or a notice for people.
bool has_sentence(CacheEvent::Kind kind) {
  using Kind = CacheEvent::Kind;
  return kind == Kind::kCompileSlow || kind == Kind::kDamage || kind == Kind::kDegrade;
}

}  // namespace

Observer::Observer(const CacheOptions& options) : on_event_(options.on_event), log_(options.log) {}

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
  if (!has_sentence(event.kind) && logs(LogLevel::kInfo)) log(LogLevel::kInfo, record_of(event));
}

bool Observer::logs(LogLevel level) const {
  if (!log_.write) return false;
  return log_.wants ? log_.wants(level) : level <= LogLevel::kNotice;
}

void Observer::log(LogLevel level, const std::string& line) const {
  if (logs(level)) log_.write(level, line);
}

void Observer::degrade(const std::string& cause, const std::string& where, const std::string& line) {
  {
    const std::lock_guard lock(mutex_);
    if (!told_causes_.insert(cause).second) return;
  }
  tell({CacheEvent::Kind::kDegrade, {}, {}, where, line});
  log(LogLevel::kWarning, line);
}

}  // namespace jfa
