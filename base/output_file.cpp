#include "base/output_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <charconv>
#include <climits>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <set>
#include <system_error>
#include <vector>

#include "base/standard_streams.h"

namespace jfa::tools {
namespace {

constexpr int kMaxLinks = 40;  // as many as the kernel follows
constexpr std::size_t kCopyBlock_bytes = std::size_t{1} << 20;
constexpr mode_t kNewFileMode = 0666;
constexpr mode_t kPrivateMode = 0600;

// "." for a path without directory.
std::string directory_of(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

// Without symbolic links; empty if there is no such directory.
std::string resolved_directory_of(const std::string& path) {
  char resolved[PATH_MAX];
  return ::realpath(directory_of(path).c_str(), resolved) != nullptr ? resolved : std::string();
}

// N of /proc/self/fd/N, by whatever name.
std::optional<int> own_descriptor(const std::string& directory, const std::string& path) {
  const std::string own = fmt::format("/proc/{}/", ::getpid());
  if (!directory.starts_with(own) || !directory.ends_with("/fd")) return std::nullopt;
  const char* const begin = path.data() + path.rfind('/') + 1;
  const char* const end = path.data() + path.size();
  int descriptor = 0;
  const auto [parsed, error] = std::from_chars(begin, end, descriptor);
  if (error != std::errc() || parsed != end || descriptor < 0) return std::nullopt;
  return descriptor;
}

std::optional<std::string> link_target(const std::string& path) {
  char target[PATH_MAX];
  const ssize_t length = ::readlink(path.c_str(), target, sizeof target);
  if (length < 0) return std::nullopt;
  std::string text(target, static_cast<std::size_t>(length));
  return text.starts_with('/') ? text : directory_of(path) + "/" + text;
}

// The directory lets no file be made or replaced, or it is that of a mount point, such as a file that is
// bound into a container, or of files that are none (/proc, /sys).
bool forbids_replacing(int error) {
  return error == EACCES || error == EPERM || error == EROFS || error == ENOENT || error == EBUSY;
}

int write_all(int descriptor, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(descriptor, bytes.data(), bytes.size());
    if (written >= 0) {
      bytes.remove_prefix(static_cast<std::size_t>(written));
    } else if (errno == EAGAIN) {  // of a pipe that somebody else made non-blocking
      pollfd ready{descriptor, POLLOUT, 0};
      (void)::poll(&ready, 1, -1);
    } else if (errno != EINTR) {
      return errno;
    }
  }
  return 0;
}

// All of the open file `from`, whatever has become of its name.
int copy(int from, int to) {
  std::vector<char> block(kCopyBlock_bytes);
  off_t at = 0;
  for (;;) {
    const ssize_t count = ::pread(from, block.data(), block.size(), at);
    if (count == 0) return 0;
    if (count > 0) {
      if (const int error = write_all(to, {block.data(), static_cast<std::size_t>(count)}); error != 0)
        return error;
      at += count;
    } else if (errno != EINTR) {
      return errno;
    }
  }
}

// Files that this process is about to write: a second one under the same name would replace the first.
struct Targets {
  std::mutex mutex;
  std::set<std::string> paths;
};
Targets& targets() {
  static Targets all;
  return all;
}

}  // namespace

Result<OutputFile> OutputFile::open(const std::string& path) {
  OutputFile file(path == "-" ? "standard output" : path);
  const Status status = path == "-" ? file.open_standard_output() : file.open_path(path);
  if (!status.ok()) return status;
  if (!file.target_.empty() && !file.claim_target())
    return Status::invalid_argument(file.name_ + ": two outputs cannot go to one file");
  return file;
}

bool OutputFile::claim_target() {
  const std::size_t slash = target_.rfind('/');
  std::string path = resolved_directory_of(target_) + "/" +
                     (slash == std::string::npos ? target_ : target_.substr(slash + 1));
  Targets& all = targets();
  const std::lock_guard lock(all.mutex);
  if (!all.paths.insert(path).second) return false;
  claimed_ = std::move(path);
  return true;
}

OutputFile::OutputFile(OutputFile&& other) noexcept
    : name_(std::move(other.name_)),
      standard_output_(other.standard_output_),
      descriptor_(std::exchange(other.descriptor_, -1)),
      truncate_(other.truncate_),
      target_(std::move(other.target_)),
      claimed_(std::exchange(other.claimed_, {})),
      temporary_(std::exchange(other.temporary_, {})),
      replaced_(other.replaced_) {}

OutputFile::~OutputFile() {
  drop_temporary();
  if (claimed_.empty()) return;
  Targets& all = targets();
  const std::lock_guard lock(all.mutex);
  all.paths.erase(claimed_);
}

Status OutputFile::failed(int error) const {
  return Status::unavailable(
      fmt::format("{}: cannot write: {}", name_, std::generic_category().message(error)));
}

Status OutputFile::open_standard_output() {
  if (Status status = open_own_descriptor(STDOUT_FILENO); !status.ok()) return status;
  if (!claim_standard_output())
    return Status::invalid_argument("only one output can go to standard output, several are to");
  standard_output_ = true;
  return std::fflush(stdout) == 0 ? Status() : failed(errno);
}

// A duplicate, not what /proc would open: that starts at the beginning of a file, and cannot be done for a
// socket.
Status OutputFile::open_own_descriptor(int descriptor) {
  const int flags = ::fcntl(descriptor, F_GETFL);
  if (flags < 0) return failed(errno);
  if ((flags & O_ACCMODE) == O_RDONLY) return failed(EBADF);
  descriptor_ = ::fcntl(descriptor, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
  return descriptor_ >= 0 ? Status() : failed(errno);
}

Status OutputFile::open_path(std::string path) {
  if (path.empty()) return failed(ENOENT);
  // Links are followed one by one: the file behind the last one need not exist, and those of /proc lead to
  // open files, whatever is under the names that they show.
  for (int links = 0; links <= kMaxLinks; ++links) {
    const std::string directory = resolved_directory_of(path);
    if (const auto descriptor = own_descriptor(directory, path))
      return *descriptor == STDOUT_FILENO ? open_standard_output() : open_own_descriptor(*descriptor);
    struct stat status {};
    if (::lstat(path.c_str(), &status) != 0) {
      if (errno != ENOENT) return failed(errno);
      if (path.ends_with('/')) return failed(EISDIR);
      target_ = path;
      const int error = try_temporary();
      return error == 0 ? Status() : failed(error);
    }
    if (!S_ISLNK(status.st_mode) || directory.starts_with("/proc/")) return open_existing(path);
    const auto target = link_target(path);
    if (!target) return failed(errno);
    path = *target;
  }
  return failed(ELOOP);
}

Status OutputFile::open_existing(const std::string& path) {
  descriptor_ = ::open(path.c_str(), O_WRONLY | O_CLOEXEC | O_NOCTTY);
  if (descriptor_ < 0) return failed(errno);
  struct stat status {};
  if (::fstat(descriptor_, &status) != 0) return failed(errno);
  if (!S_ISREG(status.st_mode)) return {};
  replaced_ = Replaced{status.st_uid, status.st_gid, status.st_mode & 0777};
  target_ = path;
  const int written = std::exchange(descriptor_, -1);
  const int error = try_temporary();
  if (forbids_replacing(error)) {
    descriptor_ = written;
    truncate_ = true;
    return {};
  }
  ::close(written);
  return error == 0 ? Status() : failed(error);
}

int OutputFile::create_temporary() {
  static std::atomic<int> count{0};
  do {
    temporary_ = fmt::format("{}/.jfa-{}-{}.tmp", directory_of(target_), ::getpid(), count++);
    descriptor_ = ::open(temporary_.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW,
                         replaced_ ? kPrivateMode : kNewFileMode);
  } while (descriptor_ < 0 && errno == EEXIST);  // of a killed process that had our number
  if (descriptor_ >= 0) return 0;
  const int error = errno;
  temporary_.clear();
  return error;
}

void OutputFile::drop_temporary() {
  if (!temporary_.empty()) ::unlink(std::exchange(temporary_, {}).c_str());
  if (descriptor_ >= 0) ::close(std::exchange(descriptor_, -1));
}

// Gone at once, lest a command that is interrupted at its work leaves it behind.
int OutputFile::try_temporary() {
  const int error = create_temporary();
  drop_temporary();
  return error;
}

Status OutputFile::begin() {
  if (descriptor_ < 0) {
    if (const int error = create_temporary(); error != 0) return failed(error);
  }
  if (!std::exchange(truncate_, false)) return {};
  return ::ftruncate(descriptor_, 0) == 0 ? Status() : failed(errno);
}

Status OutputFile::append(std::string_view bytes) {
  if (Status status = begin(); !status.ok()) return status;
  const int error = write_all(descriptor_, bytes);
  return error == 0 ? Status() : failed(error);
}

Status OutputFile::commit() {
  if (Status status = begin(); !status.ok()) return status;
  if (!temporary_.empty()) {
    if (replaced_) {
      (void)!::fchown(descriptor_, replaced_->owner, replaced_->group);  // root may, others need not
      if (::fchmod(descriptor_, replaced_->mode) != 0) return failed(errno);
    }
    // Some file systems cannot sync, and say so with EINVAL.
    if (::fsync(descriptor_) != 0 && errno != EINVAL) return failed(errno);
    if (::rename(temporary_.c_str(), target_.c_str()) == 0) {
      temporary_.clear();
    } else if (Status status = replace_contents(errno); !status.ok()) {
      return status;
    }
  }
  return ::close(std::exchange(descriptor_, -1)) == 0 ? Status() : failed(errno);
}

// After a rename that failed. The old file is lost if this fails, too, but the work would be if it did not
// try.
Status OutputFile::replace_contents(int rename_error) {
  if (!replaced_ || !forbids_replacing(rename_error)) return failed(rename_error);
  const int target = ::open(target_.c_str(), O_WRONLY | O_TRUNC | O_CLOEXEC | O_NOFOLLOW);
  if (target < 0) return failed(errno);
  const int error = copy(descriptor_, target);
  const int closed = ::close(target) == 0 ? 0 : errno;
  return error == 0 && closed == 0 ? Status() : failed(error != 0 ? error : closed);
}

Status OutputFile::write(std::string_view bytes) {
  const Status status = append(bytes);
  return status.ok() ? commit() : status;
}

Result<std::optional<OutputFile>> open_if_given(const std::optional<std::string>& path) {
  if (!path) return std::optional<OutputFile>();
  Result<OutputFile> file = OutputFile::open(*path);
  if (!file) return file.status();
  return std::optional<OutputFile>(std::move(*file));
}

}  // namespace jfa::tools
