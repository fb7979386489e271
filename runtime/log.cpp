#include "runtime/log.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <shared_mutex>
#include <string>
#include <utility>
#include <vector>

#include "base/foreign_text.h"
#include "cache/write_signals.h"
#include "runtime/watchers.h"

namespace jfa {
namespace {

constexpr std::size_t kMostUnheard = 16;

// Never destroyed: used until the process ends.
struct Log {
  std::shared_mutex mutex;  // of callback; shared while that runs
  LogCallback callback;
  std::atomic<LogLevel> callback_level{LogLevel::kNothing};
  std::atomic<LogLevel> verbose_level{LogLevel::kNothing};  // what JFA_VERBOSE asks for
  std::mutex unheard_mutex;
  std::vector<std::string> unheard;  // warnings

  LogLevel level() const {
    return std::max(callback_level.load(std::memory_order_relaxed),
                    verbose_level.load(std::memory_order_relaxed));
  }
  void changed() { set_call_watcher(kTraceWatcher, level() == LogLevel::kTrace); }
};

Log& the_log() {
  static auto* log = new Log;
  return *log;
}

thread_local bool inside_callback = false;
thread_local HeldLog* held_log = nullptr;  // the outermost of this thread

class InsideCallback {
 public:
  InsideCallback() { inside_callback = true; }
  ~InsideCallback() { inside_callback = false; }
  InsideCallback(const InsideCallback&) = delete;
  InsideCallback& operator=(const InsideCallback&) = delete;
};

void call(const LogCallback& callback, LogLevel level, std::string_view message) {
  const InsideCallback inside;
  try {
    callback(level, message);
  } catch (...) {  // a message is no reason to fail a call
  }
}

void write_to_stderr(LogLevel level, std::string_view message) {
  const WriteSignalBlock block;  // a line that nobody can read is no reason to end the process
  std::fprintf(stderr, "%s%.*s\n", level <= LogLevel::kNotice ? "jfa: " : "",
               static_cast<int>(message.size()), message.data());
}

Status read_verbose() {
  const char* value = std::getenv("JFA_VERBOSE");
  const std::string_view given = value ? value : "";
  if (given.empty() || given == "0") return {};
  if (given != "1" && given != "2")
    return Status::invalid_argument(fmt::format("JFA_VERBOSE is '{}', none of 0, 1 and 2", shown(given)));
  Log& log = the_log();
  log.verbose_level = given == "1" ? LogLevel::kInfo : LogLevel::kTrace;
  log.changed();
  return {};
}

}  // namespace

Status read_log_environment() {
  static const auto* status = new Status(read_verbose());
  return *status;
}

bool log_wants(LogLevel level) { return level <= the_log().level(); }

void log(LogLevel level, std::string_view message) {
  if (inside_callback) return;
  if (held_log != nullptr) {
    held_log->said_.emplace_back(level, message);
    return;
  }
  Log& log = the_log();
  const std::shared_lock lock(log.mutex);
  if (level <= log.level()) {
    if (log.callback)
      call(log.callback, level, message);
    else
      write_to_stderr(level, message);
  } else if (level == LogLevel::kWarning) {
    const std::lock_guard unheard_lock(log.unheard_mutex);
    if (log.unheard.size() < kMostUnheard) log.unheard.emplace_back(message);
  }
}

HeldLog::HeldLog() {
  if (held_log == nullptr) held_log = this;
}

HeldLog::~HeldLog() {
  if (held_log != this) return;
  held_log = nullptr;
  for (const auto& [level, message] : said_) log(level, message);
}

CacheLog process_log() {
  // A warning is always wanted: it may be kept.
  return {[](LogLevel level, const std::string& line) { log(level, line); },
          [](LogLevel level) { return level == LogLevel::kWarning || log_wants(level); }};
}

Status set_log_callback(LogCallback callback, LogLevel level) {
  if (inside_callback) return Status::invalid_argument("a log callback cannot be changed from within one");
  (void)read_log_environment();  // a bad value is the error of the calls that can return it
  Log& log = the_log();
  std::vector<std::string> unheard;
  {
    const std::unique_lock lock(log.mutex);
    log.callback_level = callback ? level : LogLevel::kNothing;
    std::swap(log.callback, callback);  // the old one is destroyed when the lock is gone
    log.changed();
    const std::lock_guard unheard_lock(log.unheard_mutex);
    if (log.level() >= LogLevel::kWarning) unheard.swap(log.unheard);
  }
  for (const std::string& warning : unheard) jfa::log(LogLevel::kWarning, warning);
  return {};
}

}  // namespace jfa
