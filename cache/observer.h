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

  void tell(const CacheEvent& event) const;
  /// One line for people, "jfa: " in front.
  void log(const std::string& line) const;
  /// Tells and logs a cause for serving less than was asked for, once: thousands of calls may meet it.
  void degrade(const std::string& cause, const std::string& where, const std::string& line);

 private:
  CacheEventCallback on_event_;
  std::function<void(const std::string&)> log_;
  mutable std::mutex mutex_;
  CacheStats stats_;
  std::set<std::string> told_causes_;
};

}  // namespace jfa
