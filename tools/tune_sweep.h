// A sweep: classes of shapes times candidates, compiled in parallel, checked and timed by one worker a
// device, with a record on the disk after every step.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <mutex>
#include <string>
#include <vector>

#include "tools/bench_shapes.h"
#include "tools/tune_configs.h"
#include "tools/tune_job.h"
#include "tuning/record.h"

namespace jfa::tools {

struct SweepOptions {
  std::vector<std::string> devices;  // of one kind
  std::string shapes_file;
  std::vector<std::string> only;
  std::string configs_file;  // empty: every knob's values alone
  std::vector<Pass> passes;
  std::string database;  // the directory
  double budget_s = 0;   // 0: no bound
  unsigned jobs = 0;     // compilations at once; 0: one a core
  std::string shard;     // "i/n"
  bool resume = false;
  bool list = false;  // say what would be tried, and try nothing
  std::size_t rounds = 15;
  double timeout_s = 0;     // of one step of a candidate; 0: by the device
  bool try_timing = false;  // also on a simulated device, without a winner
  std::string sabotage_tuning, sabotage;
};

class TuneSweep {
 public:
  explicit TuneSweep(SweepOptions options) : options_(std::move(options)), begin_(Clock::now()) {}

  /// Everything: prints a line a class, and keeps the database. Whether every candidate of every class of the
  /// shard was tried. Errors: of options and files; what happens to candidates is in the records.
  Result<bool> run();

 private:
  using Clock = std::chrono::steady_clock;
  struct Class {
    TuningRecord record;
    std::vector<std::string> shapes;
    Pass pass = Pass::forward;
    bool done = false;  // by an earlier run
    Clock::time_point written;
  };
  using OnEvent = std::function<void(const TuneEvent&)>;

  Status describe_device();
  Status collect_classes();
  Status add_classes(const BenchShape& shape, Pass pass, std::vector<Class>& classes) const;
  Status add_candidates(Class& of_class, const TuneConfigs& configs);
  void take_up(Class& of_class) const;
  std::string policy() const;

  void compile_all();
  void measure_all();
  void measure(const std::string& device, Class& of_class, double share_s);
  bool note(Class& of_class, const TuneEvent& event);
  void finish(Class& of_class);
  void write(Class& of_class, bool now);

  /// Runs the job's items in a worker, and again without those that it was lost over. lost: told as an event.
  void supervise(TuneJob job, double timeout_s, const OnEvent& on_event) const;
  double left_s() const;
  void print_list() const;

  SweepOptions options_;
  Clock::time_point begin_;
  TuningRecord facts_;  // what all records say of device, driver and library
  bool rank_ = true;
  Target target_ = {};
  std::vector<Class> classes_;
  std::mutex mutex_;  // of what the threads of devices share
  std::size_t next_ = 0, finished_ = 0;
  Status first_error_;  // of the disk
  std::string best_;    // for the progress
};

}  // namespace jfa::tools
