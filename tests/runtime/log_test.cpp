// What the library says and to whom: nobody, JFA_VERBOSE, a callback. Nothing here needs a compiler.
#include "jfa/log.h"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <stdexcept>
#include <thread>

#include "jfa/cache.h"
#include "runtime/log.h"
#include "tests/cache/support.h"

namespace jfa::test {
namespace {

// Asks for a kernel that nobody has and that may not be compiled, with a cache directory that cannot be used.
int ask_in_vain() {
  Result<Device> device = Device::open("sim:sm_100a");
  if (!device) return 2;
  Configuration configuration;
  configuration.head_dim = 16;
  return prepare(*device, configuration).kind() == ErrorKind::kUnavailable ? 0 : 3;
}

// What `act` says on stderr in a process of its own with JFA_VERBOSE=`verbose`.
std::string errors_of(const char* verbose, const std::function<int()>& act) {
  const TemporaryDirectory directory;
  const std::string log = directory / "log";
  const int status = wait_for(start_process([&]() -> int {
    ::setenv("JFA_VERBOSE", verbose, 1);
    ::setenv("JFA_CACHE", "on", 1);
    ::setenv("JFA_CACHE_DIR", "/dev/null/cache", 1);
    ::setenv("JFA_BUNDLES", "/dev/null/kernels.jfab", 1);
    ::setenv("JFA_COMPILE", "never", 1);
    const int file = ::open(log.c_str(), O_WRONLY | O_CREAT, 0600);
    if (::dup2(file, STDERR_FILENO) < 0) return 1;
    return act();
  }));
  CHECK(status == 0);
  return read_bytes(log);
}

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

using Heard = std::vector<std::pair<LogLevel, std::string>>;

LogCallback into(Heard& heard) {
  return [&heard](LogLevel level, std::string_view message) { heard.emplace_back(level, message); };
}

TEST_CASE("by itself the library writes nothing to stderr, whatever goes wrong") {
  CHECK(errors_of("", ask_in_vain).empty());
  CHECK(errors_of("0", ask_in_vain).empty());
}

TEST_CASE("JFA_VERBOSE=1 has the warnings, and every miss with its reasons") {
  const std::string said = errors_of("1", ask_in_vain);
  CAPTURE(said);
  CHECK(said.starts_with("jfa_verbose,1,device,sim:sm_100a,"));
  CHECK(has(said, "\njfa: no cache directory: /dev/null/cache"));
  CHECK(has(said, "\njfa: left out: bundle /dev/null/kernels.jfab"));
  CHECK(has(said, "\njfa_verbose,1,cache,miss,forward-bf16-d16-compute_100f,"));
  CHECK(has(said, ",,,no cache directory: /dev/null/cache"));
}

TEST_CASE("a value of JFA_VERBOSE that means nothing is named, and nothing is done") {
  errors_of("loud", [] {
    const Status opened = Device::open("sim:sm_100a").status();
    const Status counted = cache_stats().status();
    return opened.message() == "JFA_VERBOSE is 'loud', none of 0, 1 and 2" &&
                   opened.kind() == ErrorKind::kInvalidArgument && counted.message() == opened.message()
               ? 0
               : 2;
  });
}

TEST_CASE("with a callback nothing goes to stderr, and JFA_VERBOSE may ask for more than the program did") {
  const auto run = [](LogLevel level, LogLevel most) {
    return [level, most] {
      Heard heard;
      if (!set_log_callback(into(heard), level).ok()) return 4;
      if (const int failed = ask_in_vain()) return failed;
      (void)set_log_callback({});
      LogLevel seen = LogLevel::kNothing;
      for (const auto& one : heard) seen = std::max(seen, one.first);
      return seen == most ? 0 : 5;
    };
  };
  CHECK(errors_of("", run(LogLevel::kWarning, LogLevel::kWarning)).empty());
  CHECK(errors_of("", run(LogLevel::kTrace, LogLevel::kInfo)).empty());  // nothing was executed
  CHECK(errors_of("1", run(LogLevel::kWarning, LogLevel::kInfo)).empty());
  CHECK(errors_of("", run(LogLevel::kNothing, LogLevel::kNothing)).empty());
}

TEST_CASE("warnings that nobody heard are told to the callback that comes, once") {
  errors_of("", [] {
    if (const int failed = ask_in_vain()) return failed;
    Heard heard;
    (void)set_log_callback(into(heard), LogLevel::kWarning);
    if (heard.size() != 2 || !has(heard[0].second, "no cache directory: ")) return 4;
    (void)set_log_callback(into(heard), LogLevel::kWarning);
    return heard.size() == 2 ? 0 : 5;
  });
}

TEST_CASE("a callback may itself make the calls that were under way when it was called") {
  errors_of("", [] {
    ::alarm(60);  // who waits for himself waits for ever
    int opened = 0, counted = 0;
    const LogCallback asks = [&](LogLevel level, std::string_view) {
      if (level == LogLevel::kWarning)
        counted += cache_stats().ok() ? 1 : 0;
      else
        opened += Device::open("sim:sm_100a").ok() ? 1 : 0;
    };
    if (!set_log_callback(asks, LogLevel::kInfo).ok()) return 4;
    if (const int failed = ask_in_vain()) return failed;
    (void)set_log_callback({});
    return opened == 2 && counted == 2 ? 0 : 5;  // of the device, and of the miss; of directory and bundle
  });
}

TEST_CASE("who watches the cache may count its kernels, also when he is told of how it was made") {
  errors_of("", [] {
    ::alarm(60);  // as above
    int counted = 0;
    const Status watched = watch_cache([&](const CacheEvent& event) {
      if (event.kind == CacheEvent::Kind::kDegrade) counted += cache_stats().ok() ? 1 : 0;
    });
    if (!watched.ok()) return 4;
    if (const int failed = ask_in_vain()) return failed;
    return counted == 2 ? 0 : 5;  // directory and bundle
  });
}

TEST_CASE("a warning to a closed pipe or a full log file ends no process") {
  for (const bool pipe_closed : {true, false}) {
    CAPTURE(pipe_closed);
    const TemporaryDirectory directory;
    write_bytes(directory / "log", std::string(100, 'x'));
    errors_of("1", [&] {
      int ends[2];
      if (::pipe(ends) != 0) return 6;
      ::close(ends[0]);
      const int log_file = pipe_closed ? ends[1] : ::open((directory / "log").c_str(), O_WRONLY | O_APPEND);
      const rlimit limit{100, 100};
      if (::dup2(log_file, STDERR_FILENO) < 0 || ::setrlimit(RLIMIT_FSIZE, &limit) != 0) return 7;
      return ask_in_vain();
    });
  }
}

// From here on this process itself has read JFA_VERBOSE.

TEST_CASE("what a callback throws stays there, and it may call the library but not replace itself") {
  Heard heard;
  Status replaced, inner;
  REQUIRE(set_log_callback([&](LogLevel level, std::string_view message) {
            heard.emplace_back(level, message);
            replaced = set_log_callback({});
            log(LogLevel::kWarning, "from within");
            throw std::runtime_error("of the callback");
          }).ok());
  log(LogLevel::kWarning, "first");
  log(LogLevel::kInfo, "of no interest");
  log(LogLevel::kNotice, "second");
  REQUIRE(set_log_callback({}).ok());
  log(LogLevel::kNotice, "third");
  CHECK(heard == Heard{{LogLevel::kWarning, "first"}, {LogLevel::kNotice, "second"}});
  CHECK(replaced.kind() == ErrorKind::kInvalidArgument);
  CHECK(replaced.message().find("callback") != std::string::npos);
}

TEST_CASE("when a callback is replaced, its last call has returned") {
  std::atomic<bool> running{false}, returned{false}, go_on{false};
  REQUIRE(set_log_callback([&](LogLevel, std::string_view) {
            running = true;
            while (!go_on) std::this_thread::yield();
            returned = true;
          }).ok());
  std::thread speaker([] { log(LogLevel::kWarning, "a long story"); });
  while (!running) std::this_thread::yield();
  std::thread patience([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    go_on = true;
  });
  REQUIRE(set_log_callback({}).ok());
  CHECK(returned);
  speaker.join();
  patience.join();
}

}  // namespace
}  // namespace jfa::test
