#include "tools/environment_report.h"

#include <unistd.h>

#include <cstdlib>
#include <string_view>

#include "runtime/environment_switch.h"
#include "runtime/log.h"
#include "runtime/variables.h"

namespace jfa::tools {

EnvironmentReport environment_report() {
  EnvironmentReport report;
  for (const Variable& variable : variables()) {
    const std::string name(variable.name);
    if (const char* value = std::getenv(name.c_str())) report.set.emplace_back(name, value);
  }
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view assignment = *entry;
    const std::string_view name = assignment.substr(0, assignment.find('='));
    if (!looks_like_ours(name)) continue;
    if (std::string complaint = complaint_about(name); !complaint.empty())
      report.unknown.push_back(std::move(complaint));
  }
  const auto check = [&](const Status& status) {
    if (!status.ok()) report.unusable.push_back(status.message());
  };
  check(read_log_environment());
  for (const char* name : {"JFA_CHECK_OFFSETS", "JFA_LINE_INFO"}) check(environment_switch(name).status());
  return report;
}

}  // namespace jfa::tools
