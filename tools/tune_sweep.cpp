#include "tools/tune_sweep.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <map>
#include <numeric>
#include <set>
#include <thread>

#include "base/child_process.h"
#include "base/input_file.h"
#include "base/standard_streams.h"
#include "cache/bundle.h"
#include "jfa/version.h"
#include "runtime/device.h"
#include "runtime/nvrtc.h"
#include "runtime/tuned.h"
#include "tools/command_line.h"
#include "tools/progress.h"
#include "tools/shard.h"
#include "tools/tune_rank.h"
#include "tuning/database.h"

namespace jfa::tools {
namespace {

constexpr std::string_view kTuneCommand = "tune";
constexpr double kEver = 1e9;
constexpr double kCompileTimeout_s = 300;
constexpr double kGpuTimeout_s = 60;
constexpr double kSimulatorTimeout_s = 900;
constexpr std::size_t kLeastRounds = 3;
constexpr double kCheckShare = 0.75;  // of a class's time; the rest is for rounds
constexpr std::chrono::seconds kWriteInterval{1};

std::string words(const Tuning& tuning) { return tuning.empty() ? "the defaults" : to_string(tuning); }

// "lengths 0 to 512", as docs/benchmarks.md has them.
std::string lengths_of(const BenchShape& shape) {
  const char* kind = shape.kind == BenchShape::Kind::kSelf    ? "self"
                     : shape.kind == BenchShape::Kind::kCross ? "cross"
                                                              : "pma";
  std::string text = fmt::format("{}, keys to {} filled {}", kind, shape.max_kv, shape.fill_kv);
  if (shape.kind == BenchShape::Kind::kCross)
    text += fmt::format(", queries to {} filled {}", shape.max_q, shape.fill_q);
  return text + fmt::format(", seed {}", shape.seed);
}

// A file that goes with its owner.
class JobFile {
 public:
  explicit JobFile(const TuneJob& job) {
    std::string path = (std::filesystem::temp_directory_path() / "jfa-tune-XXXXXX").string();
    const int descriptor = mkstemp(path.data());
    if (descriptor < 0) return;
    close(descriptor);
    path_ = path;
    std::ofstream(path_) << to_text(job);
  }
  ~JobFile() {
    std::error_code error;
    if (!path_.empty()) std::filesystem::remove(path_, error);
  }
  JobFile(const JobFile&) = delete;
  JobFile& operator=(const JobFile&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

// One life of a worker: the item that it was at when it was lost, and why; nullopt if it ended well.
struct Lost {
  std::size_t item = 0;
  std::string reason;
};
std::optional<Lost> live(const TuneJob& job, double timeout_s,
                         const std::function<void(const TuneEvent&)>& on_event) {
  std::size_t current = job.items.front().index;
  const JobFile file(job);
  std::error_code error;
  const std::string self = std::filesystem::read_symlink("/proc/self/exe", error).string();
  Result<ChildProcess> child = ChildProcess::start({self, "work", file.path()}, {"JFA_TUNING_DB="});
  if (!child) return Lost{current, child.status().message()};
  const auto timeout = std::chrono::milliseconds(static_cast<std::int64_t>(timeout_s * 1000));
  std::string line, message;
  while (true) {
    const ChildProcess::Read read = child->read_line(line, timeout);
    if (read == ChildProcess::Read::kTimeout) {
      (void)child->finish();
      return Lost{current, fmt::format("hung: nothing was heard of it for {:.0f} s", timeout_s)};
    }
    if (read == ChildProcess::Read::kEnd) break;
    const std::optional<TuneEvent> event = parse_event(line);
    if (!event) {
      if (!line.empty()) message = line;
      continue;
    }
    current = event->item;
    on_event(*event);
  }
  const std::string end = child->finish();
  if (child->exit_status() == 0) return std::nullopt;
  return Lost{current, end + (message.empty() ? "" : ": " + message)};
}

}  // namespace

double TuneSweep::left_s() const {
  if (options_.budget_s <= 0) return kEver;
  return options_.budget_s - std::chrono::duration<double>(Clock::now() - begin_).count();
}

std::string TuneSweep::policy() const {
  if (!rank_) return "checked against the defaults and fp64; not timed: a simulated device cannot rank";
  return fmt::format(
      "checked against the defaults and fp64; {} interleaved rounds after one that does not count, of a "
      "graph's replay a candidate with a cold L2 cache; median and quartiles of the ratio to the defaults in "
      "the same round; winners are faster by {:.0f} % and in three quarters of the rounds",
      options_.rounds, 100 * (1 - kLeastGain));
}

Status TuneSweep::describe_device() {
  for (const std::string& name : options_.devices) {
    if (std::ranges::count(options_.devices, name) > 1)
      return Status::invalid_argument(
          fmt::format("--device: '{}' is named twice, and candidates are timed alone", name));
    Result<Device> device = Device::open(name);
    if (!device) return device.status();
    const Device::Impl& impl = device->impl();
    const TunedDevice kind = tuned_device(impl);
    if (name != options_.devices.front() && kind != facts_.device)
      return Status::invalid_argument(
          fmt::format("--device: '{}' is {} with {} multiprocessors, '{}' is {} with {}: a sweep is of one "
                      "kind of device",
                      options_.devices.front(), facts_.device.name, facts_.device.multiprocessors, name,
                      kind.name, kind.multiprocessors));
    facts_.device = kind;
    facts_.simulated = device->simulated();
    target_ = impl.target;
    int version = 0;
    (void)impl.driver.cuDriverGetVersion(&version);  // for the record only
    facts_.driver = fmt::format("{}.{}", version / 1000, version % 1000 / 10);
  }
  facts_.jfa = version_and_commit();
  if (const auto identity = Nvrtc::find_identity(NvrtcSearch::from_process())) facts_.compiler = *identity;
  rank_ = !facts_.simulated || options_.try_timing;
  facts_.policy = policy();
  return {};
}

Status TuneSweep::add_classes(const BenchShape& shape, Pass pass, std::vector<Class>& classes) const {
  Configuration configuration;
  configuration.pass = pass;
  configuration.dtype = shape.dtype;
  configuration.head_dim = shape.head_dim;
  configuration.window = shape.window;
  configuration.broadcast_q = shape.kind == BenchShape::Kind::kPma;
  configuration.groups = shape.groups;
  const Result<KernelSpec> spec = specialize(configuration, target_);
  if (!spec)
    return Status(spec.status().kind(), fmt::format("shape '{}': {}", shape.name, spec.status().message()));
  const BenchProblem problem = draw(shape);
  const CallSize size{shape.batch, problem.query_rows(), problem.key_rows(), shape.heads};
  const ProblemClass key{*spec, size_class(size, configuration.broadcast_q)};
  auto found = std::ranges::find(classes, key, [](const Class& it) { return it.record.problem; });
  if (found == classes.end()) {
    classes.push_back({facts_, {}, pass, false, {}});
    found = classes.end() - 1;
    found->record.problem = key;
  }
  found->shapes.push_back(shape.name);
  found->record.shapes.push_back({shape.name, size, lengths_of(shape)});
  return {};
}

Status TuneSweep::add_candidates(Class& of_class, const TuneConfigs& configs) {
  Result<Candidates> candidates = configs.candidates(of_class.record.problem.spec);
  if (!candidates) return candidates.status();
  for (Tuning& tuning : candidates->tunings) {
    Trial trial;
    trial.tuning = std::move(tuning);
    trial.times_ms.resize(of_class.shapes.size());
    of_class.record.trials.push_back(std::move(trial));
  }
  of_class.record.left_out = std::move(candidates->left_out);
  return {};
}

// What an earlier run found out, if it was of the same sweep.
void TuneSweep::take_up(Class& of_class) const {
  std::string text;
  const auto error =
      read_file(*posix_file_system(),
                record_file(std::filesystem::absolute(options_.database).string(), of_class.record),
                kMaxTextBytes, text);
  if (error) return;
  const Result<TuningRecord> earlier = parse_record(text);
  const TuningRecord& wanted = of_class.record;
  if (!earlier || earlier->policy != wanted.policy || earlier->jfa != wanted.jfa ||
      earlier->compiler != wanted.compiler || earlier->shapes != wanted.shapes ||
      !std::ranges::equal(earlier->trials, wanted.trials, {}, &Trial::tuning, &Trial::tuning))
    return;
  of_class.record = *earlier;
  of_class.done = earlier->complete;
  for (Trial& trial : of_class.record.trials) {
    trial.times_ms.resize(of_class.shapes.size());
    // Rounds are begun anew where they were interrupted, with all that is right.
    if (trial.outcome == Trial::Outcome::kTimed || trial.outcome == Trial::Outcome::kWon)
      trial.outcome = Trial::Outcome::kChecked;
  }
}

Status TuneSweep::collect_classes() {
  const Result<std::string> text = read_text(options_.shapes_file);
  if (!text) return text.status();
  const Result<std::vector<BenchShape>> shapes = parse_shapes(options_.shapes_file, *text);
  if (!shapes) return shapes.status();
  for (const std::string& name : options_.only)
    if (std::ranges::find(*shapes, name, &BenchShape::name) == shapes->end())
      return Status::invalid_argument(fmt::format("{}: has no shape '{}'", options_.shapes_file, name));
  TuneConfigs configs = TuneConfigs::every_knob();
  if (!options_.configs_file.empty()) {
    const Result<std::string> given = read_text(options_.configs_file);
    if (!given) return given.status();
    Result<TuneConfigs> parsed = TuneConfigs::parse(options_.configs_file, *given);
    if (!parsed) return parsed.status();
    configs = std::move(*parsed);
  }
  std::vector<Class> classes;
  for (const Pass pass : options_.passes) {
    for (const BenchShape& shape : *shapes) {
      if (!options_.only.empty() && std::ranges::find(options_.only, shape.name) == options_.only.end())
        continue;
      if (Status status = add_classes(shape, pass, classes); !status.ok()) return status;
    }
  }
  std::optional<Shard> shard;
  if (!options_.shard.empty() && !(shard = parse_shard(options_.shard)))
    return Status::invalid_argument("--shard '" + options_.shard + "' is not I/N with I from 0 to N-1");
  for (Class& of_class : classes) {
    if (shard && shard_of(sha256(name(of_class.record.problem)), shard->count) != shard->index) continue;
    if (Status status = add_candidates(of_class, configs); !status.ok()) return status;
    if (options_.resume) take_up(of_class);
    classes_.push_back(std::move(of_class));
  }
  return {};
}

void TuneSweep::supervise(TuneJob job, double timeout_s, const OnEvent& on_event) const {
  const Clock::time_point begin = Clock::now();
  const double check_s = job.check_s, total_s = job.total_s;
  while (!job.items.empty()) {
    std::set<std::size_t> gone;
    std::optional<std::size_t> failed;
    const auto lost = live(job, timeout_s, [&](const TuneEvent& event) {
      if (event.kind == TuneEvent::Kind::kStopped || !event.reason.empty() ||
          event.kind == TuneEvent::Kind::kCompiled)
        gone.insert(event.item);
      if (!event.reason.empty() && !event.refused && event.kind != TuneEvent::Kind::kCompiled)
        failed = event.item;
      if (event.kind == TuneEvent::Kind::kChecked && event.reason.empty())
        for (TuneJob::Item& item : job.items) item.checked = item.checked || item.index == event.item;
      if (event.kind == TuneEvent::Kind::kTime) job.first_round = std::max(job.first_round, event.round);
      on_event(event);
    });
    if (lost) {
      gone.insert(lost->item);
      on_event({.kind = job.kind == TuneJob::Kind::kCompile ? TuneEvent::Kind::kCompiled
                                                            : TuneEvent::Kind::kConfirmed,
                .item = lost->item,
                .reason = lost->reason});
    }
    if (!lost && !failed) return;
    // Without the defaults there is nothing to compare with.
    if (job.kind == TuneJob::Kind::kMeasure && gone.contains(job.items.front().index)) return;
    std::erase_if(job.items, [&](const TuneJob::Item& item) { return gone.contains(item.index); });
    const double elapsed_s = std::chrono::duration<double>(Clock::now() - begin).count();
    job.check_s = check_s - elapsed_s;
    job.total_s = total_s - elapsed_s;
    if (job.first_round > 0) ++job.first_round;
  }
}

void TuneSweep::compile_all() {
  // Classes share kernels.
  std::map<std::pair<std::string, Tuning>, std::vector<Trial*>> kernels;
  for (Class& of_class : classes_) {
    if (of_class.done) continue;
    for (Trial& trial : of_class.record.trials)
      if (trial.outcome == Trial::Outcome::kPending)
        kernels[{name(of_class.record.problem.spec), trial.tuning}].push_back(&trial);
  }
  std::vector<std::vector<Trial*>> trials_of;
  std::vector<TuneJob> jobs(std::max<std::size_t>(
      std::min<std::size_t>(options_.jobs ? options_.jobs : std::max(1U, std::thread::hardware_concurrency()),
                            kernels.size()),
      1));
  for (auto& [kernel, trials] : kernels) {
    TuneJob& job = jobs[trials_of.size() % jobs.size()];
    job.kind = TuneJob::Kind::kCompile;
    job.sabotage_tuning = options_.sabotage_tuning;
    job.sabotage = options_.sabotage;
    job.items.push_back({trials_of.size(), kernel.second, kernel.first, false});
    trials_of.push_back(trials);
  }
  std::atomic<std::size_t> done{0};
  const Progress progress(kTuneCommand, "compiling", [&](double elapsed_s) {
    return progress_state(done, trials_of.size(), elapsed_s, "");
  });
  std::vector<std::jthread> threads;
  for (const TuneJob& job : jobs) {
    threads.emplace_back([&, this] {
      supervise(job, options_.timeout_s > 0 ? options_.timeout_s : kCompileTimeout_s,
                [&](const TuneEvent& event) {
                  if (event.kind != TuneEvent::Kind::kCompiled) return;
                  ++done;
                  if (event.reason.empty()) return;
                  for (Trial* trial : trials_of[event.item]) {
                    trial->outcome = Trial::Outcome::kFailed;
                    trial->reason = "compilation: " + event.reason;
                  }
                });
    });
  }
}

void TuneSweep::write(Class& of_class, bool now) {
  if (!now && Clock::now() - of_class.written < kWriteInterval) return;
  of_class.written = Clock::now();
  const Status status = write_record(*posix_file_system(), options_.database, of_class.record);
  const std::lock_guard lock(mutex_);
  if (first_error_.ok()) first_error_ = status;
}

// Whether something was decided that a kill must not lose.
bool TuneSweep::note(Class& of_class, const TuneEvent& event) {
  Trial& trial = of_class.record.trials.at(event.item);
  const auto fail = [&] {
    trial.outcome = event.refused ? Trial::Outcome::kRefused : Trial::Outcome::kFailed;
    trial.reason = event.reason;
  };
  switch (event.kind) {
    case TuneEvent::Kind::kChecked:
      trial.same_bits = event.same_bits;
      trial.outcome = Trial::Outcome::kChecked;
      if (!event.reason.empty()) fail();
      return true;
    case TuneEvent::Kind::kTime: {
      std::vector<double>& times = trial.times_ms.at(event.shape);
      times.resize(std::max(times.size(), event.round + 1));
      times[event.round] = event.ms;
      compare_with(of_class.record.trials.front(), trial);
      const std::lock_guard lock(mutex_);
      const std::size_t winner = winner_of(of_class.record.trials);
      best_ = fmt::format("{}: round {}, best so far {} ({:.3f})", name(of_class.record.problem),
                          event.round + 1, words(of_class.record.trials[winner].tuning),
                          winner == 0 ? 1 : of_class.record.trials[winner].ratio);
      return false;
    }
    case TuneEvent::Kind::kStopped:
      trial.outcome = Trial::Outcome::kStopped;
      return true;
    case TuneEvent::Kind::kConfirmed:
      trial.outcome = Trial::Outcome::kTimed;
      if (!event.reason.empty()) fail();
      return true;
    default:
      return false;
  }
}

void TuneSweep::finish(Class& of_class) {
  TuningRecord& record = of_class.record;
  std::size_t refused = 0, failed = 0, pending = 0;
  for (Trial& trial : record.trials) {
    compare_with(record.trials.front(), trial);
    refused += trial.outcome == Trial::Outcome::kRefused;
    failed += trial.outcome == Trial::Outcome::kFailed;
    pending +=
        trial.outcome == Trial::Outcome::kPending || (rank_ && trial.outcome == Trial::Outcome::kChecked);
  }
  // The times of a simulated device are those of the simulator.
  const std::size_t winner = facts_.simulated ? 0 : winner_of(record.trials);
  Trial& best = record.trials[winner];
  if (rank_ && !facts_.simulated && best.outcome == Trial::Outcome::kTimed)
    best.outcome = Trial::Outcome::kWon;
  record.winner = best.tuning;
  record.winner_ratio = winner == 0 ? 1 : best.ratio;
  record.winner_same_bits = winner == 0 || best.same_bits.value_or(false);
  record.complete = pending == 0 && record.trials.front().outcome != Trial::Outcome::kFailed;
  write(of_class, true);

  std::string line = fmt::format("{} ({}): {} candidates", name(record.problem),
                                 fmt::join(of_class.shapes, ", "), record.trials.size());
  if (!record.left_out.empty()) line += fmt::format(", {} more do not fit", record.left_out.size());
  if (refused > 0) line += fmt::format(", {} refused", refused);
  if (failed > 0) line += fmt::format(", {} failed", failed);
  if (pending > 0) line += fmt::format(", {} not tried to the end", pending);
  if (facts_.simulated) {
    line += "; no winner: a simulated device cannot rank them";
  } else {
    line += fmt::format("; best: {}", words(record.winner));
    if (winner != 0)
      line += fmt::format(", {:.3f} of the defaults' time ({:.3f} to {:.3f}), {} bits", best.ratio,
                          best.ratio_lower_quartile, best.ratio_upper_quartile,
                          record.winner_same_bits ? "the same" : "other");
  }
  const std::lock_guard lock(mutex_);
  ++finished_;
  tell(line + "\n");
  std::fflush(stdout);
}

void TuneSweep::measure(const std::string& device, Class& of_class, double share_s) {
  TuneJob job;
  job.device = device;
  job.pass = of_class.pass;
  job.shapes_file = options_.shapes_file;
  job.shapes = of_class.shapes;
  job.rank = rank_;
  job.check_s = kCheckShare * share_s;
  job.total_s = share_s;
  job.sabotage_tuning = options_.sabotage_tuning;
  job.sabotage = options_.sabotage;
  std::vector<Trial>& trials = of_class.record.trials;
  for (std::size_t i = 0; i < trials.size(); ++i) {
    const bool checked = trials[i].outcome == Trial::Outcome::kChecked;
    if (checked || trials[i].outcome == Trial::Outcome::kPending)
      job.items.push_back({i, trials[i].tuning, {}, checked});
    for (const auto& times : trials[i].times_ms) job.first_round = std::max(job.first_round, times.size());
  }
  // An earlier run's rounds count; one more is cold.
  job.rounds = 1 + std::max(kLeastRounds, options_.rounds - std::min(options_.rounds, job.first_round));
  const double timeout_s = options_.timeout_s > 0 ? options_.timeout_s
                           : facts_.simulated     ? kSimulatorTimeout_s
                                                  : kGpuTimeout_s;
  if (!job.items.empty() && job.items.front().index == 0)
    supervise(job, timeout_s, [&](const TuneEvent& event) { write(of_class, note(of_class, event)); });
  finish(of_class);
}

void TuneSweep::measure_all() {
  const Progress progress(kTuneCommand, rank_ ? "measuring" : "checking", [&](double elapsed_s) {
    const std::lock_guard lock(mutex_);
    return progress_state(finished_, classes_.size(), elapsed_s, best_);
  });
  std::vector<std::jthread> threads;
  for (const std::string& device : options_.devices) {
    threads.emplace_back([&, this] {
      while (true) {
        Class* own = nullptr;
        double share_s = 0;
        {
          const std::lock_guard lock(mutex_);
          while (next_ < classes_.size() && classes_[next_].done) ++next_, ++finished_;
          if (next_ == classes_.size()) return;
          share_s = left_s() * static_cast<double>(options_.devices.size()) /
                    static_cast<double>(classes_.size() - next_);
          own = &classes_[next_++];
        }
        if (share_s > 0) measure(device, *own, std::min(share_s, std::max(left_s(), 0.0)));
      }
    });
  }
}

void TuneSweep::print_list() const {
  std::set<std::pair<KernelSpec, Tuning>> kernels;
  for (const Class& of_class : classes_) {
    tell(fmt::format("{} ({})\n", name(of_class.record.problem), fmt::join(of_class.shapes, ", ")));
    for (const Trial& trial : of_class.record.trials) {
      tell("  " + words(trial.tuning) + "\n");
      kernels.emplace(of_class.record.problem.spec, trial.tuning);
    }
  }
  tell(fmt::format("{} classes, {} kernels\n", classes_.size(), kernels.size()));
}

Result<bool> TuneSweep::run() {
  if (Status status = describe_device(); !status.ok()) return status;
  if (Status status = collect_classes(); !status.ok()) return status;
  if (options_.list) {
    print_list();
    return true;
  }
  if (facts_.simulated)
    jfa::tools::note(kTuneCommand,
                     fmt::format("{} is simulated: candidates are checked, but it cannot rank them, so the "
                                 "defaults stay",
                                 options_.devices.front()));
  compile_all();
  measure_all();
  if (!first_error_.ok()) return first_error_;
  return std::ranges::all_of(classes_, [](const Class& it) { return it.record.complete; });
}

}  // namespace jfa::tools
