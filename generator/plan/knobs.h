// The knobs that all targets have. A plan file lists its target's own ones, and gets both in one list.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>

#include "generator/plan/family.h"

namespace jfa {

// What split_* and *_items reserve of a workspace is asked for before a device is known, so these can only be
// lowered, and least_part_tiles and long_key_tiles only be raised.
constexpr auto common_knobs(int least_key_value_stages, const BackwardLeast& least) {
  using enum Knob::Scope;
  constexpr int kFit = Knob::kByPlan;  // as many as fit
  return std::to_array<Knob>({
      {kForward, "query_stages", 1, 4, 1, 2, "query tiles in flight"},
      {kForward, "key_value_stages", least_key_value_stages, 8, 1, kFit, "key and value tiles in flight"},
      {kForward, "item_stages", 2, 4, 1, 2, "work items that a CTA draws ahead"},
      {kForward, "split_items", 0, 160, 1, 160, "launches of at most so many items cut long key ranges"},
      {kForward, "split_long_items", 0, 640, 1, 640, "the same where sequences are long on average"},
      {kForward, "long_key_tiles", 32, 1024, 1, 32, "key tiles from which on they are"},
      {kForward, "split_parts", 1, 256, 1, 256, "parts of a launch that is cut"},
      {kForward, "least_part_tiles", 4, 64, 1, 4, "key tiles of a part"},
      {kBackward, "streamed_stages", least.streamed, 8, 1, kFit,
       "pairs of streamed tiles in flight, of keys and queries"},
      {kBackward, "item_stages", 2, 4, 1, 2, "work items that a CTA draws ahead"},
      {kOwnQuery, "short_one_pass", 0, 1, 1, 1, "short sequences: 1 in one pass, 0 by the pair of entries"},
      {kOwnQuery, "short_stages", least.short_stages, 8, 1, kFit,
       "pairs of streamed tiles in flight, of short sequences"},
      {kSharedQuery, "broadcast_one_pass", 0, 1, 1, 1, "queries of one tile: 1 in one pass, 0 by the pair"},
      {kSharedQuery, "broadcast_stages", least.pairs, 8, 1, kFit, "pairs of key and value tiles in flight"},
      {kSharedQuery, "output_grad_rows", 128, 256, 128, kFit, "rows of output gradient in flight"},
      {kSharedQuery, "query_grad_items", 1, 512, 1, 512, "items of the query gradient, by the pair"},
      {kSharedQuery, "broadcast_items", 1, 320, 1, 320, "items of the query gradient, in one pass"},
  });
}

/// All knobs of a target: the common ones, for which it says how few stages its rings may have, then its own.
template <std::size_t kOwnCount>
constexpr auto all_knobs(int least_key_value_stages, const BackwardLeast& least,
                         const Knob (&own)[kOwnCount]) {
  constexpr std::size_t kCommonCount = common_knobs(0, {}).size();
  std::array<Knob, kCommonCount + kOwnCount> all{};
  std::ranges::copy(own, std::ranges::copy(common_knobs(least_key_value_stages, least), all.begin()).out);
  return all;
}

}  // namespace jfa
