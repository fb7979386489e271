// The jfa command: finds the subcommand and runs it.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <exception>
#include <string_view>

#include "tools/command_line.h"

namespace {

// "run" of `jfa run …`, for messages; empty if no subcommand was given.
std::string subcommand_of(const CLI::App& app) {
  const auto chosen = app.get_subcommands();
  return chosen.empty() ? "" : " " + chosen.front()->get_name();
}

bool has_command(CLI::App& app, std::string_view name) {
  return !app.get_subcommands([name](const CLI::App* command) { return command->get_name() == name; })
              .empty();
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app{"Jagged flash attention, compiled at run time for exactly the attention at hand", "jfa"};
  app.set_version_flag("--version", "jfa " JFA_VERSION);
  app.require_subcommand(1);
  int exit_code = jfa::tools::kSuccess;
  jfa::tools::add_run_command(app, exit_code);
  jfa::tools::add_emit_command(app, exit_code);
  jfa::tools::add_precompile_command(app, exit_code);
  jfa::tools::add_doctor_command(app, exit_code);
  jfa::tools::add_cache_command(app, exit_code);
  jfa::tools::add_bundle_command(app, exit_code);
  jfa::tools::add_bench_command(app, exit_code);
  jfa::tools::add_conformance_command(app, exit_code);
  if (argc == 1) {
    fmt::print(stderr, "{}", app.help());
    return jfa::tools::kFailure;
  }
  const std::string_view first = argv[1];
  if (!first.starts_with('-') && !has_command(app, first)) {
    fmt::print(stderr, "jfa: '{}' is not a command; jfa --help lists them\n", first);
    return jfa::tools::kFailure;
  }
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return app.exit(error);  // --help, --version
    fmt::print(stderr, "jfa{}: {}\n", subcommand_of(app), error.what());
    return jfa::tools::kFailure;
  } catch (const std::exception& error) {
    fmt::print(stderr, "jfa{}: {}\n", subcommand_of(app), error.what());
    return jfa::tools::kFailure;
  }
  return exit_code;
}
