// Writes past the limit of file sizes, and to pipes that nobody reads, are errors and not the end of the
// process.
#include <doctest/doctest.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include <filesystem>

#include "cache/bundle.h"
#include "cache/write_signals.h"
#include "tests/cache/support.h"

using namespace jfa;
using namespace jfa::test;
namespace fs = std::filesystem;

namespace {

bool limit_files_to(rlim_t bytes) {
  const rlimit limit{bytes, bytes};
  return ::setrlimit(RLIMIT_FSIZE, &limit) == 0;
}

bool is_pending(int signal) {
  sigset_t pending;
  return ::sigpending(&pending) == 0 && sigismember(&pending, signal) == 1;
}

bool is_blocked(int signal) {
  sigset_t mask;
  return pthread_sigmask(SIG_SETMASK, nullptr, &mask) == 0 && sigismember(&mask, signal) == 1;
}

}  // namespace

TEST_CASE("under a limit of file sizes a kernel stays in memory, with one line and nothing left behind") {
  for (const rlim_t bytes : {0, 100, 20'000}) {
    CAPTURE(bytes);
    const TemporaryDirectory directory;
    const int status = wait_for(start_process([&] {
      Watched watched(directory / "cache");
      if (!limit_files_to(bytes)) return 2;
      KernelCache cache(watched.options);
      for (const char* source : {"one", "two"}) {
        const CompileRequest request = make_request(source);
        const auto image =
            cache.get_or_compile(request, [&] { return make_image(request, kCompiler, 60'000); });
        if (!image.ok() || !made_from(**image, request)) return 3;
      }
      const bool said =
          watched.lines.size() == 1 && watched.lines[0].find("File too large") != std::string::npos;
      return said && cache.stats().publish_failures == 2 && !is_pending(SIGXFSZ) && !is_blocked(SIGXFSZ) ? 0
                                                                                                         : 4;
    }));
    CHECK(status == 0);
    for (const char* folder : {"cache/v2", "cache/tmp", "cache/locks"})
      CHECK(files_below(directory / folder).empty());
  }
  count_faults("a limit of file sizes", 6);
}

TEST_CASE("the host's own signals stay as they were: handler, mask, and what was pending") {
  const int status = wait_for(start_process([] {
    struct sigaction before {};
    before.sa_handler = [](int) { ::_exit(9); };
    ::sigaction(SIGXFSZ, &before, nullptr);
    sigset_t both;
    sigemptyset(&both);
    sigaddset(&both, SIGXFSZ);
    sigaddset(&both, SIGPIPE);
    {
      const WriteSignalBlock block;
      ::raise(SIGXFSZ);  // as a write does
      ::raise(SIGPIPE);
    }
    if (is_pending(SIGXFSZ) || is_pending(SIGPIPE) || is_blocked(SIGXFSZ) || is_blocked(SIGPIPE)) return 1;
    struct sigaction after {};
    ::sigaction(SIGXFSZ, nullptr, &after);
    if (after.sa_handler != before.sa_handler) return 2;

    pthread_sigmask(SIG_BLOCK, &both, nullptr);
    ::raise(SIGXFSZ);  // the host's, to be handled when it likes
    {
      const WriteSignalBlock block;
      ::raise(SIGXFSZ);
      ::raise(SIGPIPE);
    }
    return is_pending(SIGXFSZ) && !is_pending(SIGPIPE) && is_blocked(SIGXFSZ) && is_blocked(SIGPIPE) ? 0 : 3;
  }));
  CHECK(status == 0);
}
