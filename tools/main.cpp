// The jfa command: finds the subcommand and runs it.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <sstream>
#include <string_view>

#include "tools/command_line.h"
#include "tools/standard_streams.h"

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
  using namespace jfa::tools;
  CLI::App app{"Jagged flash attention, compiled at run time for exactly the attention at hand", "jfa"};
  std::string program = "jfa";
  return run_program(program, [&] {
    app.set_version_flag("--version", "jfa " JFA_VERSION);
    app.require_subcommand(1);
    app.parse_complete_callback([&] { program += subcommand_of(app); });
    int exit_code = kSuccess;
    add_run_command(app, exit_code);
    add_emit_command(app, exit_code);
    add_precompile_command(app, exit_code);
    add_doctor_command(app, exit_code);
    add_cache_command(app, exit_code);
    add_bundle_command(app, exit_code);
    add_bench_command(app, exit_code);
    add_conformance_command(app, exit_code);
    if (argc == 1) {
      say(app.help());
      return static_cast<int>(kFailure);
    }
    const std::string_view first = argv[1];
    if (!first.starts_with('-') && !has_command(app, first)) {
      say(fmt::format("jfa: '{}' is not a command; jfa --help lists them\n", first));
      return static_cast<int>(kFailure);
    }
    try {
      app.parse(argc, argv);
    } catch (const CLI::ParseError& error) {
      if (error.get_exit_code() == 0) {  // --help, --version
        std::ostringstream text;
        const int exit_code = app.exit(error, text, text);
        tell(text.str());
        return exit_code;
      }
      say(fmt::format("jfa{}: {}\n", subcommand_of(app), error.what()));
      return static_cast<int>(kFailure);
    }
    return exit_code;
  });
}
