// jfa-bench, which is `jfa bench`.
#include "tools/command_app.h"
#include "tools/command_line.h"

int main(int argc, char** argv) {
  return jfa::tools::run_companion("bench", jfa::tools::add_bench_command, argc, argv);
}
