// What the environment says to jfa, and what in it nobody will read.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace jfa::tools {

struct EnvironmentReport {
  std::vector<std::pair<std::string, std::string>> set;  // variables that are read, with their values
  /// One sentence each: "JFA_CACHEDIR is not a variable of jfa; did you mean JFA_CACHE_DIR?", and values of
  /// JFA_VERBOSE that cannot be used.
  std::vector<std::string> complaints;
};

EnvironmentReport environment_report();

/// The same as lines of `jfa doctor`; never none.
std::vector<std::string> environment_lines();

}  // namespace jfa::tools
