#include "tests/cache/support.h"

#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <mutex>
#include <random>
#include <stdexcept>

#include "cache/bundle.h"
#include "cache/entry_directory.h"

namespace jfa::test {
namespace fs = std::filesystem;

TemporaryDirectory::TemporaryDirectory() {
  // In memory where there is such a place: these tests sync tens of thousands of files.
  const std::string parent =
      ::access("/dev/shm", W_OK) == 0 ? "/dev/shm" : fs::temp_directory_path().string();
  std::string pattern = parent + "/jfa-test-XXXXXX";
  if (::mkdtemp(pattern.data()) == nullptr) throw std::runtime_error("no temporary directory");
  path_ = pattern;
}

TemporaryDirectory::~TemporaryDirectory() {
  std::error_code ignored;
  fs::remove_all(path_, ignored);
}

CompileRequest make_request(const std::string& source, const std::string& name) {
  CompileRequest request;
  request.name = name;
  request.source = source;
  request.target = "sm_100f";
  request.options = {"-std=c++20", "-lineinfo"};
  request.precompile_command = "jfa precompile --name " + name;
  return request;
}

std::string noise(std::size_t bytes) {
  std::mt19937 random(1);
  std::string text(bytes, '\0');
  for (char& byte : text) byte = static_cast<char>(random());
  return text;
}

std::string raw_frame(const std::string& content) {
  std::string frame = "\x28\xb5\x2f\xfd\xa0";  // magic; one segment, its size in four bytes
  const auto append = [&](std::size_t value, int count) {
    for (int i = 0; i < count; ++i) frame += static_cast<char>(value >> (8 * i));
  };
  append(content.size(), 4);
  append(content.size() << 3 | 1, 3);  // a raw block, the last one
  return frame + content;
}

KernelImage make_image(const CompileRequest& request, const std::string& compiler,
                       std::size_t padding_bytes) {
  KernelImage image;
  image.name = request.name;
  image.target = request.target;
  image.compiler = compiler;
  image.compile_ms = 12.5;
  image.cubin =
      "\x7f"
      "ELF of " +
      request.source + noise(padding_bytes);
  image.ptx = "// PTX of " + request.source;
  image.facts["forward"] = {168, 0, 0, 1024, 16};
  return image;
}

bool made_from(const KernelImage& image, const CompileRequest& request) {
  const KernelImage expected = make_image(request);
  return image.cubin.starts_with(expected.cubin) && image.ptx == expected.ptx &&
         image.target == request.target;
}

CacheOptions quiet_options(const std::string& directory, std::shared_ptr<FileSystem> files) {
  CacheOptions options;
  options.directory = directory;
  options.compiler = kCompiler;
  options.file_system = std::move(files);
  return options;
}

CompileFunction counting(const CompileRequest& request, std::atomic<int>& compiles) {
  return [request, &compiles]() -> Result<KernelImage> {
    ++compiles;
    return make_image(request);
  };
}

Status write_bundle_with(const std::string& path, const std::function<Status(BundleWriter&)>& fill) {
  std::string bytes;
  BundleWriter writer([&](std::string_view more) {
    bytes += more;
    return Status();
  });
  Status status = fill(writer);
  if (status.ok()) status = writer.finish();
  if (status.ok()) write_bytes(path, bytes);
  return status;
}

void fill(const std::string& directory, const CompileRequest& request, const std::string& compiler,
          std::size_t padding_bytes) {
  CacheOptions options = quiet_options(directory);
  options.compiler = compiler;
  KernelCache cache(options);
  const auto image =
      cache.get_or_compile(request, [&] { return make_image(request, compiler, padding_bytes); });
  if (!image.ok() || cache.stats().published + cache.stats().directory_hits != 1)
    throw std::runtime_error("cannot fill " + directory);
}

std::string stored_path(const std::string& directory, const CompileRequest& request) {
  return EntryDirectory(posix_file_system(), directory, EntryDirectory::Access::kPrivate)
      .entry_path(entry_name(request_key(request), kCompiler));
}

void fill_bundle(const std::string& path, const std::vector<CompileRequest>& requests,
                 const std::string& compiler, std::size_t padding_bytes) {
  std::map<Digest, CompileRequest> sorted;
  for (const CompileRequest& request : requests) sorted[request_key(request)] = request;
  const Status status = write_bundle_with(path, [&](BundleWriter& writer) {
    for (const auto& [key, request] : sorted)
      writer.add({fields_of(request), request.source.size(), make_image(request, compiler, padding_bytes)})
          .or_throw();
    return Status();
  });
  status.or_throw();
}

void set_age(const std::string& path, std::int64_t age_s) {
  const auto files = posix_file_system();
  if (const auto error = files->set_modified(path, files->now_s() - age_s))
    throw std::runtime_error(path + ": " + reason(error));
}

std::int64_t stamp_age_s(const std::string& path) {
  const auto files = posix_file_system();
  FileInfo info;
  if (const auto error = files->info(path, info)) throw std::runtime_error(path + ": " + reason(error));
  return files->now_s() - info.modified_s;
}

std::string flipped(std::string bytes, std::size_t bit) {
  bytes[bit / 8] = static_cast<char>(bytes[bit / 8] ^ (1 << (bit % 8)));
  return bytes;
}

EntryDirectory open_directory(const std::string& directory) {
  return EntryDirectory(posix_file_system(), directory, EntryDirectory::Access::kPrivate);
}

Watched::Watched(const std::string& directory, std::shared_ptr<FileSystem> files)
    : options(quiet_options(directory, std::move(files))) {
  options.log.write = [this](LogLevel, const std::string& line) { lines.push_back(line); };
}

int Watched::compile(int count, int from) {
  KernelCache cache(options);
  int right = 0;
  for (int i = from; i < from + count; ++i) {
    const CompileRequest request = make_request("kernel " + std::to_string(i));
    const auto image = cache.get_or_compile(request, [&] { return make_image(request); });
    right += image.ok() && made_from(**image, request) ? 1 : 0;
  }
  stats = cache.stats();
  return right;
}

std::string read_bytes(const std::string& path) {
  std::ifstream stream(path, std::ios::binary);
  if (!stream) throw std::runtime_error("cannot read " + path);
  return {std::istreambuf_iterator<char>(stream), {}};
}

void write_bytes(const std::string& path, const std::string& bytes) {
  fs::create_directories(fs::path(path).parent_path());
  std::ofstream stream(path, std::ios::binary | std::ios::trunc);
  stream << bytes;
  stream.close();
  if (!stream || ::chmod(path.c_str(), 0600) != 0) throw std::runtime_error("cannot write " + path);
}

std::vector<std::string> files_below(const std::string& directory) {
  std::vector<std::string> paths;
  if (!fs::exists(directory)) return paths;
  for (const auto& entry : fs::recursive_directory_iterator(directory)) {
    if (!entry.is_directory() || entry.is_symlink()) paths.push_back(entry.path().string());
  }
  std::sort(paths.begin(), paths.end());
  return paths;
}

std::string only_entry(const std::string& directory) {
  const auto paths = files_below(directory + "/v2");
  if (paths.size() != 1) throw std::runtime_error(std::to_string(paths.size()) + " entries in " + directory);
  return paths.front();
}

std::string to_string(Step step) {
  switch (step) {
    case Step::kOpen:
      return "open";
    case Step::kRead:
      return "read";
    case Step::kCreate:
      return "create";
    case Step::kAppend:
      return "append";
    case Step::kSync:
      return "sync";
    case Step::kRename:
      return "rename";
    case Step::kRemove:
      return "remove";
    case Step::kMakeDirectory:
      return "make directory";
    case Step::kSyncDirectory:
      return "sync directory";
    case Step::kList:
      return "list";
    case Step::kInfo:
      return "info";
    case Step::kResolve:
      return "resolve";
    case Step::kSetModified:
      return "set modified";
    case Step::kLock:
      return "lock";
  }
  return "?";
}

namespace {

class FaultyReadableFile : public ReadableFile {
 public:
  FaultyReadableFile(FaultyFileSystem& files, std::string path, std::unique_ptr<ReadableFile> real)
      : files_(files), path_(std::move(path)), real_(std::move(real)) {}

