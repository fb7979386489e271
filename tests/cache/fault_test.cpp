// Whatever the disk does, a call gets the right kernel, and what is stored is whole.
#include <doctest/doctest.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <random>

#include "cache/maintenance.h"
#include "tests/cache/support.h"

using namespace jfa;
using namespace jfa::test;
namespace fs = std::filesystem;

namespace {

constexpr int kErrors[] = {ENOSPC, EDQUOT, EACCES, EPERM,  EROFS, EIO,  EMFILE,
                           ENOENT, ESTALE, ENOLCK, ENOSYS, EBUSY, EFBIG};

// One cold call, a warm one from a second cache, and one for another kernel: everything a process does.
// Returns the number of wrong or failed answers.
int use_cache(const std::string& directory, const std::shared_ptr<FileSystem>& files) {
  int wrong = 0;
  std::atomic<int> compiles{0};
  for (const char* source : {"one", "one", "two"}) {
    CacheOptions options = quiet_options(directory, files);
    options.lock_wait_ms = 0;
    const CompileRequest request = make_request(source);
    const auto image = KernelCache(options).get_or_compile(request, counting(request, compiles));
    wrong += image.ok() && made_from(**image, request) ? 0 : 1;
  }
  return wrong;
}

// What is in the directory is whole, and a sound process can use it.
void check_sound(const std::string& directory) {
  EntryDirectory entries(posix_file_system(), directory, EntryDirectory::Access::kPrivate);
  CHECK(verify(entries, false).empty());
  CHECK(use_cache(directory, nullptr) == 0);
}

}  // namespace

TEST_CASE("every step failing for good, with every error") {
  int wrong = 0;
  for (const Step step : kAllSteps) {
    for (const int number : kErrors) {
      CAPTURE(to_string(step));
      CAPTURE(number);
      const TemporaryDirectory directory;
      const auto files = std::make_shared<FaultyFileSystem>();
      files->before = [&](Step taken, const std::string&) {
        return taken == step ? error_of(number) : std::error_code();
      };
      wrong += use_cache(directory.path(), files);
      check_sound(directory.path());
      wrong += use_cache(directory.path(), files);  // now with entries to find
      check_sound(directory.path());
    }
  }
  CHECK(wrong == 0);
  count_faults("a step failing for good", 2 * std::size(kAllSteps) * std::size(kErrors));
}

// Every error at every third step, every step with every third error: each kind of step meets all of them
// above.
TEST_CASE("each single step failing once, with the errors in turn") {
  constexpr int kTurns = 3;
  int wrong = 0;
  std::uint64_t faults = 0;
  for (int turn = 0; const int number : kErrors) {
    for (int failing = turn++ % kTurns;; failing += kTurns) {
      CAPTURE(failing);
      CAPTURE(number);
      const TemporaryDirectory directory;
      const auto files = std::make_shared<FaultyFileSystem>();
      int steps = 0;
      files->before = [&](Step, const std::string&) {
        return steps++ == failing ? error_of(number) : std::error_code();
      };
      wrong += use_cache(directory.path(), files);
      if (steps <= failing) break;
      ++faults;
      check_sound(directory.path());
    }
  }
  CHECK(wrong == 0);
  CHECK(faults > 100);
  count_faults("a single step failing once", faults);
}

TEST_CASE("kill -9 at every step") {
  std::uint64_t kills = 0;
  for (int fatal = 0;; ++fatal) {
    CAPTURE(fatal);
    const TemporaryDirectory directory;
    const int status = wait_for(start_process([&] {
      const auto files = std::make_shared<FaultyFileSystem>();
      int steps = 0;
      files->before = [&](Step, const std::string&) {
        if (steps++ == fatal) ::kill(::getpid(), SIGKILL);
        return std::error_code();
      };
      return use_cache(directory.path(), files);
    }));
    if (status == 0) break;  // it had no such step
    REQUIRE(status == -SIGKILL);
    ++kills;
    check_sound(directory.path());
    // What the killed process left is swept when it is old, and not before.
    const auto files = std::make_shared<FaultyFileSystem>();
    EntryDirectory entries(files, directory.path(), EntryDirectory::Access::kPrivate);
    const auto left = files_below(directory / "tmp").size();
    trim(entries, trim_policy(0));
    CHECK(files_below(directory / "tmp").size() == left);
    CHECK(files_below(directory / "locks").empty());
    files->clock_offset_s = 7200;
    trim(entries, trim_policy(0));
    CHECK(files_below(directory / "tmp").empty());
  }
  CHECK(kills > 30);
  count_faults("kill -9 at a step", kills);
}

