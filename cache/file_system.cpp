#include "cache/file_system.h"

#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <ctime>

#include "cache/write_signals.h"

namespace jfa {
namespace {

std::error_code last_error() { return {errno, std::generic_category()}; }
std::error_code outcome(int result) { return result == 0 ? std::error_code() : last_error(); }

class Descriptor {
 public:
  explicit Descriptor(int value) : value_(value) {}
  ~Descriptor() {
    if (value_ >= 0) ::close(value_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int get() const { return value_; }

 private:
  int value_;
};

FileInfo info_from(const struct stat& status) {
  FileInfo info;
  info.type = S_ISREG(status.st_mode)   ? FileType::kFile
              : S_ISDIR(status.st_mode) ? FileType::kDirectory
              : S_ISLNK(status.st_mode) ? FileType::kSymlink
                                        : FileType::kOther;
  info.owner = status.st_uid;
  info.mode = status.st_mode & 07777;
  info.size_bytes = static_cast<std::uint64_t>(status.st_size);
  info.allocated_bytes = static_cast<std::uint64_t>(status.st_blocks) * 512;
  info.inode = status.st_ino;
  info.modified_s = status.st_mtime;
  return info;
}

class PosixReadableFile : public ReadableFile {
 public:
  explicit PosixReadableFile(int descriptor) : descriptor_(descriptor) {}

  std::error_code info(FileInfo& info) override {
    struct stat status;
    if (::fstat(descriptor_.get(), &status) != 0) return last_error();
    info = info_from(status);
    return {};
  }

  std::error_code read(std::uint64_t offset, std::uint64_t count, std::string& bytes) override {
    bytes.resize(count);
    std::size_t done = 0;
    while (done < count) {
      const ssize_t got =
          ::pread(descriptor_.get(), bytes.data() + done, count - done, static_cast<off_t>(offset + done));
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) return last_error();
      if (got == 0) break;
      done += static_cast<std::size_t>(got);
    }
    bytes.resize(done);
    return {};
  }

 private:
  Descriptor descriptor_;
};

class PosixWritableFile : public WritableFile {
 public:
  explicit PosixWritableFile(int descriptor) : descriptor_(descriptor) {}

  std::error_code append(std::string_view bytes) override {
    const WriteSignalBlock block;
    while (!bytes.empty()) {
      const ssize_t written = ::write(descriptor_.get(), bytes.data(), bytes.size());
      if (written < 0 && errno == EINTR) continue;
      if (written < 0) return last_error();
      bytes.remove_prefix(static_cast<std::size_t>(written));
    }
    return {};
  }

  std::error_code sync() override { return outcome(::fsync(descriptor_.get())); }

 private:
  Descriptor descriptor_;
};

// Whether `path` leads to the open file.
bool names(const std::string& path, int descriptor) {
  struct stat open;
  struct stat named;
  return ::fstat(descriptor, &open) == 0 && ::lstat(path.c_str(), &named) == 0 &&
         open.st_ino == named.st_ino && open.st_dev == named.st_dev;
}

class PosixFileLock : public FileLock {
 public:
  PosixFileLock(std::string path, int descriptor) : path_(std::move(path)), descriptor_(descriptor) {}
  // Removing the file before the lock goes is safe: whoever waits for it finds, once it has the lock, that
  // the file has no name any more, and starts again. If the file was deleted under us, the name may be that
  // of somebody else's lock by now.
  ~PosixFileLock() override {
    if (names(path_, descriptor_.get())) ::unlink(path_.c_str());
  }

 private:
  std::string path_;
  Descriptor descriptor_;
};

class PosixFileSystem : public FileSystem {
 public:
  std::error_code open(const std::string& path, std::unique_ptr<ReadableFile>& file) override {
    // O_NONBLOCK: a planted FIFO must not hang the caller.
    const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (descriptor < 0) return last_error();
    file = std::make_unique<PosixReadableFile>(descriptor);
    return {};
  }

  std::error_code create(const std::string& path, std::uint32_t mode,
                         std::unique_ptr<WritableFile>& file) override {
    const int descriptor = ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, mode);
    if (descriptor < 0) return last_error();
    file = std::make_unique<PosixWritableFile>(descriptor);
    return {};
  }

  std::error_code rename(const std::string& from, const std::string& to) override {
    return outcome(::rename(from.c_str(), to.c_str()));
  }

  std::error_code remove(const std::string& path) override { return outcome(std::remove(path.c_str())); }

