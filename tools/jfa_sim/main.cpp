// jfa-sim: runs, checks and mutates PTX that anybody compiled, on a simulated Blackwell or Hopper.
#include "tools/command_app.h"
#include "tools/jfa_sim/command.h"

int main(int argc, char** argv) {
  constexpr jfa::tools::AddCommand kCommands[] = {jfa::sim::add_run_command, jfa::sim::add_coverage_command,
                                                  jfa::sim::add_mutate_command, jfa::sim::add_time_command};
  return jfa::tools::run_commands({.name = "jfa-sim",
                                   .description = "A simulated GPU that finds synchronisation bugs in PTX",
                                   .commands = kCommands},
                                  argc, argv);
}
