// Counts, tells and logs what a cache does.
#pragma once

#include <mutex>
#include <set>
#include <string>

#include "cache/events.h"
#include "cache/options.h"

namespace jfa {

class Observer {
 public:
  explicit Observer(const CacheOptions& options);

  void count(std::uint64_t CacheStats::*counter, std::uint64_t by = 1);
  void add_compile_ms(double milliseconds);
  CacheStats stats() const;

  /// Also logs a record of it, unless log() has a line for people instead.
  void tell(const CacheEvent& event) const;
  bool logs(LogLevel level) const;
  /// One line for people.
  void log(LogLevel level, const std::string& line) const;
  /// Tells a cause for serving less than was asked for, and warns of it, once: thousands of calls may meet
  /// it.
  void degrade(const std::string& cause, const std::string& where, const std::string& line);

 private:
  CacheEventCallback on_event_;
  CacheLog log_;
  mutable std::mutex mutex_;
  CacheStats stats_;
  std::set<std::string> told_causes_;
};

}  // namespace jfa