TEST_CASE("bug-pool 81: a directory that cannot be written costs one warning and no call [cpu]") {
  const TemporaryDirectory directory;
  const auto files = std::make_shared<FaultyFileSystem>();
  int number = 0;
  SUBCASE("read-only") { number = EROFS; }
  SUBCASE("forbidden") { number = EACCES; }
  SUBCASE("full") { number = ENOSPC; }
  SUBCASE("over quota") { number = EDQUOT; }
  files->before = [&](Step step, const std::string&) {
    const bool writes = step == Step::kCreate || step == Step::kAppend || step == Step::kMakeDirectory;
    return writes ? error_of(number) : std::error_code();
  };
  Watched cache(directory.path(), files);
  CHECK(cache.compile(5) == 5);
  REQUIRE(cache.lines.size() == 1);
  CHECK(cache.lines[0].find("new kernels are kept in memory only") != std::string::npos);
  CHECK(cache.stats.publish_failures >= 1);
  CHECK(files_below(directory / "v2").empty());
  CHECK(files_below(directory / "tmp").empty());
  count_faults("a directory that cannot be written", 5);
}

TEST_CASE("bug-pool 81: no home, a relative home and the root as home [cpu]") {
  for (const char* home : {"", "relative/home", "/", "//"}) {
    CAPTURE(std::string(home));
    auto options = cache_options_from_environment(
        [&](const char* name) { return std::string(name) == "HOME" ? home : nullptr; });
    REQUIRE(options.ok());
    std::vector<std::string> lines;
    options->log.write = [&](LogLevel, const std::string& line) { lines.push_back(line); };
    KernelCache cache(*options);
    const CompileRequest request = make_request("kernel");
    CHECK(cache.get_or_compile(request, [&] { return make_image(request); }).ok());
    CHECK(cache.get_or_compile(make_request("b"), [&] { return make_image(make_request("b")); }).ok());
    REQUIRE(lines.size() == 1);
    CHECK(lines[0].find("HOME") != std::string::npos);
    CHECK(cache.state().directory.empty());
    CHECK_FALSE(fs::exists("/.cache/jfa"));
    CHECK_FALSE(fs::exists("/jfa"));
  }
  count_faults("no home or an unusable one", 4);
}

TEST_CASE("a full disk: old entries make room, once") {
  const TemporaryDirectory directory;
  Watched cache(directory.path(), std::make_shared<FaultyFileSystem>());
  REQUIRE(cache.compile(5) == 5);
  for (const std::string& path : files_below(directory / "v2")) set_age(path, 600);
  auto& files = static_cast<FaultyFileSystem&>(*cache.options.file_system);
  bool full = true;
  files.before = [&](Step step, const std::string& path) {
    if (step == Step::kRemove && path.ends_with(".entry")) full = false;
    return full && step == Step::kAppend ? error_of(ENOSPC) : std::error_code();
  };
  CHECK(cache.compile(1, 5) == 1);
  CHECK(cache.lines.empty());
  CHECK(cache.stats.published == 1);
  CHECK(cache.stats.evicted >= 1);
  CHECK(cache.stats.evicted < 5);
  count_faults("a full disk that eviction helps", 1);
}

TEST_CASE("bug-pool 83: a busy clean-up fails no call [cpu]") {
  for (const int number : {EBUSY, ENOTEMPTY}) {
    const TemporaryDirectory directory;
    const auto files = std::make_shared<FaultyFileSystem>();
    files->before = [&](Step step, const std::string&) {
      if (step == Step::kRemove) return error_of(number);
      return step == Step::kSync ? error_of(EIO)
                                 : std::error_code();  // so that there is something to clean up
    };
    CHECK(use_cache(directory.path(), files) == 0);
    CHECK(files_below(directory / "tmp").size() == 3);
    EntryDirectory entries(posix_file_system(), directory.path(), EntryDirectory::Access::kPrivate);
    for (const std::string& path : files_below(directory / "tmp")) set_age(path, 7200);
    CHECK(trim(entries, trim_policy(0)).swept == 3);
  }
  count_faults("a busy clean-up", 2);
}

