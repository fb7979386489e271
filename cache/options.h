// How a cache is set up, and the environment variables that say so.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "cache/events.h"
#include "jfa/log.h"
#include "jfa/status.h"

namespace jfa {

class FileSystem;

enum class CompilePolicy : std::uint8_t { kAuto, kNever };

/// Where a cache's lines go.
struct CacheLog {
  std::function<void(LogLevel level, const std::string& line)> write;  ///< empty: nowhere
  std::function<bool(LogLevel level)> wants;                           ///< empty: all but records
};

struct CacheOptions {
  /// Absolute. Empty: nothing is written, and only memory, read-only directories and bundles are searched.
  std::string directory;
  /// Why `directory` is empty although nobody asked for that ("HOME is not set"); warned of once.
  std::string no_directory_reason;
  bool write = true;                                      ///< false: `directory` is searched, never written
  std::vector<std::string> read_only_directories;         ///< searched in this order, by request alone
  std::vector<std::string> bundles;                       ///< .jfab files, searched after the directories
  std::uint64_t max_bytes = 1024ull * 1024 * 1024;        ///< of `directory`; 0 = no bound
  std::uint64_t memory_max_bytes = 256ull * 1024 * 1024;  ///< of images kept in memory; 0 = no bound
  CompilePolicy compile = CompilePolicy::kAuto;
  /// How long to wait for another process that compiles the same key before compiling it here too.
  std::int64_t lock_wait_ms = 60'000;
  std::int64_t slow_compile_ms = 1'000;  ///< a compilation that takes longer is logged
  /// Identity of the compiler at hand (see compiler_identity.h). Empty: there is none, and entries of
  /// `directory` are matched by request alone.
  std::string compiler;
  CacheEventCallback on_event;              ///< optional
  CacheLog log;                             ///< default: nothing is said
  std::shared_ptr<FileSystem> file_system;  ///< default: the operating system's
};

/// Value of an environment variable, nullptr if it is not set.
using EnvironmentReader = std::function<const char*(const char* name)>;

/// Options as the environment sets them; read once, by the caller who keeps the result. Blank values count as
/// unset. kInvalidArgument names a variable and the value that cannot be used. docs/cache.md has the table.
Result<CacheOptions> cache_options_from_environment(const EnvironmentReader& environment = {});

}  // namespace jfa
