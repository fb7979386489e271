#include "tools/companion.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <iterator>
#include <string>

#include "tools/command_line.h"
#include "tools/standard_streams.h"

namespace jfa::tools {

bool is_companion(std::string_view name) {
  return std::ranges::find(kCompanions, name, &Companion::name) != std::end(kCompanions);
}

int become_companion(const char* const* argv) {
  const std::string name = argv[1];
  std::error_code error;
  const std::filesystem::path own = std::filesystem::read_symlink("/proc/self/exe", error);
  const std::string program = own.parent_path() / ("jfa-" + name);
  if (!error) ::execv(program.c_str(), const_cast<char* const*>(argv + 1));
  const int reason = error ? error.value() : errno;
  say(fmt::format("jfa: '{}' is a program of its own, {}, which cannot be started: {}{}\n", name, program,
                  std::strerror(reason), reason == ENOENT ? "; build the target jfa-" + name : ""));
  return kFailure;
}

}  // namespace jfa::tools