TEST_CASE("bug-pool 71: whatever an entry was replaced by is found, moved aside and made anew [cpu]") {
  const CompileRequest request = make_request("kernel");
  const CompileRequest other = make_request("another kernel");
  std::mt19937 random(1);
  std::string noise(4096, '\0');
  for (char& c : noise) c = static_cast<char>(random());

  const TemporaryDirectory directory;
  fill(directory.path(), request);
  fill(directory.path(), other);
  const std::string path = stored_path(directory.path(), request);
  const std::string whole = read_bytes(path);
  bool kept_aside = true;
  SUBCASE("0 bytes") { write_bytes(path, ""); }
  SUBCASE("the first half") { write_bytes(path, whole.substr(0, whole.size() / 2)); }
  SUBCASE("noise") { write_bytes(path, noise); }
  SUBCASE("the entry of another kernel") {
    fs::copy_file(stored_path(directory.path(), other), path, fs::copy_options::overwrite_existing);
  }
  SUBCASE("a bare ELF file") {
    write_bytes(path,
                "\x7f"
                "ELF" +
                    noise);
  }
  SUBCASE("a directory") {
    fs::remove(path);
    fs::create_directory(path);
    write_bytes(path + "/file", "x");
  }
  SUBCASE("a dangling symbolic link") {
    fs::remove(path);
    fs::create_symlink("/nowhere", path);
  }
  SUBCASE("a symbolic link to a whole entry of the right key") {
    write_bytes(directory / "planted", whole);
    fs::remove(path);
    fs::create_symlink(directory / "planted", path);
  }
  SUBCASE("a FIFO") {
    fs::remove(path);
    REQUIRE(::mkfifo(path.c_str(), 0600) == 0);
  }
  SUBCASE("nothing") {
    fs::remove(path);
    kept_aside = false;
  }
  Watched cache(directory.path());
  KernelCache opened(cache.options);
  const auto image = opened.get_or_compile(request, [&] { return make_image(request); });
  REQUIRE(image.ok());
  CHECK(made_from(**image, request));
  CHECK(opened.stats().compiles == 1);
  CHECK(opened.stats().damaged == (kept_aside ? 1 : 0));
  CHECK(fs::is_empty(directory / "damaged") == !kept_aside);
  CHECK(read_bytes(path) == whole);
  check_sound(directory.path());
  count_faults("an entry replaced by something else", 1);
}

TEST_CASE("entries cut at every boundary of the format are made anew") {
  const TemporaryDirectory directory;
  const CompileRequest request = make_request("kernel");
  fill(directory.path(), request);
  const std::string path = stored_path(directory.path(), request);
  const std::string whole = read_bytes(path);
  const std::string frame = "\x28\xb5\x2f\xfd";
  const std::size_t metadata_end = whole.find(frame);
  const std::size_t ptx = whole.find(frame, metadata_end + 1);
  REQUIRE(ptx < whole.size());
  std::uint64_t faults = 0;
  for (const std::size_t boundary :
       {std::size_t{0}, std::size_t{8}, std::size_t{12}, std::size_t{16}, std::size_t{24}, std::size_t{32},
        metadata_end, ptx, whole.size() - 32, whole.size()}) {
    for (const int shift : {-1, 0, 1}) {
      const std::int64_t size = static_cast<std::int64_t>(boundary) + shift;
      if (size < 0 || size == static_cast<std::int64_t>(whole.size())) continue;
      write_bytes(path, size < static_cast<std::int64_t>(whole.size())
                            ? whole.substr(0, static_cast<std::size_t>(size))
                            : whole + "x");
      Watched cache(directory.path());
      KernelCache opened(cache.options);
      CHECK(made_from(*opened.get_or_compile(request, [&] { return make_image(request); }).value(), request));
      CHECK(opened.stats().damaged == 1);
      CHECK(read_bytes(path) == whole);
      ++faults;
    }
  }
  count_faults("entries on disk cut at a boundary", faults);
}

