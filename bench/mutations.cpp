// jfa_bench_mutations: how many synchronisation mistakes the simulator's checkers find in our own kernels.
// Runs every mutant of a forward or a backward on a small jagged batch and prints the kill rates, the
// survivors, and what no run comes to. Exit status 1 if a mutant survives.
#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "base/output_file.h"
#include "base/standard_streams.h"
#include "tests/attention/recording.h"
#include "tools/jfa_sim/campaign_report.h"

namespace {

struct Options {
  std::vector<std::string> configurations = jfa::test::recorded_configurations();
  std::string device = "sim:sm_100a";
  std::optional<std::string> json;
  std::string entry;
  std::size_t sample = 0;
  int random_seeds = 2;
  int jobs = 1;
};

jfa::sim::CampaignResult run(const Options& options, const std::string& name,
                             const jfa::test::AttentionRecording& recorded) {
  jfa::sim::CampaignOptions campaign;
  campaign.sample = options.sample;
  campaign.jobs = options.jobs;
  campaign.entry = options.entry;
  campaign.schedules = jfa::sim::usual_schedules(options.random_seeds);
  campaign.progress = [&](std::size_t done, std::size_t total) {
    if (done % 20 == 0 || done == total) jfa::tools::say(fmt::format("\r{}: {} of {}  ", name, done, total));
  };
  jfa::sim::CampaignResult result =
      jfa::sim::run_campaign(recorded.ptx, recorded.recording, campaign).value();
  jfa::tools::say("\n");
  return result;
}

int run(const Options& options) {
  auto output = jfa::tools::open_if_given(options.json).value();
  bool survived = false;
  nlohmann::ordered_json json;
  for (const std::string& name : options.configurations) {
    const jfa::test::AttentionRecording recorded = jfa::test::record(name, options.device);
    const jfa::sim::CampaignResult result = run(options, name, recorded);
    jfa::tools::tell(fmt::format("## {}, {}\n\nSchedules:", name, recorded.target));
    for (const auto& schedule : result.schedules)
      jfa::tools::tell(fmt::format(" {};", jfa::sim::describe(schedule)));
    const std::string survivors = jfa::sim::survivors(result, recorded.source.text);
    jfa::tools::tell(fmt::format("\n\n{}\nSurvivors:\n{}\nNot reached:\n{}\n", jfa::sim::kill_table(result),
                                 survivors, jfa::sim::unreached(result, recorded.source.text)));
    std::fflush(stdout);
    survived |= !survivors.empty();
    json[name] = jfa::sim::to_json(result);
  }
  if (output) output->write(json.dump(2) + "\n").or_throw();
  return survived ? 1 : 0;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app{"Runs mutants of the kernels in the simulator", "jfa_bench_mutations"};
  Options options;
  app.add_option("configurations", options.configurations, "all by default")
      ->check(CLI::IsMember(jfa::test::recorded_configurations()));
  app.add_option("--device", options.device, "a simulated device")->capture_default_str();
  app.add_option("--entry", options.entry, "mutants of this one only, such as jfa_delta");
  app.add_option("--sample", options.sample, "mutants of each operation and change; 0: all")
      ->capture_default_str();
  app.add_option("--random", options.random_seeds, "random schedules beside eager and lazy")
      ->capture_default_str();
  app.add_option("--jobs", options.jobs, "threads")->capture_default_str();
  app.add_option("--json", options.json, "file for every mutant's outcome on every schedule");
  return jfa::tools::run_program("jfa_bench_mutations", [&] {
    CLI11_PARSE(app, argc, argv);
    return run(options);
  });
}
