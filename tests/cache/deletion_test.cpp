// "All of it may be deleted at any time": any part of the directory, between any two steps, under a process
// that goes on using it.
#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <functional>

#include "cache/entry_directory.h"
#include "cache/maintenance.h"
#include "tests/cache/support.h"

using namespace jfa;
using namespace jfa::test;
namespace fs = std::filesystem;

namespace {

// A process on a warm directory: one entry to find, one that is damaged, one to compile and store.
struct Process {
  TemporaryDirectory parent;
  std::string directory = parent / "cache";
  std::shared_ptr<FaultyFileSystem> files = std::make_shared<FaultyFileSystem>();
  Watched watched{directory, files};
  std::unique_ptr<KernelCache> cache;
  int wrong = 0;

  Process() {
    fill(directory, make_request("whole"));
    fill(directory, make_request("damaged"));
    write_bytes(stored_path(directory, make_request("damaged")), "damaged");
  }
  void get(const char* source) {
    const CompileRequest request = make_request(source);
    const auto image = cache->get_or_compile(request, [&] { return make_image(request); });
    wrong += image.ok() && made_from(**image, request) ? 0 : 1;
  }
  void run() {
    cache = std::make_unique<KernelCache>(watched.options);
    for (const char* source : {"whole", "damaged", "fresh"}) get(source);
  }
  bool says_memory_only() const {
    return std::ranges::any_of(
        watched.lines, [](const std::string& line) { return line.find("memory only") != std::string::npos; });
  }
};

void remove_folders_of_entries(const std::string& directory) {
  std::vector<fs::path> folders;
  std::error_code error;
  for (const auto& folder : fs::directory_iterator(directory + "/v2", error)) folders.push_back(folder);
  for (const fs::path& folder : folders) fs::remove_all(folder);
}

struct Deletion {
  std::string what;
  std::function<void(const std::string& directory)> act;
};
std::vector<Deletion> deletions() {
  std::vector<Deletion> all;
  for (const char* part : {"", "/tmp", "/locks", "/damaged", "/usage", "/v2", "/CACHEDIR.TAG"})
    all.push_back({part, [part](const std::string& directory) { fs::remove_all(directory + part); }});
  all.push_back({"/v2/*", remove_folders_of_entries});
  all.push_back({"/v2 and /CACHEDIR.TAG", [](const std::string& directory) {
                   fs::remove_all(directory + "/v2");
                   fs::remove_all(directory + "/CACHEDIR.TAG");
                 }});
  all.push_back({"/*", [](const std::string& directory) {
                   fs::remove_all(directory);
                   fs::create_directory(directory);
                   fs::permissions(directory, fs::perms::owner_all);
                 }});
  return all;
}

}  // namespace

TEST_CASE("a deleted part of the directory is made again, and every process stores as before") {
  for (const Deletion& deletion : deletions()) {
    CAPTURE(deletion.what);
    Process process;
    process.run();
    deletion.act(process.directory);
    process.get("after");  // the process that lives on
    CHECK(process.cache->stats().published == 3);
    Watched later(process.directory);
    CHECK(later.compile(1) == 1);  // one that starts later
    CHECK(later.stats.published == 1);
    CHECK(later.lines.empty());
    CHECK_FALSE(process.says_memory_only());
    CHECK(process.wrong == 0);
    CHECK(fs::exists(process.directory + "/CACHEDIR.TAG"));
    CHECK(KernelCache(quiet_options(process.directory)).find(make_request("after")) != nullptr);
  }
}

TEST_CASE("any part of the directory deleted between any two steps of a process") {
  std::uint64_t faults = 0;
  for (const Deletion& deletion : deletions()) {
    CAPTURE(deletion.what);
    for (int deleting = 0;; ++deleting) {
      CAPTURE(deleting);
      Process process;
      int steps = 0;
      process.files->before = [&](Step, const std::string&) {
        if (steps++ == deleting) deletion.act(process.directory);
        return std::error_code();
      };
      process.run();
      if (steps <= deleting) break;
      ++faults;
      process.get("after");
      const bool stored =
          KernelCache(quiet_options(process.directory)).find(make_request("after")) != nullptr;
      CHECK(stored);
      CHECK(process.wrong == 0);
      CHECK_FALSE(process.says_memory_only());
      EntryDirectory entries(posix_file_system(), process.directory, EntryDirectory::Access::kPrivate);
      CHECK(entries.check_writable().ok());
      CHECK(verify(entries, false).empty());
    }
  }
  CHECK(faults > 300);
  count_faults("a part deleted between two steps", faults);
}

TEST_CASE("a directory that is deleted all the time costs a line, and no more once that ends") {
  Process process;
  bool deleting = true;
  process.files->before = [&](Step step, const std::string& path) {
    if (deleting && step == Step::kRename && path.ends_with(".entry")) fs::remove_all(process.directory);
    return std::error_code();
  };
  process.run();
  CHECK(process.wrong == 0);
  CHECK(process.says_memory_only());
  deleting = false;
  process.get("after");
  CHECK(KernelCache(quiet_options(process.directory)).find(make_request("after")) != nullptr);
  count_faults("a directory that is deleted all the time", 2);
}

TEST_CASE("a lock whose file was deleted and made again by somebody else is left to them") {
  const TemporaryDirectory directory;
  const auto files = posix_file_system();
  const std::string path = directory / "key.lock";
  std::unique_ptr<FileLock> first;
  std::unique_ptr<FileLock> second;
  std::unique_ptr<FileLock> third;
  REQUIRE_FALSE(files->try_lock(path, "first", first));
  fs::remove(path);
  REQUIRE_FALSE(files->try_lock(path, "second", second));
  first.reset();
  CHECK(read_bytes(path) == "second");
  CHECK(files->try_lock(path, "third", third) == std::errc::operation_would_block);
}
