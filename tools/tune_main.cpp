// jfa-tune, which is `jfa tune`.
#include "tools/command_app.h"
#include "tools/command_line.h"

int main(int argc, char** argv) {
  return jfa::tools::run_companion("tune", jfa::tools::add_tune_command, argc, argv);
}
