// Which entries a backward call takes: what the host knows of it decides, and of its sequences the number of
// their keys, which the prepare entry sees.
#pragma once

#include <cstdint>

#include "generator/plan.h"

namespace jfa {

/// Who computes the gradients: of a shared query one entry, if its rows are few enough.
enum class BackwardPath {
  kByLength,  // prepare, and then as their keys are many: short_keys, two_cta, keys and queries
  kOneCta,    // BackwardPlan::broadcast
  kTwoCta,    // BackwardPlan::two_cta
};

/// Of a backward's plan. query_rows: of the query tensor. has_clusters: the device can place two_cta's
/// clusters; if not, it is as if the plan had none. kUnsupported if two_cta is on for a shared query whose
/// rows are too many.
Result<BackwardPath> backward_path(const KernelPlan& plan, std::int64_t query_rows, bool has_clusters);

/// Sequences of so many keys, if they have queries, take two_cta on the path by length.
struct KeyRange {
  int least = 1;
  int most = 0;

  bool empty() const { return most < least; }
};
KeyRange two_cta_keys(const KernelPlan& plan, bool has_clusters);

/// Rows of a box of two_cta's tensor maps of the query's side: no box has rows of two heads' slots.
int two_cta_box_rows(const KernelSpec& spec, std::int64_t query_rows);

}  // namespace jfa
