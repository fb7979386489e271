#include "tools/environment_report.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <cstdlib>
#include <string_view>

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
      report.complaints.push_back(std::move(complaint));
  }
  if (const Status status = read_log_environment(); !status.ok())
    report.complaints.push_back(status.message());
  return report;
}

std::vector<std::string> environment_lines() {
  const EnvironmentReport report = environment_report();
  std::vector<std::string> lines;
  for (const auto& [name, value] : report.set) lines.push_back(fmt::format("{}={}", name, value));
  if (lines.empty()) {
    std::vector<std::string_view> names;
    for (const Variable& variable : variables()) names.push_back(variable.name);
    lines.push_back(fmt::format("none of {} is set", fmt::join(names, ", ")));
  }
  lines.insert(lines.end(), report.complaints.begin(), report.complaints.end());
  return lines;
}

}  // namespace jfa::tools
