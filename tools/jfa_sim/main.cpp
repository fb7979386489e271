// jfa-sim: runs, checks and mutates PTX that anybody compiled, on a simulated Blackwell or Hopper.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <sstream>
#include <string>

#include "jfa/version.h"
#include "tools/jfa_sim/command.h"
#include "tools/standard_streams.h"

int main(int argc, char** argv) {
  return jfa::tools::run_program("jfa-sim", [&] {
    CLI::App app{"A simulated GPU that finds synchronisation bugs in PTX", "jfa-sim"};
    app.set_version_flag("--version", std::string("jfa-sim ") + jfa::version_and_commit());
    app.require_subcommand(1);
    int exit_code = jfa::sim::kSuccess;
    jfa::sim::add_run_command(app, exit_code);
    jfa::sim::add_coverage_command(app, exit_code);
    jfa::sim::add_mutate_command(app, exit_code);
    try {
      app.parse(argc, argv);
    } catch (const CLI::ParseError& error) {
      if (error.get_exit_code() == 0) {  // --help, --version
        std::ostringstream text;
        const int exit_code = app.exit(error, text, text);
        jfa::tools::tell(text.str());
        return exit_code;
      }
      jfa::tools::say(fmt::format("jfa-sim: {}\n", error.what()));
      return static_cast<int>(jfa::sim::kFailure);
    }
    return exit_code;
  });
}
