// What the subcommands of jfa-sim share.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "simulator/machine/launch.h"
#include "tools/jfa_sim/launch_arguments.h"

namespace CLI {
class App;
}

namespace jfa::sim {

enum ExitCode : int {
  kSuccess = 0,
  kBugFound = 1,  // the simulator reported a defect; a mutant survived; an instruction is not known
  kFailure = 2,   // bad input
};

// Each adds one subcommand; its exit code is written to `exit_code` when it has run.
void add_run_command(CLI::App& app, int& exit_code);
void add_coverage_command(CLI::App& app, int& exit_code);
void add_mutate_command(CLI::App& app, int& exit_code);
void add_time_command(CLI::App& app, int& exit_code);

/// Prints "jfa-sim <command>: <message>" on stderr, below it the detail if there is any; returns kFailure.
int fail(std::string_view command, const Status& status);

/// The options that say what is launched, for `run` and `mutate`.
struct LaunchOptions {
  std::string ptx_path;
  std::string source_path;  // CUDA text that reports quote; may be empty
  std::string entry;
  std::string grid = "1", block, cluster = "1";
  std::uint32_t shared_bytes = 0;
  std::vector<std::string> buffers, arguments;
};
void add_launch_options(CLI::App& command, LaunchOptions& options);
/// Those that say how many multiprocessors the device has and which rules of PTX hold on it, for the same
/// two.
void add_device_options(CLI::App& command, simulator::RunOptions& options);
/// "a|b" for "a, b".
std::string alternatives(std::string names);
/// "--tensor-fences", of the rule tensor_fences.
std::string option_of_rule(std::string_view rule);

struct LoadedLaunch {
  std::string ptx, source;
  PreparedLaunch launch;
};
Result<LoadedLaunch> load_launch(const LaunchOptions& options);

nlohmann::ordered_json to_json(const simulator::Report& report);

}  // namespace jfa::sim
