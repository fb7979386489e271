#include "tools/command_app.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <sstream>
#include <string_view>
#include <vector>

#include "jfa/version.h"
#include "tools/command_line.h"
#include "tools/companion.h"
#include "tools/standard_streams.h"

namespace jfa::tools {
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

// So that --help lists them; they are never parsed here.
void list_companions(CLI::App& app) {
  for (const Companion& companion : kCompanions)
    if (!has_command(app, companion.name))
      app.add_subcommand(std::string(companion.name), std::string(companion.summary));
}

}  // namespace

int run_commands(int argc, const char* const* argv, std::span<const AddCommand> commands) {
  CLI::App app{"Jagged flash attention, compiled at run time for exactly the attention at hand", "jfa"};
  std::string program = "jfa";
  return run_program(program, [&] {
    app.set_version_flag("--version", std::string("jfa ") + version_and_commit());
    app.require_subcommand(1);
    app.parse_complete_callback([&] { program += subcommand_of(app); });
    int exit_code = kSuccess;
    for (const AddCommand add : commands) add(app, exit_code);
    list_companions(app);
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

int run_companion(const char* name, AddCommand command, int argc, const char* const* argv) {
  std::vector<const char*> arguments{"jfa", name};
  if (argc > 1) arguments.insert(arguments.end(), argv + 1, argv + argc);
  const AddCommand commands[] = {command};
  const int count = static_cast<int>(arguments.size());
  arguments.push_back(nullptr);
  return run_commands(count, arguments.data(), commands);
}

}  // namespace jfa::tools