TEST_CASE("a folder of entries that is a symbolic link is not followed") {
  const TemporaryDirectory directory;
  const CompileRequest request = make_request("kernel");
  fill(directory / "theirs", request);
  const std::string folder = fs::path(stored_path(directory / "ours", request)).parent_path();
  fs::create_directories(fs::path(folder).parent_path());
  fs::permissions(directory / "ours", fs::perms::owner_all);
  const std::string theirs = fs::path(stored_path(directory / "theirs", request)).parent_path();
  fs::create_directory_symlink(theirs, folder);
  Watched cache(directory / "ours");
  KernelCache opened(cache.options);
  CHECK(opened.get_or_compile(request, [&] { return make_image(request); }).ok());
  CHECK(opened.stats().compiles == 1);
  CHECK(opened.stats().damaged == 1);
  CHECK_FALSE(fs::is_symlink(folder));
  count_faults("a planted symbolic link", 1);
}

TEST_CASE("a root that is a symbolic link of ours is followed") {
  const TemporaryDirectory directory;
  fs::create_directory(directory / "elsewhere");
  fs::permissions(directory / "elsewhere", fs::perms::owner_all);
  fs::create_directory_symlink(directory / "elsewhere", directory / "link");
  fill(directory / "link", make_request("kernel"));
  CHECK(files_below(directory / "elsewhere/v2").size() == 1);
}

TEST_CASE("a foreign owner or a mode that lets others write: not used, not touched, one warning") {
  const TemporaryDirectory directory;
  const CompileRequest request = make_request("kernel");
  fill(directory.path(), request);
  const auto files = std::make_shared<FaultyFileSystem>();
  const std::string real = fs::canonical(directory.path());
  const auto before = files_below(directory.path());
  std::string expected;
  SUBCASE("another owner") {
    files->seen = [&](const std::string& path, FileInfo& info) {
      info.owner = path == real ? 4711 : info.owner;
    };
    expected = "belongs to another user (owner 4711, mode 0700";
  }
  SUBCASE("we are another user") {
    files->as_user = [] { return 1234u; };
    expected = "this process is user 1234";
  }
  SUBCASE("group may write") {
    files->seen = [&](const std::string& path, FileInfo& info) {
      info.mode = path == real ? 0770 : info.mode;
    };
    expected = "can be written by other users";
  }
  SUBCASE("all may write") {
    files->seen = [&](const std::string& path, FileInfo& info) {
      info.mode = path == real ? 01777 : info.mode;
    };
    expected = "can be written by other users";
  }
  Watched cache(directory.path(), files);
  CHECK(cache.compile(3) == 3);
  REQUIRE(cache.lines.size() == 1);
  CHECK(cache.lines[0].find(expected) != std::string::npos);
  CHECK(cache.stats.compiles == 3);
  CHECK(files_below(directory.path()) == before);
  count_faults("a directory of somebody else", 1);
}

TEST_CASE("an entry of a foreign owner or that others may write is not served") {
  const TemporaryDirectory directory;
  const CompileRequest request = make_request("kernel");
  fill(directory.path(), request);
  const auto files = std::make_shared<FaultyFileSystem>();
  SUBCASE("owner") {
    files->seen = [&](const std::string& path, FileInfo& info) {
      info.owner = path.ends_with(".entry") ? 4711 : info.owner;
    };
  }
  SUBCASE("mode") {
    files->seen = [&](const std::string& path, FileInfo& info) {
      info.mode = path.ends_with(".entry") ? 0666 : info.mode;
    };
  }
  SUBCASE("owner of its folder") {
    files->seen = [&](const std::string& path, FileInfo& info) {
      info.owner = path == fs::path(stored_path(directory.path(), request)).parent_path() ? 4711 : info.owner;
    };
  }
  KernelCache cache(quiet_options(directory.path(), files));
  CHECK(cache.get_or_compile(request, [&] { return make_image(request); }).ok());
  CHECK(cache.stats().compiles == 1);
  CHECK(cache.stats().damaged == 1);
  count_faults("an entry of somebody else", 1);
}

TEST_CASE("read-only directories and bundles that everybody may write are left out") {
  const TemporaryDirectory directory;
  const CompileRequest request = make_request("kernel");
  fill(directory / "shared", request);
  fs::permissions(directory / "shared", fs::perms::all);
  Watched cache("");
  cache.options.read_only_directories = {directory / "shared", directory / "missing"};
  cache.options.bundles = {directory / "missing.jfab"};
  KernelCache opened(cache.options);
  CHECK(opened.find(request) == nullptr);
  REQUIRE(cache.lines.size() == 3);
  CHECK(cache.lines[0].find("can be written by everybody") != std::string::npos);
  CHECK(cache.lines[1].find("No such file") != std::string::npos);
  CHECK(cache.lines[2].find("missing.jfab") != std::string::npos);
}

