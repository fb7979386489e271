// The kernel cache as a user of the library watches it. docs/cache.md is its operator's page.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "jfa/attention.h"

namespace jfa {

struct CacheEvent {
  enum class Kind {
    kHit,           // where: "memory", or the file that served it
    kMiss,          // nothing had it; detail: why, if records are logged
    kWait,          // another process compiles the same key; detail: who
    kCompileStart,  //
    kCompileSlow,   // a compilation takes more than a second and goes on
    kCompileEnd,    // elapsed_ms; detail: the error, empty if it worked
    kPublish,       // where: the file
    kEvict,         // where: the file, to stay under the byte cap
    kDamage,        // where: the file that was not served; detail: what is wrong with it
    kDegrade,       // the disk serves less than was asked for; detail: why
  };
  Kind kind;
  std::string key;   // of the request, in hexadecimal; empty for kDegrade
  std::string name;  // of the request
  std::string where;
  std::string detail;
  double elapsed_ms = 0;
};

std::string to_string(CacheEvent::Kind kind);

/// Called from any thread, with no lock held that cache_stats() takes: it may call that. It must not throw.
using CacheEventCallback = std::function<void(const CacheEvent&)>;

/// Counters since the cache was made.
struct CacheStats {
  std::uint64_t memory_hits = 0;
  std::uint64_t directory_hits = 0;
  std::uint64_t read_only_hits = 0;  // from a read-only directory
  std::uint64_t bundle_hits = 0;
  std::uint64_t shared = 0;  // calls that waited for the same key on another thread
  std::uint64_t misses = 0;
  std::uint64_t compiles = 0;
  std::uint64_t compile_failures = 0;
  std::uint64_t published = 0;
  std::uint64_t published_bytes = 0;
  std::uint64_t publish_failures = 0;
  std::uint64_t lock_waits = 0;     // for another process
  std::uint64_t lock_timeouts = 0;  // ... that took too long, so this one compiled as well
  std::uint64_t damaged = 0;        // entries found damaged, or refused by the driver, and not served
  std::uint64_t evicted = 0;
  std::uint64_t evicted_bytes = 0;
  double compile_ms = 0;  // sum
};

/// Counters of this process's kernel cache. kInvalidArgument names an environment variable and the value that
/// cannot be used.
Result<CacheStats> cache_stats();

/// Has `callback` told of everything that happens in this process's kernel cache. To be called before the
/// first kernel is asked for; later it is kInvalidArgument, since events would be missing.
Status watch_cache(CacheEventCallback callback);

/// prepare()'s compilation, on a thread of the library; a later prepare() or call waits for it instead of
/// compiling again, and reports its errors. Errors here: those of supported().
Status prepare_in_background(Device& device, const Configuration& configuration);

}  // namespace jfa
