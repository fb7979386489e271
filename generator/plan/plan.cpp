#include "generator/plan.h"

#include <fmt/format.h>

#include <algorithm>

#include "generator/plan/family.h"

namespace jfa {
namespace {

void add_up(EntryPlan& entry) {
  entry.threads = 0;
  for (const WarpRole& role : entry.roles) entry.threads += role.warps * kWarpThreads;
  if (!entry.shared_map.empty()) entry.shared_bytes = kTileAlignmentBytes + end_of(entry.shared_map);
}

}  // namespace

Result<KernelPlan> plan(const KernelSpec& spec, const Tuning& tuning) {
  const TargetFamily& family = *row_of(spec.target).family;
  Result<Choices> choices = Choices::make(family.knobs, spec, tuning);
  if (!choices) return choices.status();
  KernelPlan plan = (spec.pass == Pass::forward ? family.forward : family.backward)(family, spec, *choices);
  for_each_entry(plan, add_up);
  plan.knobs = choices->chosen();
  plan.tuning = choices->unusual();
  if (Status status = check_fit(plan); !status.ok()) return status;
  return plan;
}

std::vector<const EntryPlan*> entries_of(const KernelPlan& plan) {
  std::vector<const EntryPlan*> entries;
  for_each_entry(plan, [&](const EntryPlan& entry) { entries.push_back(&entry); });
  return entries;
}

std::string name(const KernelPlan& plan) {
  const std::string tuning = to_string(plan.tuning);
  return tuning.empty() ? name(plan.spec) : fmt::format("{}-{}", name(plan.spec), tuning);
}

int tensor_core_cycles(const EntryPlan& entry, Target target) {
  const TargetFamily& family = *row_of(target).family;
  int flops = 0;
  for (const TileProduct& product : entry.tile_products)
    flops += 2 * std::max(product.m, family.least_product_rows) * product.n * product.k;
  return flops / family.flops_per_cycle;
}

}  // namespace jfa
