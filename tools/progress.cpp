#include "tools/progress.h"

#include <fmt/format.h>
#include <unistd.h>

#include <chrono>

#include "tools/standard_streams.h"

namespace jfa::tools {
namespace {

using Clock = std::chrono::steady_clock;

constexpr double kFirstReport_s = 1.0;
constexpr double kTerminalInterval_s = 0.25;

std::int64_t now_ns() { return Clock::now().time_since_epoch() / std::chrono::nanoseconds(1); }

}  // namespace

Progress::Progress(std::string_view command, std::string what, std::function<std::string()> state)
    : prefix_(fmt::format("jfa {}: {}", command, what)),
      state_(std::move(state)),
      terminal_(isatty(STDERR_FILENO) != 0),
      start_ns_(now_ns()),
      thread_([this] { watch(); }) {}

Progress::~Progress() {
  {
    const std::lock_guard lock(mutex_);
    done_ = true;
  }
  finished_.notify_one();
  thread_.join();
  if (printed_) print(true);
}

double Progress::elapsed_s() const { return static_cast<double>(now_ns() - start_ns_) * 1e-9; }

void Progress::watch() {
  double next_s = kFirstReport_s;
  std::unique_lock lock(mutex_);
  while (!finished_.wait_for(lock, std::chrono::duration<double>(next_s - elapsed_s()),
                             [this] { return done_; })) {
    print(false);
    next_s = terminal_ ? elapsed_s() + kTerminalInterval_s : 2 * elapsed_s();
  }
}

void Progress::print(bool last) {
  printed_ = true;
  const std::string state = state_ ? ", " + state_() : "";
  const std::string line =
      fmt::format("{}{} … {:.{}f} s{}", prefix_, state, elapsed_s(), last ? 1 : 0, last ? ", done" : "");
  if (terminal_) {
    say(fmt::format("\r{}\033[K{}", line, last ? "\n" : ""));
  } else {
    say(line + "\n");
  }
}

}  // namespace jfa::tools
