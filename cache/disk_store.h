// Everything of a cache that is not in memory: the writable directory, read-only directories, bundles.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "cache/bundle.h"
#include "cache/entry_directory.h"
#include "cache/kernel_cache.h"
#include "cache/maintenance.h"
#include "cache/observer.h"

namespace jfa {

class DiskStore {
 public:
  DiskStore(const CacheOptions& options, Observer& observer);

  /// The writable directory, then the read-only ones, then bundles.
  SharedImage find(const Digest& request, const std::string& name);

  /// To be called when an image is served from memory, so that its entry does not age meanwhile.
  void note_use(const Digest& request, const KernelImage& image);

  /// The writable directory alone; a damaged entry is moved aside. To be called with the key's lock held.
  SharedImage look_again(const Digest& request, const std::string& name);

  /// Waits for the right to compile: until no other process holds the key's lock, at most lock_wait_ms.
  /// Null where there is nothing to lock, or after waiting too long; go ahead either way.
  std::unique_ptr<FileLock> wait_for_lock(const Digest& request, const std::string& name);

  /// Stores what was compiled, if that is possible. Returns the path, "" if it stays in memory.
  std::string publish(const CompileRequest& request, const Digest& key, const KernelImage& image);

  /// Keeps the directory under its cap.
  void trim_if_due();

  /// No place serves this image for `request` any more; moves it aside where we may write.
  void discard(const Digest& request, const std::string& name, const KernelImage& image,
               std::string_view reason);

  KernelCache::State state();
  std::string state_directory() const { return directory_ ? directory_->root() : std::string(); }
  /// "<place>: <what was found there>", place by place.
  std::vector<std::string> places(const Digest& request);
  /// How stored entries of the same name differ from the request.
  std::vector<std::string> relatives(const CompileRequest& request);

 private:
  void report_damage(const Lookup& lookup, const Digest& request, const std::string& name);
  SharedImage report_hit(const Lookup& lookup, std::uint64_t CacheStats::*counter, const Digest& request,
                         const std::string& name);
  void report_evictions(const TrimOutcome& outcome);
  void publish_failed(std::error_code error, const std::string& path);
  bool is_refused(const Digest& request, const KernelImage& image);

  const CacheOptions options_;
  Observer& observer_;
  std::shared_ptr<FileSystem> files_;
  std::optional<EntryDirectory> directory_;
  std::vector<EntryDirectory> read_only_;
  std::vector<std::shared_ptr<const Bundle>> bundles_;
  std::string unusable_;  // why there is no directory_

  std::atomic<bool> writable_{false};
  std::atomic<std::uint64_t> published_bytes_{0};  // since the last look at the cap
  std::mutex mutex_;
  std::string not_writable_;                    // why writable_ is false
  std::map<Digest, std::set<Digest>> refused_;  // by request, the images that the driver refused
};

}  // namespace jfa
