#include "generator/backward_path.h"

#include <fmt/format.h>

#include <optional>

#include "generator/workspace.h"

namespace jfa {
namespace {

const TwoCtaPlan* usable_two_cta(const KernelPlan& plan, bool has_clusters) {
  const std::optional<TwoCtaPlan>& two_cta = plan.backward().two_cta;
  return has_clusters && two_cta ? &*two_cta : nullptr;
}

}  // namespace

Result<BackwardPath> backward_path(const KernelPlan& plan, std::int64_t query_rows, bool has_clusters) {
  if (!plan.spec.broadcast_q) return BackwardPath::kByLength;
  const BackwardPlan& backward = plan.backward();
  const TwoCtaPlan* two_cta = usable_two_cta(plan, has_clusters);
  const std::int64_t slot = slot_rows(query_rows);
  const std::int64_t packed = plan.spec.groups * slot;
  const bool two_cta_fits = two_cta != nullptr && packed <= two_cta->query_rows;
  if (two_cta != nullptr && two_cta->on) {
    if (two_cta_fits) return BackwardPath::kTwoCta;
    return Status::unsupported(
        fmt::format("two_cta = 2 (on), but groups {} x q_len {} rounded up to {} are {} rows, more than {}",
                    plan.spec.groups, query_rows, slot, packed, two_cta->query_rows));
  }
  if (backward.broadcast && packed <= backward.broadcast->query_tile) return BackwardPath::kOneCta;
  return two_cta_fits && packed > plan.query_tile ? BackwardPath::kTwoCta : BackwardPath::kByLength;
}

KeyRange two_cta_keys(const KernelPlan& plan, bool has_clusters) {
  const TwoCtaPlan* two_cta = usable_two_cta(plan, has_clusters);
  if (two_cta == nullptr || plan.spec.broadcast_q) return {};
  return {two_cta->on ? 1 : plan.key_tile + 1, two_cta->key_rows};
}

int two_cta_box_rows(const KernelSpec& spec, std::int64_t query_rows) {
  constexpr int kMostRows = 32;
  int rows = kMostRows;
  if (!spec.broadcast_q || spec.groups == 1) return rows;
  while (slot_rows(query_rows) % rows != 0) rows /= 2;  // a slot is whole core matrices of 8 rows
  return rows;
}

}  // namespace jfa
