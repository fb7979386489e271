// What a sweep gives its workers to do, and what they tell: a file of JSON, and lines of JSON on their
// output. Workers are processes of their own, since candidates may crash or hang.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "jfa/attention.h"
#include "jfa/tuning.h"

namespace jfa::tools {

/// One piece of a worker's work.
struct TuneJob {
  enum class Kind { kCompile, kMeasure };
  struct Item {
    std::size_t index = 0;  // as the sweep counts it
    Tuning tuning;
    std::string spec;      // of kCompile: name of the specialisation
    bool checked = false;  // of kMeasure: known to be right
  };
  Kind kind = Kind::kMeasure;
  std::string device;
  Pass pass = Pass::forward;
  std::string shapes_file;
  std::vector<std::string> shapes;  // of one class, by name
  std::vector<Item> items;          // of kMeasure: the defaults first
  bool line_info = false;           // of kCompile
  bool rank = true;                 // false: check only
  std::size_t first_round = 0;
  std::size_t rounds = 0;
  double check_s = 0;  // no check begins later,
  double total_s = 0;  // and no round
  std::string sabotage_tuning, sabotage;
};

std::string to_text(const TuneJob& job);
Result<TuneJob> parse_job(const std::string& text);

/// One line of a worker.
struct TuneEvent {
  enum class Kind {
    kBegin,     // with an item; whatever ends the worker now is its fault
    kCompiled,  // an item, or why not
    kChecked,   // an item: right, or why not
    kTime,      // of an item, a shape and a round
    kStopped,   // an item is not timed any more
    kConfirmed  // an item: still right after the timing, or why not
  };
  Kind kind = Kind::kBegin;
  std::size_t item = 0;
  std::string reason = {};             // empty: all is well
  bool refused = false;                // with a reason: results are wrong, rather than that there are none
  std::optional<bool> same_bits = {};  // of kChecked
  std::size_t shape = 0, round = 0;    // of kTime
  double ms = 0;
};

std::string to_line(const TuneEvent& event);
/// nullopt: the line is something else, such as a message.
std::optional<TuneEvent> parse_event(const std::string& line);

/// Does a job's work, telling of it on standard output.
Status work_off(const TuneJob& job);

}  // namespace jfa::tools