TEST_CASE("the winner of a race, or our own file, is invisible: own bytes are used") {
  const TemporaryDirectory directory;
  const auto files = std::make_shared<FaultyFileSystem>();
  files->before = [](Step step, const std::string& path) {
    return step == Step::kOpen && path.ends_with(".entry") ? error_of(ENOENT) : std::error_code();
  };
  CHECK(use_cache(directory.path(), files) == 0);
  check_sound(directory.path());
  count_faults("an invisible winner", 3);
}

TEST_CASE("a rename race: another process publishes the same key in between") {
  const TemporaryDirectory directory;
  const CompileRequest request = make_request("kernel");
  const auto files = std::make_shared<FaultyFileSystem>();
  bool raced = false;
  files->before = [&](Step step, const std::string& path) {
    if (step == Step::kRename && path.ends_with(".entry") && !raced) {
      raced = true;
      const pid_t winner = start_process([&] {
        CacheOptions options = quiet_options(directory.path());
        options.lock_wait_ms = 0;
        return KernelCache(options).get_or_compile(request, [&] { return make_image(request); }).ok() ? 0 : 1;
      });
      CHECK(wait_for(winner) == 0);
    }
    return std::error_code();
  };
  SUBCASE("both renames work") {}
  SUBCASE("ours fails") {
    const auto race = files->before;
    files->before = [race](Step step, const std::string& path) {
      (void)race(step, path);
      return step == Step::kRename && path.ends_with(".entry") ? error_of(EEXIST) : std::error_code();
    };
  }
  KernelCache cache(quiet_options(directory.path(), files));
  CHECK(made_from(*cache.get_or_compile(request, [&] { return make_image(request); }).value(), request));
  CHECK(raced);
  check_sound(directory.path());
  count_faults("a rename race", 1);
}

TEST_CASE("a file system without locks") {
  for (const int number : {ENOLCK, ENOSYS, EOPNOTSUPP, EINVAL}) {
    const TemporaryDirectory directory;
    const auto files = std::make_shared<FaultyFileSystem>();
    files->before = [&](Step step, const std::string&) {
      return step == Step::kLock ? error_of(number) : std::error_code();
    };
    CHECK(use_cache(directory.path(), files) == 0);
    CHECK(files_below(directory / "v2").size() == 2);
    check_sound(directory.path());
  }
  count_faults("no locks", 4);
}

TEST_CASE("the clock set back: nothing is lost, and stamps in the future are mended") {
  const TemporaryDirectory directory;
  const auto files = std::make_shared<FaultyFileSystem>();
  files->clock_offset_s = -30 * 86400;
  CHECK(use_cache(directory.path(), files) == 0);
  check_sound(directory.path());
  EntryDirectory entries(files, directory.path(), EntryDirectory::Access::kPrivate);
  CHECK(trim(entries, trim_policy(1)).evicted.empty());
  for (const StoredEntry& entry : stored_entries(entries)) CHECK(entry.last_use_s <= files->now_s());
  files->clock_offset_s = files->clock_offset_s + 120;  // from now on they age like the others
  CHECK(trim(entries, trim_policy(1)).evicted.size() == 2);
  count_faults("the clock set back", 3);
}

TEST_CASE("other format versions and foreign files are neither read nor touched") {
  const TemporaryDirectory directory;
  const CompileRequest request = make_request("kernel");
  fill(directory.path(), request);
  const std::string path = stored_path(directory.path(), request);
  std::vector<std::string> foreign;
  for (const char* version : {"v0", "v3"}) {
    std::string other = path;
    foreign.push_back(other.replace(other.find("/v2/") + 1, 2, version));
  }
  const std::string folder = fs::path(path).parent_path();
  foreign.insert(foreign.end(), {folder + "/notes.txt", folder + "/" + std::string(62, 'a') + ".entry",
                                 folder + "/" + std::string(62, 'A') + "-" + std::string(16, 'b') + ".entry",
                                 directory / "tmp/notes", directory / "damaged/notes", directory / "v2/notes",
                                 directory / "notes"});
  for (const std::string& file : foreign) {
    write_bytes(file, "not ours");
    set_age(file, 30 * 86400);
  }
  set_age(path, 600);
  EntryDirectory entries(posix_file_system(), directory.path(), EntryDirectory::Access::kPrivate);
  CHECK(stored_entries(entries).size() == 1);
  CHECK(verify(entries, true).empty());
  CHECK(trim(entries, trim_policy(1)).evicted.size() == 1);
  fill(directory.path(), request);
  CHECK(clear(entries).removed == 1);
  CHECK(stored_entries(entries).empty());
  for (const std::string& file : foreign) CHECK(read_bytes(file) == "not ours");
}

