#include "conformance/supervisor.h"

#include <fmt/format.h>

#include <charconv>
#include <cstdio>
#include <deque>
#include <optional>

#include "base/child_process.h"

namespace jfa::conformance {
namespace {

using tools::ChildProcess;

using Clock = std::chrono::steady_clock;

constexpr std::string_view kBegin = "@begin ", kEnd = "@end ", kRefuse = "@refuse ";
constexpr std::size_t kKeptLines = 12;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// What follows the prefix and the number, if the line is such a one.
std::optional<std::pair<std::size_t, std::string>> marked(std::string_view line, std::string_view prefix) {
  if (!line.starts_with(prefix)) return std::nullopt;
  line.remove_prefix(prefix.size());
  std::size_t number = 0;
  const auto [end, error] = std::from_chars(line.data(), line.data() + line.size(), number);
  if (error != std::errc()) return std::nullopt;
  line.remove_prefix(static_cast<std::size_t>(end - line.data()));
  if (line.starts_with(' ')) line.remove_prefix(1);
  return std::pair{number, std::string(line)};
}

class Supervisor {
 public:
  explicit Supervisor(const SupervisorOptions& options) : options_(options) {}

  Result<std::vector<ItemOutcome>> run() {
    while (outcomes_.size() < options_.count) {
      const std::size_t before = outcomes_.size();
      if (Status status = run_child(); !status.ok()) return status;
      if (outcomes_.size() == before && !refusal_.empty()) return Status::unavailable(refusal_);
      if (outcomes_.size() == before)
        return Status(ErrorKind::kUnavailable,
                      fmt::format("the child that was to begin with item {} ended without doing so: {}",
                                  before, ended_),
                      kept());
    }
    return std::move(outcomes_);
  }

 private:
  Status run_child() {
    std::vector<std::string> command = options_.command;
    command.push_back(std::to_string(outcomes_.size()));
    Result<ChildProcess> child = ChildProcess::start(command, options_.environment);
    if (!child) return child.status();
    lines_.clear();
    running_ = begun_ = false;
    std::string line;
    while (true) {
      const auto timeout = begun_ ? options_.item_timeout : options_.start_timeout;
      const ChildProcess::Read read = child->read_line(line, timeout);
      if (read == ChildProcess::Read::kLine) {
        if (take(line)) continue;
        (void)child->finish();  // what is left to it is to clean up
        return {};
      }
      const bool hung = read == ChildProcess::Read::kTimeout;
      ended_ = hung ? fmt::format("no answer in {} s", timeout.count() / 1000.0) : std::string();
      const std::string how = child->finish();
      if (!hung) ended_ = how;
      if (hung && how == "does not die") ended_ += "; it does not even die";
      if (running_) {
        ItemOutcome outcome;
        outcome.kind = hung ? ItemOutcome::Kind::kHung : ItemOutcome::Kind::kCrashed;
        outcome.message = ended_ + (lines_.empty() ? "" : "\n" + kept());
        note(std::move(outcome));
      }
      return {};
    }
  }

  // False once the last item has been answered.
  bool take(const std::string& line) {
    if (const auto begin = marked(line, kBegin); begin && begin->first == outcomes_.size()) {
      running_ = begun_ = true;
      started_ = Clock::now();
      lines_.clear();
    } else if (const auto end = marked(line, kEnd); end && running_ && end->first == outcomes_.size()) {
      ItemOutcome outcome;
      outcome.answer = end->second;
      note(std::move(outcome));
    } else if (line.starts_with(kRefuse)) {
      refusal_ = line.substr(kRefuse.size());
    } else {
      lines_.push_back(line);
      if (lines_.size() > kKeptLines) lines_.pop_front();
    }
    return outcomes_.size() < options_.count;
  }

  void note(ItemOutcome outcome) {
    outcome.seconds = seconds_since(started_);
    running_ = false;
    if (options_.progress) options_.progress(outcomes_.size(), outcome);
    outcomes_.push_back(std::move(outcome));
  }

  std::string kept() const {
    std::string text;
    for (const std::string& line : lines_) text += line + "\n";
    return text;
  }

  const SupervisorOptions& options_;
  std::vector<ItemOutcome> outcomes_;
  bool running_ = false;  // an item
  bool begun_ = false;    // the child, its first
  Clock::time_point started_;
  std::deque<std::string> lines_;
  std::string ended_;
  std::string refusal_;
};

}  // namespace

Result<std::vector<ItemOutcome>> supervise(const SupervisorOptions& options) {
  return Supervisor(options).run();
}

void write_begin(std::size_t item) {
  fmt::print("{}{}\n", kBegin, item);
  std::fflush(stdout);
}

void write_end(std::size_t item, const std::string& json) {
  fmt::print("{}{} {}\n", kEnd, item, json);
  std::fflush(stdout);
}

void write_refusal(const std::string& message) {
  fmt::print("{}{}\n", kRefuse, message);
  std::fflush(stdout);
}

}  // namespace jfa::conformance
