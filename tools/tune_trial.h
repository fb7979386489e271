// One problem class on a device: its shapes' tensors, and what candidates do with them. All memory is the
// sweep's own.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "tools/bench_data.h"
#include "tools/bench_timer.h"
#include "tools/graph_replay.h"
#include "tools/tune_probe.h"

namespace jfa::tools {

/// For trials of the sweep itself: what one candidate is made to do wrong.
enum class Sabotage { kNone, kCrash, kHang, kWrong, kStale, kSlowCompile };
Result<Sabotage> parse_sabotage(std::string_view text);

class TuneTrials {
 public:
  /// shapes: of one class. Runs the defaults, whose results are what others are compared with.
  static Result<std::unique_ptr<TuneTrials>> make(Device& device, const std::vector<BenchShape>& shapes,
                                                  Pass pass);

  /// Whether the candidate's results are those of the defaults, within what roundings explain, on every shape
  /// and in the probe's fp64. kUnavailable: they are not; other errors are the calls'.
  /// The value: they are the same bits.
  Result<bool> check(const Tuning& tuning, Sabotage sabotage = Sabotage::kNone);

  std::size_t shapes() const { return shapes_.size(); }
  /// Milliseconds of one run with a cold cache.
  Result<double> time_ms(const Tuning& tuning, std::size_t shape);
  /// Whether a replay after all the timing still gives what check() saw: nothing adds up.
  Status confirm(const Tuning& tuning);

 private:
  using Sample = std::vector<std::uint16_t>;
  struct Shape {
    BenchProblem problem;
    BenchTensors tensors;
    Sample usual;  // of the defaults
  };
  TuneTrials(Device& device, Pass pass) : device_(device), pass_(pass) {}
  Status enqueue(const Shape& shape, const Tuning& tuning);
  std::vector<const Tensor*> outputs(const Shape& shape) const;
  Status poison(const Shape& shape);
  /// What the outputs hold: all of it, or pieces spread over it.
  Result<Sample> sample(const Shape& shape, bool wrong = false);
  Result<Sample> run_poisoned(const Shape& shape, const Tuning& tuning, Sabotage sabotage);

  Device device_;
  Pass pass_;
  std::unique_ptr<BenchTimer> timer_;
  std::unique_ptr<TuneProbe> probe_;
  std::vector<std::uint16_t> usual_probe_;
  std::vector<std::unique_ptr<Shape>> shapes_;
  std::map<std::pair<Tuning, std::size_t>, std::unique_ptr<GraphReplay>> replays_;
};

/// "" if a result differs from the defaults' by no more than roundings explain, piece by piece; else how.
std::string difference(const std::vector<std::uint16_t>& usual, const std::vector<std::uint16_t>& own,
                       DType dtype);

}  // namespace jfa::tools
