// A command line made of subcommands: what main() of jfa, of its companions and of jfa-sim have in common.
#pragma once

#include <span>

#include "tools/companion.h"

namespace CLI {
class App;
}

namespace jfa::tools {

/// Adds one subcommand; its exit status is written to `exit_code` when it has run.
using AddCommand = void (*)(CLI::App& app, int& exit_code);

struct Program {
  const char* name = "";
  const char* description = "";
  std::span<const AddCommand> commands{};
  void (*begin)() = nullptr;                // called before anything is done
  std::span<const Companion> companions{};  // listed in the help, run by somebody else
};

/// Finds the subcommand that argv[1] names and runs it; returns the exit status of the program. `help`,
/// `version` and `completion` are the same for all programs. Arguments that do not fit are said on stderr, in
/// one line that names them.
int run_commands(const Program& program, int argc, const char* const* argv);

/// The whole of the main() of jfa-NAME, which is `jfa NAME` (companion.h) and says so in its messages.
int run_companion(const char* name, AddCommand command, int argc, const char* const* argv);

}  // namespace jfa::tools
