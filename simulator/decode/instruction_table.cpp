#include "simulator/decode/instruction_table.h"

#include <algorithm>
#include <stdexcept>

#include "simulator/ptx/modifier_order.h"

namespace jfa::simulator {
namespace {

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  while (true) {
    const std::size_t at = text.find(separator);
    parts.push_back(text.substr(0, at));
    if (at == std::string_view::npos) return parts;
    text.remove_prefix(at + 1);
  }
}

// Modifiers against groups from the left; optional groups try to match first.
bool match(const std::vector<std::string_view>& modifiers, std::size_t m,
           const std::vector<std::vector<std::string>>& groups, std::size_t g,
           std::vector<std::string_view>& matched) {
  if (g == groups.size()) return m == modifiers.size();
  bool optional = false;
  for (const std::string& choice : groups[g]) {
    if (choice.empty()) {
      optional = true;
    } else if (m < modifiers.size() && modifiers[m] == choice) {
      matched[g] = choice;
      if (match(modifiers, m + 1, groups, g + 1, matched)) return true;
    }
  }
  matched[g] = {};
  return optional && match(modifiers, m, groups, g + 1, matched);
}

}  // namespace

const InstructionTable& InstructionTable::instance() {
  static const InstructionTable table = [] {
    InstructionTable t;
    for (const auto family :
         {register_move,        register_integer,       register_bits,    register_float,
          register_approximate, register_compare,       register_convert, register_memory,
          register_atomics,     register_control,       register_call,    register_warp,
          register_barrier,     register_mbarrier,      register_bulk,    register_fence,
          register_tensormap,   register_tcgen05,       register_wgmma,   register_warp_matrix,
          register_mma_sync,    register_cluster_launch})
      family(t);
    return t;
  }();
  return table;
}

void InstructionTable::add(std::string_view pattern, DecodeFunction decode, RowFacts facts) {
  Row row;
  row.pattern = std::string(pattern);
  row.decode = std::move(decode);
  row.facts = std::move(facts);
  if (row.facts.needs.empty() && need_ != TargetNeed::kNothing) row.facts.needs = {{need_}};
  std::string compact;
  for (const char c : pattern)
    if (c != ' ' && c != '\n') compact += c;
  const std::size_t first_dot = compact.find('.');
  row.opcode = compact.substr(0, first_dot);
  std::size_t i = first_dot;
  while (i < compact.size()) {
    ++i;  // the dot
    std::vector<std::string> choices;
    if (compact[i] == '(') {
      const std::size_t end = compact.find(')', i);
      for (const std::string_view c : split(std::string_view(compact).substr(i + 1, end - i - 1), '|'))
        choices.emplace_back(c);
      i = end + 1;
    } else {
      const std::size_t end = std::min(compact.find_first_of(".?", i), compact.size());
      choices.push_back(compact.substr(i, end - i));
      i = end;
    }
    if (i < compact.size() && compact[i] == '?') {
      choices.emplace_back();
      ++i;
    }
    row.groups.push_back(std::move(choices));
  }
  rows_of_opcode_[row.opcode].push_back(rows_.size());
  rows_.push_back(std::move(row));
}

void InstructionTable::add_hint(std::string_view pattern) {
  add(pattern, [](Decoder&) {});
  rows_.back().hint = true;
}

InstructionTable::Found InstructionTable::find(std::string_view opcode) const {
  std::vector<std::string_view> parts = split(opcode, '.');
  const auto rows = rows_of_opcode_.find(parts[0]);
  if (rows == rows_of_opcode_.end()) return {};
  const std::string_view name = parts[0];
  parts.erase(parts.begin());
  Found found;
  for (const std::size_t index : rows->second) {
    found.row = &rows_[index];
    found.modifiers.assign(found.row->groups.size(), {});
    if (match(parts, 0, found.row->groups, 0, found.modifiers)) return found;
  }
  // No row has this order. Another one of the same modifiers may mean one thing only.
  const WrittenModifiers written(name, std::move(parts));
  found.row = nullptr;
  if (!written.begin_with_name()) return {};
  for (const std::size_t index : rows->second) {
    std::vector<std::string_view> matched;
    const int ways = written.ways(rows_[index].groups, matched);
    if (ways == 0) continue;
    if (ways > 1 || found.row != nullptr) return {};
    found = {&rows_[index], std::move(matched)};
  }
  return found;
}

std::string_view InstructionTable::Found::missing(const Target& target) const {
  if (row == nullptr) return {};
  for (const Requirement& r : row->facts.needs)
    if (r.modifier.empty() || std::any_of(modifiers.begin(), modifiers.end(), [&](std::string_view modifier) {
          return modifier.starts_with(r.modifier);
        }))
      return has(target, r.target) ? std::string_view() : name_of(r.target);
  return {};
}

const Synchronisation* InstructionTable::Found::synchronisation() const {
  if (row == nullptr) return nullptr;
  for (const Synchronisation& s : row->facts.synchronises)
    if (s.modifier.empty() || std::find(modifiers.begin(), modifiers.end(), s.modifier) != modifiers.end())
      return &s;
  return nullptr;
}

std::string InstructionTable::Found::spelling() const {
  std::string text = row->opcode;
  for (const std::string_view modifier : modifiers)
    if (!modifier.empty()) (text += '.') += modifier;
  return text;
}

}  // namespace jfa::simulator
