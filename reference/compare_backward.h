// The verdict on a kernel's gradients, by the rule of compare.h: per sequence, twice the error of an eager
// 16-bit computation, or what the unavoidable roundings explain. A gradient to which nothing contributes, and
// every row that no sequence owns, must be 0 exactly.
#pragma once

#include <string>

#include "reference/reference_backward.h"
#include "reference/window_reach.h"

namespace jfa::reference {

/// Of one gradient, over all its rows.
struct GradientComparison {
  double max_abs = 0;
  double relative_l2 = 0;
  double eager_max_abs = 0;
  double eager_relative_l2 = 0;
  std::string worst;         ///< the element furthest beyond its tolerance, in words; empty within tolerance
  std::int64_t reached = 0;  ///< as Comparison::reached
};

struct BackwardComparison {
  GradientComparison query;
  GradientComparison key;
  GradientComparison value;

  bool within_tolerance() const { return query.worst.empty() && key.worst.empty() && value.worst.empty(); }
};

/// What backward() gave.
struct HostGradients {
  HostTensor query;
  HostTensor key;
  HostTensor value;
};

/// reach: elements that may be NaN or infinite; none unless given.
BackwardComparison compare(const Problem& problem, const BackwardSolution& exact,
                           const BackwardSolution& eager, const HostGradients& gradients,
                           const WindowReach& reach = {});

/// solve_backward(), solve_backward_eager() and compare() in one.
BackwardComparison judge(const Problem& problem, const OutputGradients& incoming,
                         const HostGradients& gradients);

/// A line for each gradient, for a person.
std::string describe(const BackwardComparison& comparison);

}  // namespace jfa::reference
