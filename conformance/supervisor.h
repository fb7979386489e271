// Runs numbered items in a child process and survives whatever becomes of it: an item that crashes or hangs
// the child is noted, and another child goes on behind it.
//
// The child is told where to begin by its last argument. It writes "@begin N" before item N and "@end N JSON"
// behind it, in order, and exits with 0 behind the last one; it may exit early, with kContinue, where an item
// has spoilt its state. "@refuse TEXT" says why it cannot do any item. Other lines are kept for the message.
#pragma once

#include <chrono>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "base/status.h"

namespace jfa::conformance {

inline constexpr int kContinue = 3;  // the child's exit status: start another one for the rest

struct ItemOutcome {
  enum class Kind { kAnswered, kCrashed, kHung } kind = Kind::kAnswered;
  std::string answer;   // the JSON, if it answered
  std::string message;  // else how it ended, and the last lines it wrote
  double seconds = 0;
};

struct SupervisorOptions {
  std::vector<std::string> command;  // the item to begin with is appended
  std::vector<std::string> environment;
  std::size_t count = 0;                            // items
  std::chrono::milliseconds start_timeout{60'000};  // from start to the first item
  std::chrono::milliseconds item_timeout{30'000};
  std::function<void(std::size_t item, const ItemOutcome&)> progress;
};

/// One outcome for each item. Errors: kUnavailable if a child refuses, with its words, or ends before it
/// begins an item, with what it wrote.
Result<std::vector<ItemOutcome>> supervise(const SupervisorOptions& options);

/// For the child.
void write_begin(std::size_t item);
void write_end(std::size_t item, const std::string& json);
void write_refusal(const std::string& message);

}  // namespace jfa::conformance
