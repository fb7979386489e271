#include "base/child_process.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <thread>
#include <utility>

extern char** environ;

namespace jfa::tools {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr milliseconds kReapTimeout{5000};
constexpr milliseconds kReapInterval{2};

std::vector<char*> pointers_to(const std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  for (const std::string& text : texts) pointers.push_back(const_cast<char*>(text.c_str()));
  pointers.push_back(nullptr);
  return pointers;
}

}  // namespace

Result<ChildProcess> ChildProcess::start(const std::vector<std::string>& arguments,
                                         const std::vector<std::string>& environment) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return Status::unavailable(fmt::format("pipe: {}", std::strerror(errno)));
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&actions, ends[1], STDERR_FILENO);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP);  // of its own, to be killed as one
  posix_spawnattr_setpgroup(&attributes, 0);
  std::vector<std::string> variables = environment;
  for (char** variable = environ; *variable != nullptr; ++variable) variables.emplace_back(*variable);
  pid_t pid = 0;
  const int error = posix_spawnp(&pid, arguments[0].c_str(), &actions, &attributes,
                                 pointers_to(arguments).data(), pointers_to(variables).data());
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&actions);
  close(ends[1]);
  if (error == 0) return ChildProcess(pid, ends[0]);
  close(ends[0]);
  return Status::unavailable(fmt::format("{} cannot be started: {}", arguments[0], std::strerror(error)));
}

ChildProcess::ChildProcess(ChildProcess&& other) noexcept
    : pid_(std::exchange(other.pid_, -1)),
      output_(std::exchange(other.output_, -1)),
      buffer_(std::move(other.buffer_)),
      wait_status_(other.wait_status_),
      exit_status_(other.exit_status_) {}

ChildProcess::~ChildProcess() {
  if (pid_ > 0 && !wait_status_) {
    (void)kill(-pid_, SIGKILL);
    (void)reap(kReapTimeout);
  }
  if (output_ >= 0) close(output_);
}

ChildProcess::Read ChildProcess::read_line(std::string& line, milliseconds timeout) {
  const auto deadline = Clock::now() + timeout;
  while (true) {
    if (const std::size_t end = buffer_.find('\n'); end != std::string::npos) {
      line = buffer_.substr(0, end);
      buffer_.erase(0, end + 1);
      return Read::kLine;
    }
    const auto left = std::chrono::duration_cast<milliseconds>(deadline - Clock::now());
    if (left.count() <= 0) return Read::kTimeout;
    pollfd events{output_, POLLIN, 0};
    const int ready = poll(&events, 1, static_cast<int>(left.count()));
    if (ready < 0 && errno == EINTR) continue;
    if (ready == 0) return Read::kTimeout;
    char bytes[4096];
    const ssize_t count = read(output_, bytes, sizeof bytes);
    if (count < 0 && errno == EINTR) continue;
    if (count > 0) {
      buffer_.append(bytes, static_cast<std::size_t>(count));
      continue;
    }
    if (buffer_.empty()) return Read::kEnd;
    line = std::exchange(buffer_, {});
    return Read::kLine;
  }
}

bool ChildProcess::reap(milliseconds timeout) {
  const auto deadline = Clock::now() + timeout;
  int status = 0;
  while (waitpid(pid_, &status, WNOHANG) != pid_) {
    if (Clock::now() >= deadline) return false;
    std::this_thread::sleep_for(kReapInterval);
  }
  wait_status_ = status;
  return true;
}

std::string ChildProcess::finish() {
  // One that has closed its output is about to end by itself.
  if (!wait_status_ && !reap(milliseconds(500))) {
    (void)kill(-pid_, SIGKILL);
    if (!reap(kReapTimeout)) return "does not die";
  }
  if (WIFEXITED(*wait_status_)) {
    exit_status_ = WEXITSTATUS(*wait_status_);
    return fmt::format("exit status {}", *exit_status_);
  }
  const int signal = WTERMSIG(*wait_status_);
  return fmt::format("signal {} ({})", signal, strsignal(signal));
}

}  // namespace jfa::tools
