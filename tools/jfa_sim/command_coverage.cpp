// jfa-sim coverage: what the simulator executes, what it does not, and what a PTX file would need.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/input_file.h"
#include "simulator/decode/instruction_table.h"
#include "simulator/ptx/ptx.h"
#include "tools/jfa_sim/command.h"
#include "tools/jfa_sim/ptx_catalogue.h"

namespace jfa::sim {
namespace {

using Json = nlohmann::ordered_json;
using simulator::InstructionTable;

constexpr std::string_view kCoverageCommand = "coverage";

std::vector<std::string> split(std::string_view text, char separator) {
  std::vector<std::string> parts;
  while (true) {
    const std::size_t at = text.find(separator);
    parts.emplace_back(text.substr(0, at));
    if (at == std::string_view::npos) return parts;
    text.remove_prefix(at + 1);
  }
}

// Whether a row takes the instruction's modifiers, in that order, perhaps among others.
bool takes(const InstructionTable::Row& row, const std::vector<std::string>& words) {
  if (row.opcode != words[0]) return false;
  std::size_t word = 1;
  for (const auto& choices : row.groups)
    if (word < words.size() && std::find(choices.begin(), choices.end(), words[word]) != choices.end())
      ++word;
  return word == words.size();
}

bool known(const std::string& instruction) {
  const std::vector<std::string> words = split(instruction, '.');
  const auto& rows = InstructionTable::instance().rows();
  return std::any_of(rows.begin(), rows.end(), [&](const auto& row) { return takes(row, words); });
}

int list_table(bool json) {
  const auto& rows = InstructionTable::instance().rows();
  Json families = Json::object();
  std::size_t instructions = 0, missing_count = 0;
  for (const Family& family : ptx_families()) {
    Json missing = Json::object();  // by instruction: why
    for (const std::string& instruction : split(family.instructions, ' ')) {
      ++instructions;
      if (!known(instruction)) missing[instruction] = why_not_supported(instruction);
    }
    missing_count += missing.size();
    families[std::string(family.name)] = missing;
  }
  if (json) {
    Json list = Json::array();
    for (const auto& row : rows) list.push_back({{"pattern", row.pattern}, {"hint", row.hint}});
    fmt::print("{}\n", Json{{"rows", list}, {"not_supported", families}}.dump(2));
    return kSuccess;
  }
  fmt::print("{} rows; (a|b) is a choice, ? makes a modifier optional, * marks what has no effect here\n",
             rows.size());
  for (const auto& row : rows) fmt::print("  {}{}\n", row.pattern, row.hint ? " *" : "");
  fmt::print("\nNot supported: {} of {} listed instructions\n", missing_count, instructions);
  for (const auto& [family, missing] : families.items()) {
    if (missing.empty()) continue;
    fmt::print("  {}:\n", family);
    std::vector<std::pair<std::string, std::vector<std::string>>> by_reason;  // in order of appearance
    for (const auto& instruction : missing.items()) {
      const auto reason = instruction.value().get<std::string>();
      const auto same = std::find_if(by_reason.begin(), by_reason.end(),
                                     [&](const auto& entry) { return entry.first == reason; });
      if (same == by_reason.end())
        by_reason.push_back({reason, {instruction.key()}});
      else
        same->second.push_back(instruction.key());
    }
    for (const auto& [why, list] : by_reason) fmt::print("    {}: {}\n", fmt::join(list, " "), why);
  }
  return kSuccess;
}

struct Unknown {
  int count = 0;
  int first_line = 0;
  std::string first_text;
};

int examine(const std::string& path, bool json) {
  const Result<std::string> ptx = tools::read_text(path);
  if (!ptx) return fail(kCoverageCommand, ptx.status());
  simulator::PtxModule module;
  try {
    module = simulator::parse_ptx(*ptx);
  } catch (const simulator::PtxError& error) {
    return fail(kCoverageCommand, Status::invalid_argument(
                                      fmt::format("{}: PTX line {}: {}", path, error.line, error.message)));
  }
  std::size_t statements = 0;
  std::map<std::string, Unknown> unknown;
  for (const auto& function : module.functions) {
    for (const auto& statement : function.statements) {
      if (statement.opcode.empty()) continue;
      ++statements;
      if (InstructionTable::instance().find(statement.opcode).row != nullptr) continue;
      Unknown& entry = unknown[statement.opcode];
      if (entry.count++ == 0) entry.first_line = statement.ptx_line, entry.first_text = statement.text;
    }
  }
  // An instruction may be known and yet be written with operands that are not.
  simulator::DeviceMemory memory;
  const Status loads = simulator::Module::load(*ptx, memory).status();
  if (json) {
    Json list = Json::array();
    for (const auto& [opcode, entry] : unknown)
      list.push_back({{"opcode", opcode},
                      {"count", entry.count},
                      {"ptx_line", entry.first_line},
                      {"text", entry.first_text}});
    Json result{
        {"target", module.target}, {"statements", statements}, {"unknown", list}, {"loads", loads.ok()}};
    if (!loads.ok()) result["error"] = loads.message();
    fmt::print("{}\n", result.dump(2, ' ', false, Json::error_handler_t::replace));
  } else {
    fmt::print("{}: {} statements for {}, {} opcodes unknown\n", path, statements, module.target,
               unknown.size());
    for (const auto& [opcode, entry] : unknown)
      fmt::print("  {}: {} times, first in line {}: {}\n", opcode, entry.count, entry.first_line,
                 entry.first_text);
    fmt::print("{}\n", loads.ok() ? "It loads." : "It does not load: " + loads.message());
  }
  return loads.ok() ? kSuccess : kBugFound;
}

}  // namespace

void add_coverage_command(CLI::App& app, int& exit_code) {
  auto path = std::make_shared<std::string>();
  auto json = std::make_shared<bool>(false);
  CLI::App* command = app.add_subcommand(std::string(kCoverageCommand),
                                         "Lists the instructions that are simulated, and those that are not. "
                                         "With a file: what of it is not known; "
                                         "exit status 1 if it does not load");
  command->add_option("FILE", *path, "a PTX file")->type_name("FILE");
  command->add_flag("--json", *json, "JSON on stdout");
  command->callback(
      [path, json, &exit_code] { exit_code = path->empty() ? list_table(*json) : examine(*path, *json); });
}

}  // namespace jfa::sim
