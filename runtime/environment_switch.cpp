#include "runtime/environment_switch.h"

#include <fmt/format.h>

#include <cstdlib>
#include <string_view>

#include "base/foreign_text.h"

namespace jfa {

Result<bool> environment_switch(const char* name) {
  const char* value = std::getenv(name);
  const std::string_view given = value ? value : "";
  if (given == "1") return true;
  if (given.empty() || given == "0") return false;
  return Status::invalid_argument(fmt::format("{} is '{}', neither 0 nor 1", name, shown(given)));
}

Result<bool> wants_line_info(bool given) {
  return given ? Result<bool>(true) : environment_switch("JFA_LINE_INFO");
}

}  // namespace jfa
