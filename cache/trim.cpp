#include "cache/trim.h"

#include <algorithm>
#include <numeric>

namespace jfa {

TrimPolicy trim_policy(std::uint64_t max_bytes) {
  TrimPolicy policy;
  policy.max_bytes = max_bytes;
  policy.target_bytes = max_bytes - max_bytes / 10;
  return policy;
}

std::vector<std::size_t> entries_to_evict(std::span<const TrimCandidate> candidates, const TrimPolicy& policy,
                                          std::int64_t now_s) {
  std::uint64_t total_bytes = 0;
  for (const TrimCandidate& candidate : candidates) total_bytes += candidate.bytes;
  std::uint64_t goal_bytes = total_bytes - std::min(total_bytes, policy.make_room_bytes);
  if (policy.max_bytes != 0 && total_bytes > policy.max_bytes) {
    goal_bytes = std::min(goal_bytes, policy.target_bytes);
  }
  if (total_bytes <= goal_bytes) return {};

  std::vector<std::size_t> order(candidates.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return candidates[a].last_use_s < candidates[b].last_use_s;
  });
  std::vector<std::size_t> evicted;
  for (const std::size_t index : order) {
    if (total_bytes <= goal_bytes) break;
    // Sorted by age: the ones after it are at least as young.
    if (candidates[index].last_use_s > now_s - policy.min_age_s) break;
    total_bytes -= candidates[index].bytes;
    evicted.push_back(index);
  }
  return evicted;
}

}  // namespace jfa
