// The seam to the disk. A cache does all its input and output through one of these, so that a test can make
// any step fail, and be any user at any time.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

namespace jfa {

enum class FileType : std::uint8_t { kFile, kDirectory, kSymlink, kOther };

struct FileInfo {
  FileType type = FileType::kOther;
  std::uint32_t owner = 0;  // user id
  std::uint32_t mode = 0;   // permission bits
  std::uint64_t size_bytes = 0;
  std::uint64_t allocated_bytes = 0;
  std::uint64_t inode = 0;
  std::int64_t modified_s = 0;  // seconds since 1970
};

class ReadableFile {
 public:
  virtual ~ReadableFile() = default;
  virtual std::error_code info(FileInfo& info) = 0;
  /// Replaces `bytes` by up to `count` bytes from `offset`; fewer at the end of the file.
  virtual std::error_code read(std::uint64_t offset, std::uint64_t count, std::string& bytes) = 0;
};

class WritableFile {
 public:
  virtual ~WritableFile() = default;  // closes
  virtual std::error_code append(std::string_view bytes) = 0;
  virtual std::error_code sync() = 0;
};

/// Held until it is destroyed, or its process dies.
class FileLock {
 public:
  virtual ~FileLock() = default;
};

/// Paths are absolute. Every member returns the error of the system call behind it.
class FileSystem {
 public:
  virtual ~FileSystem() = default;

  /// Refuses a symbolic link as the last component (ELOOP).
  virtual std::error_code open(const std::string& path, std::unique_ptr<ReadableFile>& file) = 0;
  /// A new file, of `mode` less the umask; EEXIST if there is one.
  virtual std::error_code create(const std::string& path, std::uint32_t mode,
                                 std::unique_ptr<WritableFile>& file) = 0;
  virtual std::error_code rename(const std::string& from, const std::string& to) = 0;
  /// A file, a symbolic link or an empty directory.
  virtual std::error_code remove(const std::string& path) = 0;
  /// One level, of mode 0700; EEXIST if there is anything.
  virtual std::error_code make_directory(const std::string& path) = 0;
  virtual std::error_code sync_directory(const std::string& path) = 0;
  /// Names in no order, without "." and "..".
  virtual std::error_code list(const std::string& path, std::vector<std::string>& names) = 0;
  /// Of the path itself, not of what a symbolic link points to.
  virtual std::error_code info(const std::string& path, FileInfo& info) = 0;
  /// The path without symbolic links.
  virtual std::error_code resolve(const std::string& path, std::string& resolved) = 0;
  virtual std::error_code set_modified(const std::string& path, std::int64_t seconds) = 0;
  /// Takes the kernel's exclusive lock on a file, which is created if need be and removed on release;
  /// EWOULDBLOCK if somebody else has it. `note` is written into it for people.
  virtual std::error_code try_lock(const std::string& path, std::string_view note,
                                   std::unique_ptr<FileLock>& lock) = 0;
  /// Seconds since 1970.
  virtual std::int64_t now_s() = 0;
  virtual std::uint32_t user() = 0;
};

/// The operating system's.
std::shared_ptr<FileSystem> posix_file_system();

// Conveniences over the seam.

/// All of a regular file; EFBIG above max_bytes.
std::error_code read_file(FileSystem& files, const std::string& path, std::uint64_t max_bytes,
                          std::string& bytes, FileInfo* info = nullptr);

/// A new file with `bytes`, which are on the disk when this returns; EEXIST if there is one.
std::error_code write_file(FileSystem& files, const std::string& path, std::uint32_t mode,
                           std::string_view bytes);

/// Makes the missing ones of a path's directories.
std::error_code make_directories(FileSystem& files, const std::string& path);

/// ENOENT: a name, or a directory on the way to it, is not there.
inline bool is_missing(std::error_code error) { return error == std::errc::no_such_file_or_directory; }

/// What read_file() reports of symbolic links, directories, FIFOs and files that are too large.
bool is_wrong_kind(std::error_code error);

/// "Permission denied", as the system words it.
std::string reason(std::error_code error);

}  // namespace jfa
