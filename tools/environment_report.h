// What the environment says to jfa, and what in it nobody will read.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace jfa::tools {

struct EnvironmentReport {
  std::vector<std::pair<std::string, std::string>> set;  // variables that are read, with their values
  /// "JFA_CACHEDIR is not a variable of jfa; did you mean JFA_CACHE_DIR?"
  std::vector<std::string> unknown;
  /// Values that refuse every call: "JFA_CHECK_OFFSETS is '2', neither 0 nor 1". Those of the cache's
  /// variables are its own to name.
  std::vector<std::string> unusable;
};

EnvironmentReport environment_report();

}  // namespace jfa::tools
