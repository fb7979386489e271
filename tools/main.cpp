// The jfa command: finds the subcommand and runs it.
#include "tools/command_app.h"
#include "tools/command_line.h"
#include "tools/command_log.h"
#include "tools/companion.h"

int main(int argc, char** argv) {
  using namespace jfa::tools;
  if (const auto companion = companion_of(argc, argv); !companion.empty())
    return become_companion(companion, argv);
  constexpr AddCommand kCommands[] = {add_run_command,    add_emit_command,  add_precompile_command,
                                      add_doctor_command, add_cache_command, add_bundle_command};
  return run_commands({.name = "jfa",
                       .description = "Jagged flash attention, compiled at run time for exactly the "
                                      "attention at hand",
                       .commands = kCommands,
                       .begin = show_log,
                       .companions = kCompanions},
                      argc, argv);
}
