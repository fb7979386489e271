#include "tools/command_line.h"

#include <fmt/format.h>

#include "base/standard_streams.h"

namespace jfa::tools {

void note(std::string_view command, std::string_view line) {
  say(fmt::format("jfa {}: {}\n", command, line));
}

int fail(std::string_view command, const Status& status) {
  note(command, status.message());
  if (!status.detail().empty()) say(status.detail() + "\n");
  return kFailure;
}

}  // namespace jfa::tools
