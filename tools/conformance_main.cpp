// jfa-conformance, which is `jfa conformance`.
#include "tools/command_app.h"
#include "tools/command_line.h"

int main(int argc, char** argv) {
  return jfa::tools::run_companion("conformance", jfa::tools::add_conformance_command, argc, argv);
}
