// The gradients of jagged attention on the host, in the two ways of reference.h.
#pragma once

#include <vector>

#include "reference/reference.h"

namespace jfa::reference {

/// What flows back into an attention.
struct OutputGradients {
  HostTensor output;       ///< [output rows, Hq, D], values that the 16-bit type can represent
  std::vector<float> lse;  ///< [Hq, output rows]; empty: none
};

/// One gradient and how far its roundings may move it.
struct Gradient {
  std::vector<double> values;    ///< like the tensor it belongs to; 0 where nothing flows
  std::vector<double> rounding;  ///< solve_backward() only; as Solution::rounding
};

struct BackwardSolution {
  Gradient query;
  Gradient key;
  Gradient value;
};

/// In fp64 from end to end.
BackwardSolution solve_backward(const Problem& problem, const OutputGradients& incoming);

/// As an eager 16-bit framework differentiates it: every product accumulated in fp32 and rounded to 16 bits,
/// the softmax's gradient computed in fp32 and rounded; what several heads or sequences share is the fp32 sum
/// of such gradients, rounded.
BackwardSolution solve_backward_eager(const Problem& problem, const OutputGradients& incoming);

}  // namespace jfa::reference
