// What the cache's tests share: temporary directories, images, a compiler that counts, a disk that fails.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "cache/bundle.h"
#include "cache/entry_directory.h"
#include "cache/file_system.h"
#include "cache/kernel_cache.h"

namespace jfa::test {

/// An empty directory of mode 0700, removed with all that is in it.
class TemporaryDirectory {
 public:
  TemporaryDirectory();
  ~TemporaryDirectory();
  TemporaryDirectory(const TemporaryDirectory&) = delete;
  TemporaryDirectory& operator=(const TemporaryDirectory&) = delete;
  const std::string& path() const { return path_; }
  std::string operator/(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

inline const std::string kCompiler = "build-id:0123abcd";

/// Bytes that do not compress, the same every time.
std::string noise(std::size_t bytes);
/// A frame of Zstandard that holds up to 128 KiB as they are: another one than ours makes.
std::string raw_frame(const std::string& content);

CompileRequest make_request(const std::string& source, const std::string& name = "forward-test");
/// The image that the counting compiler makes of a request: its cubin says which source it came from.
KernelImage make_image(const CompileRequest& request, const std::string& compiler = kCompiler,
                       std::size_t padding_bytes = 0);
bool made_from(const KernelImage& image, const CompileRequest& request);

/// Options for `directory`, with kCompiler.
CacheOptions quiet_options(const std::string& directory, std::shared_ptr<FileSystem> files = nullptr);

/// A compile function that makes make_image(request) and counts.
CompileFunction counting(const CompileRequest& request, std::atomic<int>& compiles);
/// One that throws.
inline const CompileFunction kMustNotCompile = []() -> Result<KernelImage> {
  throw std::logic_error("compiled");
};

/// The bundle of what `fill` adds, as a file.
Status write_bundle_with(const std::string& path, const std::function<Status(BundleWriter&)>& fill);
/// Puts the image that `compiler` makes of a request into a directory.
void fill(const std::string& directory, const CompileRequest& request,
          const std::string& compiler = kCompiler, std::size_t padding_bytes = 0);
/// Where it is then.
std::string stored_path(const std::string& directory, const CompileRequest& request);
/// A bundle of the images of these requests.
void fill_bundle(const std::string& path, const std::vector<CompileRequest>& requests,
                 const std::string& compiler = kCompiler, std::size_t padding_bytes = 0);
/// Has a file last been written `age_s` ago.
void set_age(const std::string& path, std::int64_t age_s);
std::int64_t stamp_age_s(const std::string& path);
std::string flipped(std::string bytes, std::size_t bit);
EntryDirectory open_directory(const std::string& directory);

/// A cache whose warnings and stats can be looked at.
struct Watched {
  explicit Watched(const std::string& directory, std::shared_ptr<FileSystem> files = nullptr);
  /// Asks a new cache for this many kernels; the number of those that were right.
  int compile(int count, int from = 0);

  CacheOptions options;
  std::vector<std::string> lines;
  CacheStats stats;
};

std::string read_bytes(const std::string& path);
void write_bytes(const std::string& path, const std::string& bytes);
/// Paths of all files below a directory, sorted.
std::vector<std::string> files_below(const std::string& directory);
/// The only entry of a cache directory.
std::string only_entry(const std::string& directory);

/// The steps a file system takes, as the faults of a test see them.
enum class Step {
  kOpen,
  kRead,
  kCreate,
  kAppend,
  kSync,
  kRename,
  kRemove,
  kMakeDirectory,
  kSyncDirectory,
  kList,
  kInfo,
  kResolve,
  kSetModified,
  kLock
};
inline constexpr Step kAllSteps[] = {Step::kOpen,          Step::kRead,   Step::kCreate, Step::kAppend,
                                     Step::kSync,          Step::kRename, Step::kRemove, Step::kMakeDirectory,
                                     Step::kSyncDirectory, Step::kList,   Step::kInfo,   Step::kResolve,
                                     Step::kSetModified,   Step::kLock};
std::string to_string(Step step);

/// The operating system's disk, with whatever a test puts in its way.
class FaultyFileSystem : public FileSystem {
 public:
  /// Asked before every step; an error is returned instead of the step being taken. An append that fails
  /// has written half of its bytes.
  std::function<std::error_code(Step, const std::string& path)> before;
  /// Changes what a file seems to be.
  std::function<void(const std::string& path, FileInfo& info)> seen;
  std::function<std::uint32_t()> as_user;
  std::atomic<std::int64_t> clock_offset_s{0};

  std::error_code open(const std::string& path, std::unique_ptr<ReadableFile>& file) override;
  std::error_code create(const std::string& path, std::uint32_t mode,
                         std::unique_ptr<WritableFile>& file) override;
  std::error_code rename(const std::string& from, const std::string& to) override;
  std::error_code remove(const std::string& path) override;
  std::error_code make_directory(const std::string& path) override;
  std::error_code sync_directory(const std::string& path) override;
  std::error_code list(const std::string& path, std::vector<std::string>& names) override;
  std::error_code info(const std::string& path, FileInfo& info) override;
  std::error_code resolve(const std::string& path, std::string& resolved) override;
  std::error_code set_modified(const std::string& path, std::int64_t seconds) override;
  std::error_code try_lock(const std::string& path, std::string_view note,
                           std::unique_ptr<FileLock>& lock) override;
  std::int64_t now_s() override;
  std::uint32_t user() override;

  std::error_code ask(Step step, const std::string& path) const {
    return before ? before(step, path) : std::error_code();
  }

 private:
  std::shared_ptr<FileSystem> real_ = posix_file_system();
};

std::error_code error_of(int number);

/// Runs `body` in a child process, whose exit status is its result (255 if it throws).
pid_t start_process(const std::function<int()>& body);
/// Exit status, or -signal.
int wait_for(pid_t process);

/// Adds to the table of faults that is printed when the tests end.
void count_faults(const std::string& kind, std::uint64_t count);

}  // namespace jfa::test
