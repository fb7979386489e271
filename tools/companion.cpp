#include "tools/companion.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <iterator>
#include <string>

#include "base/standard_streams.h"
#include "tools/command_line.h"

namespace jfa::tools {
namespace {

constexpr std::string_view kHelp = "help";

}  // namespace

std::string_view companion_of(int argc, const char* const* argv) {
  const int at = argc > 2 && argv[1] == kHelp ? 2 : 1;
  if (argc <= at) return {};
  const auto found = std::ranges::find(kCompanions, std::string_view(argv[at]), &Companion::name);
  return found == std::end(kCompanions) ? std::string_view() : found->name;
}

int become_companion(std::string_view companion, const char* const* argv) {
  const std::string name(companion);
  std::error_code error;
  const std::filesystem::path own = std::filesystem::read_symlink("/proc/self/exe", error);
  const std::string program = own.parent_path() / ("jfa-" + name);
  const char* const help[] = {name.c_str(), "--help", nullptr};
  const char* const* arguments = argv[1] == kHelp ? help : argv + 1;
  if (!error) ::execv(program.c_str(), const_cast<char* const*>(arguments));
  const int reason = error ? error.value() : errno;
  say(fmt::format("jfa: '{}' is a program of its own, {}, which cannot be started: {}{}\n", name, program,
                  std::strerror(reason), reason == ENOENT ? "; build the target jfa-" + name : ""));
  return kFailure;
}

}  // namespace jfa::tools
