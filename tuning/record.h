// What a sweep found out about one problem class on one kind of device: every candidate with its times or the
// reason why it has none, and which one won.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "jfa/status.h"
#include "jfa/tuning.h"
#include "tuning/problem_class.h"

namespace jfa {

/// A GPU model; what a tuning is for beside the class.
struct TunedDevice {
  std::string name;  // "NVIDIA H200"
  int multiprocessors = 0;

  auto operator<=>(const TunedDevice&) const = default;
};

/// A shape that stood for its class.
struct TunedShape {
  std::string name;
  CallSize size;
  std::string lengths;  // how they are drawn, in words

  bool operator==(const TunedShape&) const = default;
};

/// A candidate whose kernel was asked for.
struct Trial {
  enum class Outcome {
    kPending,  // not tried, or not to the end: a sweep was ended before
    kChecked,  // its results are right; no time was taken
    kTimed,    // and so are its times; it lost
    kStopped,  // timed until it was clear that it would lose
    kRefused,  // its results are wrong
    kFailed,   // it could not be compiled, or crashed, or hung
    kWon,
  };
  Tuning tuning = {};  // empty: the defaults
  Outcome outcome = Outcome::kPending;
  std::string reason = {};             // of kRefused and kFailed
  std::optional<bool> same_bits = {};  // as the defaults' results
  /// Of every shape, in their order, in the rounds that it took part in. Milliseconds.
  std::vector<std::vector<double>> times_ms = {};
  /// Against the defaults in the same rounds, all shapes together; 0 if there are no times.
  double ratio = 0, ratio_lower_quartile = 0, ratio_upper_quartile = 0;
};
std::string_view to_string(Trial::Outcome outcome);

/// A candidate that the plan has no room for, or of values that no knob has.
struct LeftOut {
  Tuning tuning;
  std::string reason;
};

struct TuningRecord {
  ProblemClass problem;
  TunedDevice device;
  bool simulated = false;  // then nobody is faster than anybody
  std::string driver;      // CUDA version of the driver
  std::string compiler;
  std::string jfa;     // version and commit
  std::string policy;  // how it was measured, in words; other words, other numbers
  bool complete = false;
  std::vector<TunedShape> shapes;
  Tuning winner;
  double winner_ratio = 1;       // time of the winner over that of the defaults
  bool winner_same_bits = true;  // false: results round differently from the defaults'
  std::vector<Trial> trials;     // the defaults first
  std::vector<LeftOut> left_out;
};

/// For files: "nvidia-h200-132.forward-bf16-d128-sm_90a.n12-q9-k9".
std::string name(const TuningRecord& record);

/// JSON for people: the head one value a line, then a line a trial. Ends in a line end.
std::string to_text(const TuningRecord& record);
/// kInvalidArgument saying what is missing or wrong; a record of another format is wrong as well.
Result<TuningRecord> parse_record(std::string_view text);

/// Several records in one text, for export.
std::string to_text(const std::vector<TuningRecord>& records);
Result<std::vector<TuningRecord>> parse_records(std::string_view text);

}  // namespace jfa
