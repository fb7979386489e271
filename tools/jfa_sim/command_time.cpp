// jfa-sim time: how long one launch would have taken, by the timing model.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <optional>

#include "base/input_file.h"
#include "base/output_file.h"
#include "base/standard_streams.h"
#include "machine_code/cubin.h"
#include "simulator/campaign/recording.h"
#include "simulator/timing/modelled_launch.h"
#include "simulator/timing/report.h"
#include "tools/jfa_sim/command.h"
#include "tools/option_checks.h"

namespace jfa::sim {
namespace {

namespace timing = simulator::timing;

constexpr std::string_view kTimeCommand = "time";

struct TimeOptions {
  LaunchOptions launch;
  simulator::RunOptions run;
  std::string cubin_path;
  std::optional<std::string> trace_path, picture_path;
  double picture_cycles = 0;
  bool in_l2 = false;
};

Status write(const std::optional<std::string>& path, const std::string& text) {
  if (!path) return {};
  Result<tools::OutputFile> file = tools::OutputFile::open(*path);
  return file ? file->write(text) : file.status();
}

int time(const TimeOptions& options) {
  const Result<LoadedLaunch> loaded = load_launch(options.launch);
  if (!loaded) return fail(kTimeCommand, loaded.status());
  const Result<std::string> bytes = tools::read_text(options.cubin_path);
  if (!bytes) return fail(kTimeCommand, bytes.status());
  const auto cubin = machine_code::read_cubin(options.cubin_path, *bytes);
  if (!cubin) return fail(kTimeCommand, cubin.status());
  const auto placed = simulator::place(loaded->ptx, loaded->launch.recording, loaded->source);
  if (!placed) return fail(kTimeCommand, placed.status());

  const simulator::RecordedLaunch& recorded = loaded->launch.recording.launches.front();
  const simulator::Entry* entry = (*placed)->module->find(recorded.entry);
  simulator::LaunchConfig config = recorded.config;
  timing::Recorder recorder(static_cast<std::uint32_t>(config.cluster.count()));
  config.options = options.run;
  config.options.recorder = &recorder;
  const simulator::LaunchResult result = run_grid(*(*placed)->module, *entry, config, (*placed)->memory);
  if (!result.ok) {
    tools::tell(result.report.text());
    return kBugFound;
  }
  timing::TimedLaunch launch{entry, config.grid, config.block, config.cluster, recorder.take()};
  if (options.in_l2) {
    for (auto& [index, cta] : launch.ctas)
      for (timing::RecordedWarp& warp : cta.warps)
        for (timing::Detail& detail : warp.details) detail.first_touch = false;
  }
  const auto modelled = timing::model(options.cubin_path, *cubin, launch);
  if (!modelled) return fail(kTimeCommand, modelled.status());
  const timing::LaunchSummary summary = timing::summarize(launch, **modelled, loaded->source);
  tools::tell(timing::text_of(summary));
  for (const Status& status :
       {write(options.trace_path, timing::chrome_trace(launch, **modelled)),
        write(options.picture_path, timing::svg(summary, **modelled, options.picture_cycles))})
    if (!status.ok()) return fail(kTimeCommand, status);
  return kSuccess;
}

}  // namespace

void add_time_command(CLI::App& app, int& exit_code) {
  auto options = std::make_shared<TimeOptions>();
  options->run.checks = false;  // that is what `run` is for
  CLI::App* command = app.add_subcommand(
      std::string(kTimeCommand),
      "How long the first CTA or cluster of a kernel takes: a model of sm_100, not a measurement");
  add_launch_options(*command, options->launch);
  command
      ->add_option(
          "--cubin", options->cubin_path,
          "what ptxas made of the PTX, with line information: ptxas -arch=sm_100a --generate-line-info")
      ->required()
      ->type_name("FILE");
  tools::whole(command->add_option("--sms", options->run.sms, "streaming multiprocessors"), 1, 1024)
      ->type_name("N")
      ->capture_default_str();
  command
      ->add_option("--dynamic-alignment", options->run.dynamic_shared_alignment,
                   "least alignment of dynamic shared memory")
      ->type_name("16|32|64|128|256|512|1024")
      ->check(CLI::IsMember({"16", "32", "64", "128", "256", "512", "1024"}).description(""))
      ->capture_default_str();
  command->add_flag("--in-l2", options->in_l2,
                    "copies find in L2 what they read, also what this grid has not read before");
  command->add_option("--trace", options->trace_path, "file for Perfetto, in cycles; - is stdout")
      ->type_name("FILE");
  command->add_option("--svg", options->picture_path, "file for a picture of roles over time")
      ->type_name("FILE");
  command->add_option("--svg-cycles", options->picture_cycles, "how much of the beginning it shows; 0: all")
      ->type_name("CYCLES")
      ->capture_default_str();
  command->callback([options, &exit_code] { exit_code = time(*options); });
}

}  // namespace jfa::sim
