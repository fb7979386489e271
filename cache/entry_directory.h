// A directory of entries, and the steps by which an entry gets into it and out of it.
//
//   <root>/CACHEDIR.TAG                     says whose it is, and has backup programs skip it
//   <root>/v2/ab/<62 hex>-<16 hex>.entry    request key, whose first two digits name the folder; compiler
//   <root>/locks/<request>-<compiler>.lock  held while that entry is compiled
//   <root>/tmp/<pid>-<random>.tmp           being written
//   <root>/damaged/<name>.<pid>-<random>    moved aside
//   <root>/usage                            bytes in v2 as last counted, see maintenance.h
//
// Any of it may be deleted at any time. Another format version lives in another folder, so versions never see
// each other's entries; those of earlier ones that nobody has used for a month are swept.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "cache/entry.h"
#include "cache/entry_names.h"
#include "cache/file_system.h"

namespace jfa {

/// Outcome of a look into a directory or a bundle.
struct Lookup {
  std::shared_ptr<const KernelImage> image;  // null: absent or damaged
  std::string where;                         // the file that was served or is damaged
  std::string damage;                        // what is wrong with it
  std::uint64_t inode = 0;                   // of the damaged file; 0 if it should stay where it is
};

class EntryDirectory {
 public:
  /// kPrivate: ours to write, and only what we wrote is served. kReadOnly: somebody made it for us.
  enum class Access { kPrivate, kReadOnly };

  EntryDirectory(std::shared_ptr<FileSystem> files, std::string root, Access access);

  const std::string& root() const { return root_; }

  /// kUnavailable if the directory may hold what others put there: a foreign owner, or a mode that lets
  /// others write. A missing directory is fine.
  Status check();
  /// check(), and kUnavailable also for a directory that is no cache, see find_foreign().
  Status check_writable();

  /// compiler: "" matches the request alone; of several images the first that `serves` accepts is taken, by
  /// default any.
  Lookup find(const Digest& request, const std::string& compiler,
              const std::function<bool(const KernelImage&)>& serves = {});

  /// Notes that an entry is used now: its modification time is what trimming goes by. Written at most once in
  /// kStampPrecision_s, whatever the number of processes; one in the future (a clock was set back) is mended.
  void stamp(const EntryName& name);

  /// Writes a temporary file, syncs it and renames it; makes what is missing of the directory, also if it is
  /// deleted meanwhile. Returns the path. The error is that of the failing step; no entry has changed then.
  std::error_code publish(const Digest& request, const std::string& compiler, std::string_view bytes,
                          std::string& path);

  /// Moves a damaged file out of the way unless somebody has replaced it since. Its age counts from now.
  void move_aside(const std::string& path, std::uint64_t inode);

  /// See FileSystem::try_lock().
  std::error_code try_lock(const Digest& request, const std::string& compiler,
                           std::unique_ptr<FileLock>& lock);
  std::string lock_path(const Digest& request, const std::string& compiler) const;

  /// Writes and removes an empty file.
  std::error_code probe();

  std::string entries_path() const;
  std::string entry_path(const EntryName& name) const;
  FileSystem& files() { return *files_; }

 private:
  enum class Use { kReading, kWriting };
  Status verdict(Use use);
  /// An error is one of the moment; a complaint says why the directory is not to be used at all.
  std::error_code examine(Use use, std::string& complaint);
  std::error_code check_folders();
  std::error_code prepare();
  Lookup read(const Digest& request, const std::string& path);
  std::error_code place(const EntryName& name, std::string_view bytes);

  std::shared_ptr<FileSystem> files_;
  std::string root_;
  Access access_;
};

}  // namespace jfa
