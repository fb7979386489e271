// A sweep's worker: compiles kernels, or checks and times the candidates of one class.
#include <sys/prctl.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <map>
#include <vector>

#include "base/input_file.h"
#include "base/standard_streams.h"
#include "generator/emit.h"
#include "runtime/compile.h"
#include "tools/tune_job.h"
#include "tools/tune_rank.h"
#include "tools/tune_trial.h"

namespace jfa::tools {
namespace {

using Event = TuneEvent;
// After the one that does not count; fewer tell nothing.
constexpr std::size_t kLeastCounted = 2;

using Clock = std::chrono::steady_clock;

void tell_event(const Event& event) {
  tell(to_line(event));
  std::fflush(stdout);
}

Result<Sabotage> sabotage_of(const TuneJob& job, const TuneJob::Item& item) {
  const bool meant = !job.sabotage.empty() && job.sabotage_tuning == to_string(item.tuning);
  return parse_sabotage(meant ? job.sabotage : "none");
}

Status compile_all(const TuneJob& job) {
  for (const TuneJob::Item& item : job.items) {
    tell_event({.kind = Event::Kind::kBegin, .item = item.index});
    while (sabotage_of(job, item).value() == Sabotage::kSlowCompile) pause();
    const auto spec = spec_named(item.spec);
    if (!spec) return Status::invalid_argument("no specialisation is named " + item.spec);
    const Result<KernelSource> source = source_of(*spec, item.tuning, job.line_info);
    Status status = source.status();
    if (status.ok()) status = compile(*source).status();
    tell_event({.kind = Event::Kind::kCompiled, .item = item.index, .reason = status.message()});
  }
  return {};
}

Result<std::vector<BenchShape>> shapes_of(const TuneJob& job) {
  const Result<std::string> text = read_text(job.shapes_file);
  if (!text) return text.status();
  const Result<std::vector<BenchShape>> all = parse_shapes(job.shapes_file, *text);
  if (!all) return all.status();
  std::vector<BenchShape> shapes;
  for (const std::string& name : job.shapes)
    for (const BenchShape& shape : *all)
      if (shape.name == name) shapes.push_back(shape);
  return shapes;
}

// Checks and times; ends at the first error that the device does not outlive, which is told as the item's.
class Measurement {
 public:
  explicit Measurement(const TuneJob& job) : job_(job), begin_(Clock::now()) {}

  Status run() {
    Result<Device> device = Device::open(job_.device);
    if (!device) return device.status();
    const Result<std::vector<BenchShape>> shapes = shapes_of(job_);
    if (!shapes) return shapes.status();
    tell_event({.kind = Event::Kind::kBegin, .item = job_.items.front().index});
    Result<std::unique_ptr<TuneTrials>> trials = TuneTrials::make(*device, *shapes, job_.pass);
    if (!trials) return trials.status();
    trials_ = std::move(*trials);
    for (const TuneJob::Item& item : job_.items)
      if (!check(item)) return {};
    if (!job_.rank) return {};
    for (std::size_t round = 0; round < job_.rounds; ++round) {
      if (elapsed_s() >= job_.total_s && round > kLeastCounted) break;
      if (!time_round(round)) return {};
      if (round > 0) stop_losers(round);
    }
    confirm();
    return {};
  }

 private:
  struct Running {
    const TuneJob::Item* item;
    Trial trial;
  };

  double elapsed_s() const { return std::chrono::duration<double>(Clock::now() - begin_).count(); }

  // False: the device may be unusable.
  bool check(const TuneJob::Item& item) {
    const bool defaults = item.tuning.empty();
    if (!defaults && !item.checked && elapsed_s() >= job_.check_s) return true;
    if (!item.checked || defaults) {
      tell_event({.kind = Event::Kind::kBegin, .item = item.index});
      const Result<bool> same = trials_->check(item.tuning, sabotage_of(job_, item).value());
      const bool refused = !same && same.status().kind() == ErrorKind::kUnavailable;
      Event event{.kind = Event::Kind::kChecked,
                  .item = item.index,
                  .reason = same.status().message(),
                  .refused = refused};
      if (same) event.same_bits = *same;
      tell_event(event);
      if (!same) return refused;
    }
    running_.push_back({&item, Trial{.tuning = item.tuning,
                                     .times_ms = std::vector<std::vector<double>>(trials_->shapes())}});
    return true;
  }

  bool time_round(std::size_t round) {
    for (Running& running : running_) {
      tell_event({.kind = Event::Kind::kBegin, .item = running.item->index});
      for (std::size_t shape = 0; shape < trials_->shapes(); ++shape) {
        const Result<double> ms = trials_->time_ms(running.item->tuning, shape);
        if (!ms) {
          tell_event({.kind = Event::Kind::kConfirmed,
                      .item = running.item->index,
                      .reason = "while timed: " + ms.status().message()});
          return false;
        }
        if (round == 0) continue;  // of a cold instruction cache and a clock that is still rising
        running.trial.times_ms[shape].push_back(*ms);
        tell_event({.kind = Event::Kind::kTime,
                    .item = running.item->index,
                    .shape = shape,
                    .round = job_.first_round + round - 1,
                    .ms = *ms});
      }
    }
    return true;
  }

  void stop_losers(std::size_t rounds) {
    double leader = 1;
    for (Running& running : running_) {
      compare_with(running_.front().trial, running.trial);
      leader = std::min(leader, running.trial.ratio);
    }
    std::erase_if(running_, [&](const Running& running) {
      const bool stopped = !running.item->tuning.empty() && is_hopeless(running.trial, leader, rounds);
      if (stopped) tell_event({.kind = Event::Kind::kStopped, .item = running.item->index});
      return stopped;
    });
  }

  void confirm() {
    for (const Running& running : running_) {
      tell_event({.kind = Event::Kind::kBegin, .item = running.item->index});
      const Status status = trials_->confirm(running.item->tuning);
      tell_event({.kind = Event::Kind::kConfirmed,
                  .item = running.item->index,
                  .reason = status.message(),
                  .refused = status.kind() == ErrorKind::kUnavailable});
    }
  }

  const TuneJob& job_;
  Clock::time_point begin_;
  std::unique_ptr<TuneTrials> trials_;
  std::vector<Running> running_;
};

}  // namespace

Status work_off(const TuneJob& job) {
  (void)prctl(PR_SET_PDEATHSIG, SIGKILL);  // whoever reads this is gone then
  return job.kind == TuneJob::Kind::kCompile ? compile_all(job) : Measurement(job).run();
}

}  // namespace jfa::tools
