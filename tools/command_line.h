// What the subcommands of `jfa` share: how they register, and how they say that something went wrong.
#pragma once

#include <string>
#include <string_view>

#include "jfa/status.h"

namespace CLI {
class App;
}

namespace jfa::tools {

enum ExitCode : int {
  kSuccess = 0,
  kNegative = 1,  // the command did its work, and the answer is no: out of tolerance, a kernel that failed
  kFailure = 2,   // bad input, or something is missing
};

// Each adds one subcommand; its exit code is written to `exit_code` when it has run.
void add_run_command(CLI::App& app, int& exit_code);
void add_emit_command(CLI::App& app, int& exit_code);
void add_precompile_command(CLI::App& app, int& exit_code);
void add_doctor_command(CLI::App& app, int& exit_code);
void add_cache_command(CLI::App& app, int& exit_code);
void add_bundle_command(CLI::App& app, int& exit_code);
void add_bench_command(CLI::App& app, int& exit_code);
void add_tune_command(CLI::App& app, int& exit_code);
void add_conformance_command(CLI::App& app, int& exit_code);

/// Prints "jfa <command>: <message>" on stderr, below it the detail if there is any; returns kFailure.
int fail(std::string_view command, const Status& status);

/// "jfa <command>: <line>" on stderr.
void note(std::string_view command, std::string_view line);

}  // namespace jfa::tools
