#include "tools/command_line.h"

#include <fmt/format.h>

#include <cstdio>

namespace jfa::tools {

void note(std::string_view command, std::string_view line) {
  fmt::print(stderr, "jfa {}: {}\n", command, line);
}

int fail(std::string_view command, const Status& status) {
  note(command, status.message());
  if (!status.detail().empty()) fmt::print(stderr, "{}\n", status.detail());
  return kFailure;
}

}  // namespace jfa::tools
