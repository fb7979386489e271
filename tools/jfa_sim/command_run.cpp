// jfa-sim run: one launch, its results and what the checkers say.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <vector>

#include "base/output_file.h"
#include "base/standard_streams.h"
#include "simulator/campaign/shrink.h"
#include "simulator/machine/habits.h"
#include "tools/jfa_sim/command.h"
#include "tools/jfa_sim/trace_file.h"
#include "tools/option_checks.h"

namespace jfa::sim {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::string_view kRunCommand = "run";

struct RunCommandOptions {
  LaunchOptions launch;
  simulator::RunOptions run;
  std::string schedule = "eager", choices;
  std::optional<std::string> trace_path;
  bool json = false;
  bool shrink = true;
};

// The files that the run is to write.
struct Outputs {
  std::optional<tools::OutputFile> trace;
  std::vector<tools::OutputFile> results;  // as in PreparedLaunch
};

Result<Outputs> open_outputs(const RunCommandOptions& options, const PreparedLaunch& launch) {
  Result<std::optional<tools::OutputFile>> trace = tools::open_if_given(options.trace_path);
  if (!trace) return trace.status();
  Outputs outputs{std::move(*trace), {}};
  for (const ResultFile& file : launch.results) {
    Result<tools::OutputFile> result = tools::OutputFile::open(file.path);
    if (!result) return result.status();
    outputs.results.push_back(std::move(*result));
  }
  return outputs;
}

Status write_results(const PreparedLaunch& launch, const simulator::ReplayResult& result,
                     std::vector<tools::OutputFile>& outputs) {
  for (std::size_t i = 0; i < launch.results.size(); ++i) {
    const ResultFile& file = launch.results[i];
    const Result<std::string> bytes = npy_bytes({file.dtype, file.shape, result.buffers[file.buffer]});
    if (!bytes) return bytes.status();
    if (Status status = outputs[i].write(*bytes); !status.ok()) return status;
  }
  return {};
}

// A word of the shell.
std::string shell_word(std::string_view text) {
  std::string word = "'";
  for (const char c : text) word += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return word + "'";
}

// The command that runs the launch on these choices.
std::string replay_command(const RunCommandOptions& options, const std::vector<simulator::Choice>& choices) {
  const LaunchOptions& launch = options.launch;
  std::string text =
      fmt::format("jfa-sim run {} --entry {} --grid {} --block {} --cluster {}", shell_word(launch.ptx_path),
                  shell_word(launch.entry), launch.grid, launch.block, launch.cluster);
  if (launch.shared_bytes != 0) text += fmt::format(" --shared {}", launch.shared_bytes);
  for (const std::string& buffer : launch.buffers) text += fmt::format(" --buffer {}", shell_word(buffer));
  for (const std::string& argument : launch.arguments) text += fmt::format(" --arg {}", shell_word(argument));
  if (!launch.source_path.empty()) text += fmt::format(" --source {}", shell_word(launch.source_path));
  text += fmt::format(" --sms {} --schedule replay", options.run.sms);
  const simulator::RunOptions usual;
  const auto add_unusual = [&](std::string_view option, auto value, auto usual_value) {
    if (value != usual_value) text += fmt::format(" {} {}", option, static_cast<std::uint64_t>(value));
  };
  add_unusual("--checks", options.run.checks, usual.checks);
  add_unusual("--dynamic-alignment", options.run.dynamic_shared_alignment, usual.dynamic_shared_alignment);
  for (const simulator::PtxRule& rule : simulator::ptx_rules())
    add_unusual(option_of_rule(rule.name), options.run.*rule.member, usual.*rule.member);
  add_unusual("--budget", options.run.instruction_budget, usual.instruction_budget);
  if (!choices.empty()) text += fmt::format(" --choices {}", to_string(choices));
  return text;
}

std::string describe(const simulator::ShrunkSchedule& shrunk, const RunCommandOptions& options) {
  if (!shrunk.replayable)
    return fmt::format("schedule: it fails on --schedule {}, not on choices alone\n", options.schedule);
  return fmt::format("schedule: {} of {} choices are needed. It fails again with\n  {}\n",
                     shrunk.choices.size(), shrunk.recorded, replay_command(options, shrunk.choices));
}

void print_json(const RunCommandOptions& options, const PreparedLaunch& launch,
                const simulator::ReplayResult& result, const simulator::ShrunkSchedule* shrunk) {
  Json json{{"ok", result.ok},
            {"entry", options.launch.entry},
            {"schedule", options.schedule},
            {"seed", options.run.seed},
            {"sms", options.run.sms},
            {"checks", options.run.checks},
            {"ctas", result.statistics.ctas},
            {"warp_instructions", result.statistics.warp_instructions},
            {"async_steps", result.statistics.async_steps}};
  json["results"] = Json::array();
  if (result.ok)
    for (const ResultFile& file : launch.results)
      json["results"].push_back({{"path", file.path}, {"dtype", file.dtype}, {"shape", file.shape}});
  if (!result.ok) json["report"] = to_json(result.report);
  if (shrunk != nullptr && shrunk->replayable) {
    json["choices"] = to_string(shrunk->choices);
    json["replay"] = replay_command(options, shrunk->choices);
  }
  tools::tell(json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n");
}

int run(const RunCommandOptions& options) {
  const Result<LoadedLaunch> loaded = load_launch(options.launch);
  if (!loaded) return fail(kRunCommand, loaded.status());
  Result<Outputs> outputs = open_outputs(options, loaded->launch);
  if (!outputs) return fail(kRunCommand, outputs.status());
  simulator::Trace trace;
  simulator::RunOptions traced = options.run;
  if (outputs->trace) traced.trace = &trace;
  const auto result = simulator::replay(loaded->ptx, loaded->launch.recording, traced, loaded->source);
  if (!result) return fail(kRunCommand, result.status());
  if (outputs->trace)
    if (Status status = outputs->trace->write(
            to_chrome_trace(trace).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n");
        !status.ok())
      return fail(kRunCommand, status);
  std::optional<simulator::ShrunkSchedule> shrunk;
  if (!result->ok && options.shrink) {
    auto shrinking = simulator::shrink(loaded->ptx, loaded->launch.recording, options.run);
    if (!shrinking) return fail(kRunCommand, shrinking.status());
    shrunk = *std::move(shrinking);
  }
  if (result->ok)
    if (Status status = write_results(loaded->launch, *result, outputs->results); !status.ok())
      return fail(kRunCommand, status);
  if (options.json) {
    tools::say(result->printed);
  } else {
    tools::tell(result->printed);
  }
  if (options.json) {
    print_json(options, loaded->launch, *result, shrunk ? &*shrunk : nullptr);
  } else if (result->ok) {
    tools::tell(fmt::format("{}: no bug found; {} CTAs, {} warp instructions\n", options.launch.entry,
                            result->statistics.ctas, result->statistics.warp_instructions));
  } else {
    tools::tell(result->report.text());
    if (shrunk) tools::tell(describe(*shrunk, options));
  }
  return result->ok ? kSuccess : kBugFound;
}

}  // namespace

void add_run_command(CLI::App& app, int& exit_code) {
  auto options = std::make_shared<RunCommandOptions>();
  CLI::App* command = app.add_subcommand(
      std::string(kRunCommand), "Runs a kernel. Exit status: 0 no bug found, 1 a report, 2 bad input");
  add_launch_options(*command, options->launch);
  using tools::whole;
  command->add_option("--schedule", options->schedule, "who moves when")
      ->type_name(alternatives(simulator::schedule_names()))
      ->check([](const std::string& name) {
        return simulator::parse_schedule(name)
                   ? ""
                   : fmt::format("{} is not one of {}", name, simulator::schedule_names());
      })
      ->capture_default_str();
  whole<std::uint64_t>(
      command->add_option("--seed", options->run.seed, "of the random schedule; of starve: who"))
      ->type_name("N")
      ->capture_default_str();
  command->add_option("--choices", options->choices, "of the replay schedule, as a failing run prints them")
      ->type_name("POSITION:VALUE,…")
      ->check([](const std::string& text) {
        return simulator::parse_choices(text) ? ""
                                              : "must be increasing positions and values, as in 12:3,40:1";
      });
  command->add_flag("!--no-shrink", options->shrink, "do not look for the choices that a failure needs");
  command
      ->add_option("--trace", options->trace_path,
                   "file for what happened when, in Chrome's trace format (Perfetto); - is stdout")
      ->type_name("FILE");
  add_device_options(*command, options->run);
  command->add_option("--checks", options->run.checks, "0: no checkers")
      ->type_name("0|1")
      ->check(CLI::IsMember({"0", "1"}).description(""))
      ->default_str("1");
  whole<std::uint64_t>(command->add_option("--budget", options->run.instruction_budget,
                                           "warp instructions after which it is a livelock; 0: none"))
      ->type_name("N")
      ->capture_default_str();
  command->add_flag("--json", options->json, "JSON on stdout");
  command->callback([options, &exit_code] {
    options->run.schedule = *simulator::parse_schedule(options->schedule);
    options->run.choices = *simulator::parse_choices(options->choices);
    exit_code = run(*options);
  });
}

}  // namespace jfa::sim