  std::error_code info(FileInfo& info) override {
    if (const auto error = files_.ask(Step::kInfo, path_)) return error;
    const auto error = real_->info(info);
    if (!error && files_.seen) files_.seen(path_, info);
    return error;
  }
  std::error_code read(std::uint64_t offset, std::uint64_t count, std::string& bytes) override {
    if (const auto error = files_.ask(Step::kRead, path_)) return error;
    return real_->read(offset, count, bytes);
  }

 private:
  FaultyFileSystem& files_;
  std::string path_;
  std::unique_ptr<ReadableFile> real_;
};

class FaultyWritableFile : public WritableFile {
 public:
  FaultyWritableFile(FaultyFileSystem& files, std::string path, std::unique_ptr<WritableFile> real)
      : files_(files), path_(std::move(path)), real_(std::move(real)) {}

  std::error_code append(std::string_view bytes) override {
    // Half of it is on the disk when the fault comes.
    const std::string_view half = bytes.substr(0, bytes.size() / 2);
    if (const auto error = real_->append(half)) return error;
    if (const auto error = files_.ask(Step::kAppend, path_)) return error;
    return real_->append(bytes.substr(half.size()));
  }
  std::error_code sync() override {
    if (const auto error = files_.ask(Step::kSync, path_)) return error;
    return real_->sync();
  }