  std::error_code make_directory(const std::string& path) override {
    return outcome(::mkdir(path.c_str(), 0700));
  }

  std::error_code sync_directory(const std::string& path) override {
    const Descriptor descriptor(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (descriptor.get() < 0) return last_error();
    return outcome(::fsync(descriptor.get()));
  }

  std::error_code list(const std::string& path, std::vector<std::string>& names) override {
    names.clear();
    DIR* directory = ::opendir(path.c_str());
    if (directory == nullptr) return last_error();
    errno = 0;
    while (const dirent* entry = ::readdir(directory)) {
      const std::string_view name = entry->d_name;
      if (name != "." && name != "..") names.emplace_back(name);
      errno = 0;
    }
    const std::error_code error = errno != 0 ? last_error() : std::error_code();
    ::closedir(directory);
    return error;
  }

  std::error_code info(const std::string& path, FileInfo& info) override {
    struct stat status;
    if (::lstat(path.c_str(), &status) != 0) return last_error();
    info = info_from(status);
    return {};
  }

  std::error_code resolve(const std::string& path, std::string& resolved) override {
    char buffer[PATH_MAX];
    if (::realpath(path.c_str(), buffer) == nullptr) return last_error();
    resolved = buffer;
    return {};
  }

  std::error_code set_modified(const std::string& path, std::int64_t seconds) override {
    const timespec times[2] = {{0, UTIME_OMIT}, {static_cast<time_t>(seconds), 0}};
    return outcome(::utimensat(AT_FDCWD, path.c_str(), times, AT_SYMLINK_NOFOLLOW));
  }

  std::error_code try_lock(const std::string& path, std::string_view note,
                           std::unique_ptr<FileLock>& lock) override {
    for (;;) {
      const int descriptor = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
      if (descriptor < 0) return last_error();
      if (::flock(descriptor, LOCK_EX | LOCK_NB) != 0) {
        const std::error_code error = last_error();
        ::close(descriptor);
        return error;
      }
      if (names(path, descriptor)) {
        const WriteSignalBlock block;
        if (::ftruncate(descriptor, 0) == 0) {
          [[maybe_unused]] const ssize_t ignored = ::write(descriptor, note.data(), note.size());
        }
        lock = std::make_unique<PosixFileLock>(path, descriptor);
        return {};
      }
      ::close(descriptor);  // its last holder removed the name: try the file that is there now
    }
  }

  std::int64_t now_s() override { return static_cast<std::int64_t>(::time(nullptr)); }
  std::uint32_t user() override { return ::geteuid(); }
};

}  // namespace

std::shared_ptr<FileSystem> posix_file_system() { return std::make_shared<PosixFileSystem>(); }

std::error_code read_file(FileSystem& files, const std::string& path, std::uint64_t max_bytes,
                          std::string& bytes, FileInfo* info) {
  std::unique_ptr<ReadableFile> file;
  FileInfo local;
  FileInfo& found = info != nullptr ? *info : local;
  if (const auto error = files.open(path, file)) return error;
  if (const auto error = file->info(found)) return error;
  if (found.type == FileType::kDirectory) return {EISDIR, std::generic_category()};
  if (found.type != FileType::kFile) return {EINVAL, std::generic_category()};
  if (found.size_bytes > max_bytes) return {EFBIG, std::generic_category()};
  return file->read(0, found.size_bytes, bytes);
}

std::error_code write_file(FileSystem& files, const std::string& path, std::uint32_t mode,
                           std::string_view bytes) {
  std::unique_ptr<WritableFile> file;
  if (const auto error = files.create(path, mode, file)) return error;
  if (const auto error = file->append(bytes)) return error;
  return file->sync();
}

std::error_code make_directories(FileSystem& files, const std::string& path) {
  for (std::size_t end = path.find('/', 1); end != std::string::npos; end = path.find('/', end + 1)) {
    const auto error = files.make_directory(path.substr(0, end));
    // A parent that cannot be made may still be there (EROFS and EACCES come before EEXIST on some systems):
    // the last level decides.
    if (error == std::errc::no_space_on_device) return error;
  }
  const auto error = files.make_directory(path);
  if (!error) return {};
  FileInfo info;
  return files.info(path, info) == std::error_code() ? std::error_code() : error;
}

bool is_wrong_kind(std::error_code error) {
  return error.value() == ELOOP || error.value() == EISDIR || error.value() == EINVAL ||
         error.value() == EFBIG;
}

std::string reason(std::error_code error) { return error.message(); }

}  // namespace jfa
