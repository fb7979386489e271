// jfa-sim mutate: spoils one synchronisation instruction of a kernel after another, and says which mistakes
// go unnoticed.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <utility>

#include "tools/jfa_sim/campaign_report.h"
#include "tools/jfa_sim/command.h"
#include "tools/option_checks.h"

namespace jfa::sim {
namespace {

constexpr std::string_view kMutateCommand = "mutate";

struct MutateOptions {
  LaunchOptions launch;
  simulator::RunOptions run;  // but for the schedule
  int random_seeds = 2;
  int jobs = 1;
  std::size_t sample = 0;
  bool json = false;
};

int mutate(const MutateOptions& options) {
  const Result<LoadedLaunch> loaded = load_launch(options.launch);
  if (!loaded) return fail(kMutateCommand, loaded.status());
  CampaignOptions campaign;
  campaign.sample = options.sample;
  campaign.jobs = options.jobs;
  campaign.schedules = usual_schedules(options.random_seeds);
  for (simulator::RunOptions& schedule : campaign.schedules) {
    simulator::RunOptions run = options.run;
    run.schedule = schedule.schedule;
    run.seed = schedule.seed;
    schedule = std::move(run);
  }
  const Result<CampaignResult> result = run_campaign(loaded->ptx, loaded->launch.recording, campaign);
  if (!result) return fail(kMutateCommand, result.status());
  const std::string unnoticed = survivors(*result, loaded->source);
  if (options.json) {
    fmt::print("{}\n", to_json(*result).dump(2, ' ', false, nlohmann::json::error_handler_t::replace));
  } else {
    fmt::print("{}\nSurvivors:\n{}\nNot reached:\n{}", kill_table(*result), unnoticed,
               unreached(*result, loaded->source));
  }
  return unnoticed.empty() ? kSuccess : kBugFound;
}

}  // namespace

void add_mutate_command(CLI::App& app, int& exit_code) {
  auto options = std::make_shared<MutateOptions>();
  CLI::App* command = app.add_subcommand(std::string(kMutateCommand),
                                         "Runs every mutant of a kernel's synchronisation. Exit status: 0 "
                                         "all are noticed, 1 some are not, 2 bad "
                                         "input, or the kernel fails as it is");
  add_launch_options(*command, options->launch);
  using tools::whole;
  const auto usual = [](CLI::Option* option) { option->type_name("N")->capture_default_str(); };
  add_device_options(*command, options->run);
  usual(
      whole(command->add_option("--random", options->random_seeds, "random schedules beside eager and lazy"),
            0, 100000));
  usual(whole<std::size_t>(
      command->add_option("--sample", options->sample, "mutants of each operation and change; 0: all")));
  usual(whole(command->add_option("--jobs", options->jobs, "threads"), 1, 1024));
  command->add_flag("--json", options->json, "JSON on stdout");
  command->callback([options, &exit_code] { exit_code = mutate(*options); });
}

}  // namespace jfa::sim
