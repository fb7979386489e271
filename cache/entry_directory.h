// A directory of entries, and the steps by which an entry gets into it and out of it.
//
//   <root>/CACHEDIR.TAG                        tells backup programs to skip it
//   <root>/v1/ab/<62 hex>-<16 hex>.entry       request key (its first two digits name the folder), compiler
//   <root>/locks/<request>-<compiler>.lock     held while that entry is compiled
//   <root>/tmp/<pid>-<random>.tmp              being written
//   <root>/damaged/<name>.<random>             moved aside
//   <root>/usage                               bytes in v1 as last counted, see maintenance.h
//
// Another format version would live in another folder, so versions never see each other's entries.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "cache/entry.h"
#include "cache/file_system.h"

namespace jfa {

/// Where a request's entry by one compiler lies.
struct EntryName {
  Digest request;
  std::string compiler_tag;  // 16 hex digits

  std::string folder() const;  // "ab"
  std::string file() const;    // "<62 hex>-<16 hex>.entry"
};

EntryName entry_name(const Digest& request, const std::string& compiler);
/// nullopt for names that are not of our pattern: foreign files.
std::optional<EntryName> parse_entry_name(const std::string& folder, const std::string& file);

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

  /// compiler: "" matches the request alone.
  Lookup find(const Digest& request, const std::string& compiler);

  /// Makes the directory if it is missing, writes a temporary file, syncs it and renames it. Returns the
  /// path. The error is that of the failing step; the directory is then as before.
  std::error_code publish(const Digest& request, const std::string& compiler, std::string_view bytes,
                          std::string& path);

  /// Moves a damaged file out of the way unless somebody has replaced it since.
  void move_aside(const std::string& path, std::uint64_t inode);

  /// See FileSystem::try_lock().
  std::error_code try_lock(const Digest& request, const std::string& compiler,
                           std::unique_ptr<FileLock>& lock);
  std::string lock_path(const Digest& request, const std::string& compiler) const;

  /// Writes and removes an empty file.
  std::error_code probe();

  std::string entry_path(const EntryName& name) const;
  FileSystem& files() { return *files_; }

 private:
  std::error_code prepare();
  std::string unique_name() const;
  Lookup read(const Digest& request, const std::string& path);
  std::error_code write(const std::string& path, std::string_view bytes);

  std::shared_ptr<FileSystem> files_;
  std::string root_;
  Access access_;
};

}  // namespace jfa
