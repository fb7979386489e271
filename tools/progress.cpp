#include "tools/progress.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <chrono>

#include "base/standard_streams.h"

namespace jfa::tools {
namespace {

using Clock = std::chrono::steady_clock;

constexpr double kFirstReport_s = 1.0;
constexpr double kTerminalInterval_s = 0.25;

// One less than there are: behind the last column a terminal goes on in the next line.
std::size_t terminal_columns() {
  constexpr std::size_t kUsual = 80;
  winsize size{};
  const bool known = ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 1;
  return (known ? size.ws_col : kUsual) - 1;
}

std::int64_t now_ns() { return Clock::now().time_since_epoch() / std::chrono::nanoseconds(1); }

}  // namespace

Progress::Progress(std::string_view command, std::string what, State state)
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
  const double elapsed = elapsed_s();
  const std::string state = state_ ? ", " + state_(elapsed) : "";
  if (!terminal_) {
    say(fmt::format("{}{} … {:.{}f} s{}\n", prefix_, state, elapsed, last ? 1 : 0, last ? ", done" : ""));
    return;
  }
  // The seconds come first where they would be cut off last.
  const std::string line =
      fmt::format("{} … {:.{}f} s{}{}", prefix_, elapsed, last ? 1 : 0, state, last ? ", done" : "");
  say(fmt::format("\r{}\033[K{}", fit(line, terminal_columns()), last ? "\n" : ""));
}

std::string progress_state(std::size_t done, std::size_t total, double elapsed_s, std::string_view current) {
  std::string text = fmt::format("{} of {} ({} %)", done, total, total == 0 ? 100 : 100 * done / total);
  if (done > 0 && done < total) {
    const auto left_s = static_cast<std::int64_t>(
        elapsed_s * static_cast<double>(total - done) / static_cast<double>(done) + 0.5);
    text += left_s < 3600
                ? fmt::format(", {}:{:02} left", left_s / 60, left_s % 60)
                : fmt::format(", {}:{:02}:{:02} left", left_s / 3600, left_s / 60 % 60, left_s % 60);
  }
  if (!current.empty() && done < total) text += fmt::format(", {}", current);
  return text;
}

std::string fit(std::string_view text, std::size_t columns) {
  std::size_t end = 0;
  for (std::size_t used = 0; end < text.size(); ++end) {
    const bool continues = (static_cast<unsigned char>(text[end]) & 0xc0) == 0x80;
    if (!continues && used++ == columns) break;
  }
  return std::string(text.substr(0, end));
}

}  // namespace jfa::tools
