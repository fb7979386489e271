#include "base/standard_streams.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <exception>
#include <new>
#include <system_error>

#include "base/status.h"

namespace jfa::tools {
namespace {

constexpr int kFailure = 2;

std::atomic<bool> standard_output_is_claimed{false};

// So that the use of a stream that the caller closed fails, as it would have.
void occupy_closed_descriptors() {
  for (int descriptor = STDIN_FILENO; descriptor <= STDERR_FILENO; ++descriptor) {
    if (::fcntl(descriptor, F_GETFD) != -1 || errno != EBADF) continue;
    (void)::open("/dev/null", O_PATH);  // gets the lowest number that is free: this one
  }
}

int lost_output(const std::string& program, const std::string& reason) {
  say(fmt::format("{}: standard output: {}\n", program, reason));
  return kFailure;
}

int thrown(const std::string& program, const std::string& what, const std::string& detail = {}) {
  say(fmt::format("{}: {}\n", program, what));
  if (!detail.empty()) say(detail + "\n");
  return kFailure;
}

int guarded(const std::string& program, const std::function<int()>& body) {
  try {
    return body();
  } catch (const std::system_error& error) {
    if (std::ferror(stdout) != 0) return lost_output(program, error.code().message());
    return thrown(program, error.what());
  } catch (const Error& error) {
    return thrown(program, error.what(), error.status().detail());
  } catch (const std::bad_alloc&) {
    return thrown(program, "out of memory");
  } catch (const std::exception& error) {
    return thrown(program, error.what());
  }
}

}  // namespace

int run_program(const std::string& program, const std::function<int()>& body) {
  occupy_closed_descriptors();
  std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGXFSZ, SIG_IGN);
  const int exit_code = guarded(program, body);
  const bool failed_before = std::ferror(stdout) != 0;
  errno = 0;
  if (std::fflush(stdout) != 0) return lost_output(program, std::generic_category().message(errno));
  if (!failed_before) return exit_code;
  return exit_code == kFailure ? exit_code : lost_output(program, "something could not be written");
}

void say(std::string_view text) {
  (void)std::fwrite(text.data(), 1, text.size(), stderr);
  (void)std::fflush(stderr);
}

void tell(std::string_view text) {
  if (standard_output_is_claimed) return say(text);
  fmt::print("{}", text);
}

bool claim_standard_output() { return !standard_output_is_claimed.exchange(true); }

}  // namespace jfa::tools
