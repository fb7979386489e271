// Many processes, one directory.
#include <doctest/doctest.h>
#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <clocale>
#include <cstdlib>
#include <filesystem>
#include <thread>

#include "cache/maintenance.h"
#include "tests/cache/support.h"

using namespace jfa;
using namespace jfa::test;
namespace fs = std::filesystem;
using std::chrono::milliseconds;

namespace {

// Processes that wait in ready() all go on when release() is called.
class Gate {
 public:
  Gate() { REQUIRE(::pipe(ends_) == 0); }
  ~Gate() {
    ::close(ends_[0]);
    if (ends_[1] >= 0) ::close(ends_[1]);
  }
  void ready() {  // in a child
    ::close(ends_[1]);
    ends_[1] = -1;
    char byte;
    [[maybe_unused]] const ssize_t end = ::read(ends_[0], &byte, 1);
  }
  void release() {
    ::close(ends_[1]);
    ends_[1] = -1;
  }

 private:
  int ends_[2];
};

// A compiler that leaves a mark in a file each time it runs, whatever process it runs in.
CompileFunction marking(const CompileRequest& request, const std::string& marks, milliseconds takes) {
  return [=]() -> Result<KernelImage> {
    const int file = ::open(marks.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600);
    const bool marked = ::write(file, ".", 1) == 1;
    ::close(file);
    if (!marked) return Status::internal("no mark");
    std::this_thread::sleep_for(takes);
    return make_image(request);
  };
}

std::size_t marks_in(const std::string& path) { return fs::exists(path) ? fs::file_size(path) : 0; }

int wrong_exits(const std::vector<pid_t>& processes) {
  int wrong = 0;
  for (const pid_t process : processes) wrong += wait_for(process) == 0 ? 0 : 1;
  return wrong;
}

}  // namespace

TEST_CASE("8 processes of 32 threads, cold: one compilation a key") {
  const TemporaryDirectory directory;
  Gate gate;
  constexpr int kKeys = 4;
  std::vector<pid_t> processes;
  for (int process = 0; process < 8; ++process) {
    processes.push_back(start_process([&] {
      gate.ready();
      KernelCache cache(quiet_options(directory / "cache"));
      std::atomic<int> wrong{0};
      std::vector<std::thread> threads;
      for (int thread = 0; thread < 32; ++thread) {
        threads.emplace_back([&, thread] {
          const CompileRequest request = make_request("kernel " + std::to_string(thread % kKeys));
          const auto image =
              cache.get_or_compile(request, marking(request, directory / "marks", milliseconds(100)));
          wrong += image.ok() && made_from(**image, request) ? 0 : 1;
        });
      }
      for (std::thread& thread : threads) thread.join();
      return static_cast<int>(wrong);
    }));
  }
  gate.release();
  CHECK(wrong_exits(processes) == 0);
  CHECK(marks_in(directory / "marks") == kKeys);
  CHECK(files_below(directory / "cache/v2").size() == kKeys);
  count_faults("cold starts of 8 processes x 32 threads", 1);
}

TEST_CASE("bug-pool 72: 16 processes, 8 kernels, 50 cold rounds [cpu]") {
  int wrong = 0;
  for (int round = 0; round < 50; ++round) {
    const TemporaryDirectory directory;
    Gate gate;
    std::vector<pid_t> processes;
    for (int process = 0; process < 16; ++process) {
      processes.push_back(start_process([&] {
        gate.ready();
        KernelCache cache(quiet_options(directory / "cache"));
        int failed = 0;
        for (int i = 0; i < 8; ++i) {
          const CompileRequest request = make_request("kernel " + std::to_string(i));
          const auto image =
              cache.get_or_compile(request, marking(request, directory / "marks", milliseconds(0)));
          failed += image.ok() && made_from(**image, request) ? 0 : 1;
        }
        return failed;
      }));
    }
    gate.release();
    wrong += wrong_exits(processes);
    CHECK(marks_in(directory / "marks") == 8);
    CHECK(files_below(directory / "cache/v2").size() == 8);
    CHECK(files_below(directory / "cache/tmp").empty());
    CHECK(files_below(directory / "cache/locks").empty());
    EntryDirectory entries(posix_file_system(), directory / "cache", EntryDirectory::Access::kPrivate);
    CHECK(verify(entries, false).empty());
  }
  CHECK(wrong == 0);
  count_faults("cold starts of 16 processes", 50);
}

TEST_CASE("bug-pool 73: 8 processes and one slow compilation [cpu]") {
  const TemporaryDirectory directory;
  Gate gate;
  const CompileRequest request = make_request("kernel");
  std::vector<pid_t> processes;
  for (int process = 0; process < 8; ++process) {
    processes.push_back(start_process([&] {
      gate.ready();
      KernelCache cache(quiet_options(directory / "cache"));
      const auto image =
          cache.get_or_compile(request, marking(request, directory / "marks", milliseconds(2000)));
      return image.ok() && made_from(**image, request) ? 0 : 1;
    }));
  }
  gate.release();
  CHECK(wrong_exits(processes) == 0);
  CHECK(marks_in(directory / "marks") == 1);
}

