// The verdict on a kernel's result: the tolerance rule of the tests and of `jfa run --check`.
//
// Per sequence, the error against fp64 may be at most twice that of an eager 16-bit computation of the same
// sequence, both in its largest element and in relative L2, or within what rounding once to 16 bits explains
// (the floor for sequences that eager happens to get exactly). LSE: within 1e-3 or 4 fp32 ulp, whichever is
// larger. Rows without a key must be 0 and -inf exactly. NaN and infinities of an output that a value may
// have reached through a window (window_reach.h) are counted, not judged.
#pragma once

#include <string>
#include <vector>

#include "reference/reference.h"

namespace jfa::reference {

struct Comparison {
  double max_abs = 0;        ///< of the output, over all rows that a sequence owns
  double relative_l2 = 0;    ///< ||output - fp64|| / ||fp64||
  double eager_max_abs = 0;  ///< the same two of the eager 16-bit computation
  double eager_relative_l2 = 0;
  double lse_max_abs = 0;    ///< over rows with a key; 0 if there was no LSE to compare
  std::int64_t reached = 0;  ///< elements that were not judged, since they were reached through a window
  bool within_tolerance = true;
  std::string worst;  ///< the element furthest beyond its tolerance, in words; empty within tolerance
};

/// output: [rows, heads, head_dim] with at least the solution's rows. lse: [heads, output.rows], empty to
/// skip.
Comparison compare(const Problem& problem, const Solution& exact, const Solution& eager,
                   const HostTensor& output, const std::vector<float>& lse);

/// solve(), solve_eager() and compare() in one.
Comparison judge(const Problem& problem, const HostTensor& output, const std::vector<float>& lse);

/// What describe() adds about elements that were not judged.
std::string describe_reached(std::int64_t elements);

/// One or two lines for a person.
std::string describe(const Comparison& comparison);

}  // namespace jfa::reference