TEST_CASE("entries of an earlier format: misses, swept when nobody has used them for a month, cleared") {
  const TemporaryDirectory directory;
  const CompileRequest request = make_request("kernel");
  fill(directory.path(), request);
  const std::string path = stored_path(directory.path(), request);
  std::string earlier = path;
  earlier.replace(earlier.find("/v2/") + 1, 2, "v1");
  write_bytes(earlier, "an entry of then");
  fs::remove(path);
  Watched cache(directory.path());
  KernelCache opened(cache.options);
  CHECK(made_from(*opened.get_or_compile(request, [&] { return make_image(request); }).value(), request));
  CHECK(opened.stats().damaged == 0);
  CHECK(cache.lines.empty());

  EntryDirectory entries(posix_file_system(), directory.path(), EntryDirectory::Access::kPrivate);
  set_age(earlier, 29 * 86400);
  CHECK(trim(entries, trim_policy(0)).swept == 0);
  CHECK(fs::exists(earlier));
  set_age(earlier, 31 * 86400);
  CHECK(trim(entries, trim_policy(0)).swept == 1);
  CHECK_FALSE(fs::exists(earlier));
  write_bytes(earlier, "another");
  CHECK(clear(entries).removed == 2);
  CHECK_FALSE(fs::exists(earlier));
}

TEST_CASE("a directory stays under its cap, and the least recently used entries go") {
  const TemporaryDirectory directory;
  CacheOptions options = quiet_options(directory.path());
  options.max_bytes = 10 * 64 * 1024;
  std::vector<CompileRequest> requests;
  for (int i = 0; i < 10; ++i) {
    requests.push_back(make_request("kernel " + std::to_string(i)));
    fill(directory.path(), requests.back(), kCompiler, 60'000);
    set_age(stored_path(directory.path(), requests.back()), 7200 - 60 * i);
  }
  set_age(directory / "usage", 3600);  // nobody has counted for an hour
  // A hit is use: the oldest entry is not the first to go.
  CHECK(KernelCache(options).find(requests[0]) != nullptr);
  KernelCache cache(options);
  const CompileRequest fresh = make_request("fresh");
  CHECK(cache.get_or_compile(fresh, [&] { return make_image(fresh, kCompiler, 60'000); }).ok());
  CHECK(cache.stats().evicted == 2);
  CHECK(fs::exists(stored_path(directory.path(), requests[0])));
  CHECK_FALSE(fs::exists(stored_path(directory.path(), requests[1])));
  CHECK_FALSE(fs::exists(stored_path(directory.path(), requests[2])));
  CHECK(fs::exists(stored_path(directory.path(), requests[3])));
  CHECK(fs::exists(stored_path(directory.path(), fresh)));
}

TEST_CASE("many short processes, each with one new entry, stay under the cap too") {
  const TemporaryDirectory directory;
  CacheOptions options = quiet_options(directory.path());
  options.max_bytes = 5 * 64 * 1024;
  for (int i = 0; i < 20; ++i) {
    const CompileRequest request = make_request("kernel " + std::to_string(i));
    CHECK(KernelCache(options)
              .get_or_compile(request, [&] { return make_image(request, kCompiler, 60'000); })
              .ok());
    set_age(stored_path(directory.path(), request), 3600 - i);  // older than a minute
  }
  CHECK(files_below(directory / "v2").size() <= 5);
  CHECK(files_below(directory / "v2").size() >= 4);
}

TEST_CASE("two trimmers: the second one leaves the work to the first") {
  const TemporaryDirectory directory;
  fill(directory.path(), make_request("kernel"));
  EntryDirectory entries(posix_file_system(), directory.path(), EntryDirectory::Access::kPrivate);
  std::unique_ptr<FileLock> lock;
  REQUIRE_FALSE(posix_file_system()->try_lock(directory / "locks/trim.lock", "", lock));
  CHECK(trim(entries, trim_policy(1)).busy);
  lock.reset();
  CHECK_FALSE(trim(entries, trim_policy(1)).busy);
}