TEST_CASE("bug-pool 76: the lock of a killed compilation is free at once [cpu]") {
  const TemporaryDirectory directory;
  const CompileRequest request = make_request("kernel");
  const pid_t holder = start_process([&] {
    KernelCache cache(quiet_options(directory / "cache"));
    return cache.get_or_compile(request, marking(request, directory / "marks", milliseconds(60'000))).ok()
               ? 0
               : 1;
  });
  while (marks_in(directory / "marks") == 0) std::this_thread::sleep_for(milliseconds(1));
  // Another one is waiting already when the holder dies.
  std::thread killer([&] {
    std::this_thread::sleep_for(milliseconds(100));
    ::kill(holder, SIGKILL);
  });
  const auto start = std::chrono::steady_clock::now();
  KernelCache cache(quiet_options(directory / "cache"));
  const auto image = cache.get_or_compile(request, marking(request, directory / "marks", milliseconds(0)));
  const auto took = std::chrono::steady_clock::now() - start;
  killer.join();
  CHECK(wait_for(holder) == -SIGKILL);
  REQUIRE(image.ok());
  CHECK(made_from(**image, request));
  CHECK(took < std::chrono::seconds(5));
  CHECK(cache.stats().lock_waits == 1);
  CHECK(cache.stats().lock_timeouts == 0);
  count_faults("a lock holder killed", 1);
}

TEST_CASE("bug-pool 76: a lock file that another host left behind locks nothing [cpu]") {
  const TemporaryDirectory directory;
  const CompileRequest request = make_request("kernel");
  EntryDirectory entries(posix_file_system(), directory / "cache", EntryDirectory::Access::kPrivate);
  write_bytes(entries.lock_path(request_key(request), kCompiler), "process 4711 on another-host\n");
  fs::permissions(directory / "cache", fs::perms::owner_all);
  KernelCache cache(quiet_options(directory / "cache"));
  std::atomic<int> compiles{0};
  CHECK(cache.get_or_compile(request, counting(request, compiles)).ok());
  CHECK(cache.stats().lock_waits == 0);
  CHECK(files_below(directory / "cache/locks").empty());
  count_faults("a lock file left behind", 1);
}

TEST_CASE("a holder that never lets go is waited for so long, then named, and the kernel compiled here") {
  const TemporaryDirectory directory;
  const CompileRequest request = make_request("kernel");
  EntryDirectory entries(posix_file_system(), directory / "cache", EntryDirectory::Access::kPrivate);
  std::unique_ptr<FileLock> held;
  REQUIRE_FALSE(entries.try_lock(request_key(request), kCompiler, held));
  std::vector<std::string> lines;
  CacheOptions options = quiet_options(directory / "cache");
  options.lock_wait_ms = 200;
  options.slow_compile_ms = 20;
  options.log.write = [&](LogLevel, const std::string& line) { lines.push_back(line); };
  KernelCache cache(options);
  const auto image = cache.get_or_compile(request, [&] { return make_image(request); });
  REQUIRE(image.ok());
  CHECK(cache.stats().lock_timeouts == 1);
  CHECK(cache.stats().published == 1);
  REQUIRE(lines.size() == 2);
  CHECK(lines[0].find("waiting for process " + std::to_string(::getpid()) + " on ") != std::string::npos);
  CHECK(lines[1].find(entries.lock_path(request_key(request), kCompiler)) != std::string::npos);
  count_faults("a lock that is never released", 1);
}

TEST_CASE("a lock whose file was removed under a waiter is not the lock") {
  const TemporaryDirectory directory;
  const auto files = posix_file_system();
  const std::string path = directory / "key.lock";
  std::unique_ptr<FileLock> first;
  REQUIRE_FALSE(files->try_lock(path, "first", first));
  std::unique_ptr<FileLock> second;
  CHECK(files->try_lock(path, "second", second) == std::errc::operation_would_block);
  CHECK(read_bytes(path) == "first");
  first.reset();
  CHECK_FALSE(fs::exists(path));
  CHECK_FALSE(files->try_lock(path, "second", second));
  CHECK(read_bytes(path) == "second");
}

TEST_CASE("bug-pool 77: a second process elsewhere, in another environment, compiles nothing [cpu]") {
  const TemporaryDirectory directory;
  const TemporaryDirectory elsewhere;
  const CompileRequest request = make_request("kernel");
  const auto run = [&](const char* cwd, const char* locale) {
    return wait_for(start_process([&] {
      if (::chdir(cwd) != 0) return 1;
      ::setenv("TMPDIR", cwd, 1);
      ::setenv("LC_ALL", locale, 1);
      std::setlocale(LC_ALL, "");
      KernelCache cache(quiet_options(directory / "cache"));
      return cache.get_or_compile(request, marking(request, directory / "marks", milliseconds(0))).ok() ? 0
                                                                                                        : 1;
    }));
  };
  CHECK(run(directory.path().c_str(), "C") == 0);
  CHECK(run(elsewhere.path().c_str(), "C.UTF-8") == 0);
  CHECK(run("/", "de_DE.UTF-8") == 0);
  CHECK(marks_in(directory / "marks") == 1);
}
