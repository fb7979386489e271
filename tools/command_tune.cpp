// jfa tune: sweeps tunings of kernels over shapes, and keeps what it finds in a database.
#include "tools/command_tune.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <charconv>
#include <memory>

#include "base/input_file.h"
#include "base/standard_streams.h"
#include "tools/command_line.h"
#include "tools/option_checks.h"
#include "tools/sweep.h"
#include "tools/tune_job.h"
#include "tools/tune_sweep.h"
#include "tools/tune_trial.h"

namespace jfa::tools {
namespace {

constexpr std::string_view kTuneCommandName = "tune";

struct TuneOptions {
  SweepOptions sweep;
  std::vector<std::string> passes{"forward"};
  std::string budget;
  std::string sabotage;  // TUNING:KIND
};

// Seconds of "90s", "10m" or "2h".
Result<double> parse_duration(const std::string& text) {
  double number = 0;
  const char* const end = text.data() + text.size();
  const auto [unit, error] = std::from_chars(text.data(), end, number);
  const std::string_view name(unit, static_cast<std::size_t>(end - unit));
  const double seconds = name == "s" || name.empty() ? 1 : name == "m" ? 60 : name == "h" ? 3600 : 0;
  if (error != std::errc() || seconds == 0 || !(number > 0))
    return Status::invalid_argument("--budget '" + text + "' is no time such as 90s, 10m or 2h");
  return number * seconds;
}

int run_sweep(TuneOptions options) {
  for (const std::string& text : options.passes) {
    const Result<Pass> pass = parse_pass(text);
    if (!pass) return fail(kTuneCommandName, pass.status());
    options.sweep.passes.push_back(*pass);
  }
  if (!options.budget.empty()) {
    const Result<double> budget_s = parse_duration(options.budget);
    if (!budget_s) return fail(kTuneCommandName, budget_s.status());
    options.sweep.budget_s = *budget_s;
  }
  // For tests of the sweep itself: what one candidate does wrong.
  if (const std::size_t colon = options.sabotage.rfind(':'); colon != options.sabotage.npos) {
    options.sweep.sabotage_tuning = options.sabotage.substr(0, colon);
    options.sweep.sabotage = options.sabotage.substr(colon + 1);
    if (const auto known = parse_sabotage(options.sweep.sabotage); !known)
      return fail(kTuneCommandName, known.status());
  }
  const auto missing = [](const char* name) {
    return fail(kTuneCommandName, Status::invalid_argument(std::string(name) + " is missing"));
  };
  if (options.sweep.shapes_file.empty()) return missing("--shapes");
  if (options.sweep.database.empty() && !options.sweep.list) return missing("--database");
  const Result<bool> complete = TuneSweep(options.sweep).run();
  if (!complete) return fail(kTuneCommandName, complete.status());
  return *complete ? kSuccess : kNegative;
}

int run_worker(const std::string& path) {
  const Result<std::string> text = read_text(path);
  if (!text) return fail(kTuneCommandName, text.status());
  const Result<TuneJob> job = parse_job(*text);
  if (!job) return fail(kTuneCommandName, job.status());
  const Status status = work_off(*job);
  return status.ok() ? kSuccess : fail(kTuneCommandName, status);
}

void add_sweep_options(CLI::App& command, TuneOptions& options) {
  SweepOptions& sweep = options.sweep;
  sweep.devices = {"cuda:0"};
  list(command.add_option("--device,--devices", sweep.devices,
                          "cuda:N, several of one kind side by side, or a simulated GPU"))
      ->type_name("DEVICE")
      ->capture_default_str();
  command.add_option("--shapes", sweep.shapes_file, "what to tune for, as in bench/shapes.json")
      ->type_name("FILE");
  list(command.add_option("--only", sweep.only, "only the shapes of these names"))->type_name("NAME");
  command
      .add_option("--configs", sweep.configs_file,
                  "which values of knobs to try; default: every knob's values alone")
      ->type_name("FILE");
  list(command.add_option("--pass", options.passes, "of the attention"))
      ->type_name("forward|backward")
      ->capture_default_str();
  command.add_option("--database,-o", sweep.database, "directory that keeps what is found")->type_name("DIR");
  command
      .add_option("--budget", options.budget, "time for all of it, such as 10m; each class gets its share")
      ->type_name("TIME");
  whole<unsigned>(command.add_option("--jobs", sweep.jobs, "compilations at once; default: one a core"))
      ->type_name("N");
  command.add_option("--shard", sweep.shard, "only part I of N of the classes; databases merge by copying")
      ->type_name("I/N");
  command.add_flag("--resume", sweep.resume, "go on with what the database has of the same sweep");
  command.add_flag("--list", sweep.list, "say which classes and candidates there are, and try none");
  whole<std::size_t>(command.add_option("--rounds", sweep.rounds, "in which every candidate is timed once"),
                     std::size_t{3}, std::size_t{1000})
      ->type_name("N")
      ->capture_default_str();
  finite(command.add_option("--timeout", sweep.timeout_s,
                            "seconds without a sign after which a candidate counts as hanging; default: 60, "
                            "900 on a simulated device"),
         0.0)
      ->type_name("S");
  command.add_flag("--try-timing", sweep.try_timing,
                   "on a simulated device: take times as on a GPU, for a trial; nobody wins");
  command.add_option("--sabotage", options.sabotage, "TUNING:crash|hang|wrong|stale|slow-compile")->group("");
}

}  // namespace

void add_tune_command(CLI::App& app, int& exit_code) {
  const auto options = std::make_shared<TuneOptions>();
  CLI::App& command = *app.add_subcommand("tune", "Find the fastest kernels for given shapes");
  command.footer(
      "Shapes that the host cannot tell apart (specialisation, batch times heads and mean lengths to the "
      "next\n"
      "power of two) are one class, with one record in DIR. FILE of --configs is a JSON list such as\n"
      "  [{\"query_stages\": [1, 2], \"item_stages\": [2, 3]}, {\"each\": {\"least_part_tiles\": \"all\"}}]\n"
      "where every combination of an entry is tried, and every value of \"each\" alone; \"pass\", "
      "\"broadcast_q\" and\n"
      "\"target\" (sm90, sm100) restrict an entry. A candidate is checked before it is timed, in a process "
      "of "
      "its own.\n"
      "Exit status: 0, 1 if candidates are left that were not tried to the end, 2 on any other error.");
  command.require_subcommand(0, 1);
  add_sweep_options(command, *options);
  CLI::App& worker = *command.add_subcommand("work", "A sweep's worker")->group("");
  const auto job = std::make_shared<std::string>();
  worker.add_option("JOB", *job, "what to do")->required()->type_name("FILE");
  worker.callback([job, &exit_code] { exit_code = run_worker(*job); });
  add_tune_database_commands(command, exit_code);
  command.callback([options, &command, &exit_code] {
    if (command.get_subcommands().empty()) exit_code = run_sweep(*options);
  });
}

}  // namespace jfa::tools
