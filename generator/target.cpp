#include "generator/target.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/foreign_text.h"
#include "generator/plan/family.h"

namespace jfa {

// Of the plan files, one each.
const TargetFamily& sm90_family();   // compute capability 9.0
const TargetFamily& sm100_family();  // 10.0 and 10.3

const std::vector<TargetRow>& target_table() {
  static const std::vector<TargetRow> table{
      {Target::sm_100f, Target::compute_100f, "sm_100f", &sm100_family(), {{10, 0}, {10, 3}}, {12, 9}},
      {Target::sm_100a, Target::compute_100a, "sm_100a", &sm100_family(), {}, {12, 8}},
      {Target::sm_103a, Target::compute_103a, "sm_103a", &sm100_family(), {}, {12, 9}},
      {Target::sm_90a, Target::compute_90a, "sm_90a", &sm90_family(), {{9, 0}}, {12, 0}},
      {Target::compute_100f, Target::compute_100f, "compute_100f", &sm100_family(), {}, {12, 9}},
      {Target::compute_100a, Target::compute_100a, "compute_100a", &sm100_family(), {}, {12, 8}},
      {Target::compute_103a, Target::compute_103a, "compute_103a", &sm100_family(), {}, {12, 9}},
      {Target::compute_90a, Target::compute_90a, "compute_90a", &sm90_family(), {}, {12, 0}},
  };
  return table;
}

const TargetRow& row_of(Target target) {
  return *std::ranges::find(target_table(), target, &TargetRow::target);
}

const TargetRow* find_target(std::string_view name) {
  const auto row = std::ranges::find(target_table(), name, &TargetRow::name);
  return row == target_table().end() ? nullptr : &*row;
}

std::string_view to_string(Target target) { return row_of(target).name; }

std::vector<Target> all_targets() {
  std::vector<Target> targets;
  for (const TargetRow& row : target_table()) targets.push_back(row.target);
  return targets;
}

Result<Target> parse_target(std::string_view name) {
  if (const TargetRow* row = find_target(name)) return row->target;
  std::string known;
  for (const TargetRow& row : target_table())
    known += fmt::format("{}{}", known.empty() ? "" : ", ", row.name);
  return Status::invalid_argument(fmt::format("target '{}' is not one of {}", shown(name), known));
}

bool is_virtual(Target target) { return virtual_target(target) == target; }

Target virtual_target(Target target) { return row_of(target).virtual_target; }

Result<Target> target_for_device(int major, int minor) {
  std::vector<std::pair<int, int>> known;
  for (const TargetRow& row : target_table()) {
    for (const auto& device : row.devices) {
      if (device == std::pair(major, minor)) return row.target;
      known.push_back(device);
    }
  }
  std::ranges::sort(known);
  std::string list;
  for (std::size_t i = 0; i < known.size(); ++i)
    list += fmt::format("{}{}.{}",
                        i == 0                  ? ""
                        : i + 1 == known.size() ? " and "
                                                : ", ",
                        known[i].first, known[i].second);
  return Status::unsupported(
      fmt::format("compute capability {}.{} is not supported; kernels exist for {}", major, minor, list));
}

}  // namespace jfa
