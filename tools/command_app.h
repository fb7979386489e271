// A command line made of subcommands: what main() of jfa and of its companions have in common.
#pragma once

#include <span>

namespace CLI {
class App;
}

namespace jfa::tools {

/// Adds one subcommand; its exit status is written to `exit_code` when it has run.
using AddCommand = void (*)(CLI::App& app, int& exit_code);

/// Finds the subcommand that argv[1] names and runs it; returns the exit status of the program. Arguments
/// that do not fit are said on stderr, in one line.
int run_commands(int argc, const char* const* argv, std::span<const AddCommand> commands);

/// The whole of the main() of jfa-NAME, which is `jfa NAME` (companion.h) and says so in its messages.
int run_companion(const char* name, AddCommand command, int argc, const char* const* argv);

}  // namespace jfa::tools
