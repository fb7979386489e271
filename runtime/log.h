// The process's log: set_log_callback(), JFA_VERBOSE, or nobody.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cache/options.h"
#include "jfa/log.h"
#include "jfa/status.h"

namespace jfa {

/// Reads JFA_VERBOSE, once. kInvalidArgument names a value that cannot be used.
Status read_log_environment();

/// Whether anybody hears messages of the level now.
bool log_wants(LogLevel level);

/// Tells who listens. A warning that nobody hears is kept for the callback that comes.
void log(LogLevel level, std::string_view message);

/// What this thread says while one lives is told at its end, to who listens then. It is made before a lock is
/// taken that the calls of a callback may want, too.
class HeldLog {
 public:
  HeldLog();
  ~HeldLog();
  HeldLog(const HeldLog&) = delete;
  HeldLog& operator=(const HeldLog&) = delete;

 private:
  friend void log(LogLevel level, std::string_view message);
  std::vector<std::pair<LogLevel, std::string>> said_;
};

/// For the caches of this process.
CacheLog process_log();

}  // namespace jfa
