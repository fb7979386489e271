// jfa-sim run: one launch, its results and what the checkers say.
#include <fmt/format.h>

#include <memory>
#include <nlohmann/json.hpp>

#include "tools/jfa_sim/command.h"

namespace jfa::sim {
namespace {

constexpr std::string_view kCommand = "run";

struct RunCommandOptions {
  LaunchOptions launch;
  simulator::RunOptions run;
  std::string schedule = "eager";
  bool json = false;
};

Status write_results(const PreparedLaunch& launch, const simulator::ReplayResult& result) {
  for (const ResultFile& file : launch.results) {
    const HostArray array{file.dtype, file.shape, result.buffers[file.buffer]};
    if (Status status = write_npy(file.path, array); !status.ok()) return status;
  }
  return {};
}

void print_json(const RunCommandOptions& options, const PreparedLaunch& launch,
                const simulator::ReplayResult& result) {
  nlohmann::ordered_json json{{"ok", result.ok},
                              {"entry", options.launch.entry},
                              {"schedule", options.schedule},
                              {"seed", options.run.seed},
                              {"sms", options.run.sms},
                              {"checks", options.run.checks},
                              {"ctas", result.statistics.ctas},
                              {"warp_instructions", result.statistics.warp_instructions},
                              {"async_steps", result.statistics.async_steps}};
  json["results"] = nlohmann::ordered_json::array();
  if (result.ok)
    for (const ResultFile& file : launch.results)
      json["results"].push_back({{"path", file.path}, {"dtype", file.dtype}, {"shape", file.shape}});
  if (!result.ok) json["report"] = to_json(result.report);
  fmt::print("{}\n", json.dump(2));
}

int run(const RunCommandOptions& options) {
  const Result<LoadedLaunch> loaded = load_launch(options.launch);
  if (!loaded) return fail(kCommand, loaded.status());
  const auto result = simulator::replay(loaded->ptx, loaded->launch.recording, options.run, loaded->source);
  if (!result) return fail(kCommand, result.status());
  if (result->ok)
    if (Status status = write_results(loaded->launch, *result); !status.ok()) return fail(kCommand, status);
  fmt::print(options.json ? stderr : stdout, "{}", result->printed);
  if (options.json) {
    print_json(options, loaded->launch, *result);
  } else if (result->ok) {
    fmt::print("{}: no bug found; {} CTAs, {} warp instructions\n", options.launch.entry,
               result->statistics.ctas, result->statistics.warp_instructions);
  } else {
    fmt::print("{}", result->report.text());
  }
  return result->ok ? kSuccess : kBugFound;
}

}  // namespace

void add_run_command(CLI::App& app, int& exit_code) {
  auto options = std::make_shared<RunCommandOptions>();
  CLI::App* command = app.add_subcommand(
      std::string(kCommand), "Runs a kernel. Exit status: 0 no bug found, 1 a report, 2 bad input");
  add_launch_options(*command, options->launch);
  command->add_option("--schedule", options->schedule, "eager, lazy, random: when asynchronous work happens")
      ->check(CLI::IsMember({"eager", "lazy", "random"}))
      ->capture_default_str();
  command->add_option("--seed", options->run.seed, "of the random schedule")->capture_default_str();
  command->add_option("--sms", options->run.sms, "streaming multiprocessors")
      ->check(CLI::Range(1, 1024))
      ->capture_default_str();
  command->add_option("--checks", options->run.checks, "0: no checkers")->capture_default_str();
  command
      ->add_option("--dynamic-alignment", options->run.dynamic_shared_alignment,
                   "least alignment of dynamic shared memory; 1024 for code that counts on it undeclared")
      ->check(CLI::IsMember({16, 32, 64, 128, 256, 512, 1024}))
      ->capture_default_str();
  command
      ->add_option("--tensor-fences", options->run.tensor_fences,
                   "0: waits and barriers order tcgen05 operations without tcgen05.fence")
      ->capture_default_str();
  command
      ->add_option("--budget", options->run.instruction_budget,
                   "warp instructions after which it is a livelock; 0: none")
      ->capture_default_str();
  command->add_flag("--json", options->json, "JSON on stdout");
  command->callback([options, &exit_code] {
    options->run.schedule = *simulator::parse_schedule(options->schedule);
    exit_code = run(*options);
  });
}

}  // namespace jfa::sim