 private:
  FaultyFileSystem& files_;
  std::string path_;
  std::unique_ptr<WritableFile> real_;
};

}  // namespace

std::error_code FaultyFileSystem::open(const std::string& path, std::unique_ptr<ReadableFile>& file) {
  if (const auto error = ask(Step::kOpen, path)) return error;
  std::unique_ptr<ReadableFile> real;
  if (const auto error = real_->open(path, real)) return error;
  file = std::make_unique<FaultyReadableFile>(*this, path, std::move(real));
  return {};
}

std::error_code FaultyFileSystem::create(const std::string& path, std::uint32_t mode,
                                         std::unique_ptr<WritableFile>& file) {
  if (const auto error = ask(Step::kCreate, path)) return error;
  std::unique_ptr<WritableFile> real;
  if (const auto error = real_->create(path, mode, real)) return error;
  file = std::make_unique<FaultyWritableFile>(*this, path, std::move(real));
  return {};
}

std::error_code FaultyFileSystem::rename(const std::string& from, const std::string& to) {
  const auto error = ask(Step::kRename, to);
  return error ? error : real_->rename(from, to);
}

std::error_code FaultyFileSystem::remove(const std::string& path) {
  const auto error = ask(Step::kRemove, path);
  return error ? error : real_->remove(path);
}

std::error_code FaultyFileSystem::make_directory(const std::string& path) {
  const auto error = ask(Step::kMakeDirectory, path);
  return error ? error : real_->make_directory(path);
}

std::error_code FaultyFileSystem::sync_directory(const std::string& path) {
  const auto error = ask(Step::kSyncDirectory, path);
  return error ? error : real_->sync_directory(path);
}

std::error_code FaultyFileSystem::list(const std::string& path, std::vector<std::string>& names) {
  const auto error = ask(Step::kList, path);
  return error ? error : real_->list(path, names);
}

std::error_code FaultyFileSystem::info(const std::string& path, FileInfo& info) {
  if (const auto error = ask(Step::kInfo, path)) return error;
  const auto error = real_->info(path, info);
  if (!error && seen) seen(path, info);
  return error;
}

std::error_code FaultyFileSystem::resolve(const std::string& path, std::string& resolved) {
  const auto error = ask(Step::kResolve, path);
  return error ? error : real_->resolve(path, resolved);
}

std::error_code FaultyFileSystem::set_modified(const std::string& path, std::int64_t seconds) {
  const auto error = ask(Step::kSetModified, path);
  return error ? error : real_->set_modified(path, seconds);
}

std::error_code FaultyFileSystem::try_lock(const std::string& path, std::string_view note,
                                           std::unique_ptr<FileLock>& lock) {
  const auto error = ask(Step::kLock, path);
  return error ? error : real_->try_lock(path, note, lock);
}

std::int64_t FaultyFileSystem::now_s() { return real_->now_s() + clock_offset_s; }
std::uint32_t FaultyFileSystem::user() { return as_user ? as_user() : real_->user(); }

std::error_code error_of(int number) { return {number, std::generic_category()}; }

pid_t start_process(const std::function<int()>& body) {
  std::fflush(nullptr);
  const pid_t process = ::fork();
  if (process != 0) return process;
  int status = 255;
  try {
    status = body();
  } catch (...) {
  }
  std::fflush(nullptr);
  ::_exit(status);
}

int wait_for(pid_t process) {
  int status = 0;
  ::waitpid(process, &status, 0);
  return WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status);
}

namespace {

struct FaultTable {
  std::mutex mutex;
  std::map<std::string, std::uint64_t> counts;
  ~FaultTable() {
    std::uint64_t total = 0;
    for (const auto& [kind, count] : counts) {
      std::printf("%10llu  %s\n", static_cast<unsigned long long>(count), kind.c_str());
      total += count;
    }
    if (total != 0) std::printf("%10llu  faults in all\n", static_cast<unsigned long long>(total));
  }
};

FaultTable& fault_table() {
  static FaultTable table;
  return table;
}

}  // namespace

void count_faults(const std::string& kind, std::uint64_t count) {
  const std::lock_guard lock(fault_table().mutex);
  fault_table().counts[kind] += count;
}

}  // namespace jfa::test
