#include <vector>

#include "tools/command_app.h"
#include "tools/command_log.h"

namespace jfa::tools {

int run_companion(const char* name, AddCommand command, int argc, const char* const* argv) {
  std::vector<const char*> arguments{"jfa", name};
  if (argc > 1) arguments.insert(arguments.end(), argv + 1, argv + argc);
  const AddCommand commands[] = {command};
  const int count = static_cast<int>(arguments.size());
  arguments.push_back(nullptr);
  return run_commands({.name = "jfa",
                       .description = "Jagged flash attention, compiled at run time",
                       .commands = commands,
                       .begin = show_log},
                      count, arguments.data());
}

}  // namespace jfa::tools
