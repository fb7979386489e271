// Runs a forward and its backward on host tensors, in the surroundings of attention_harness.h: NaN bits
// around every input, in every gradient and in the workspace.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "jfa/attention.h"
#include "reference/compare_backward.h"
#include "tests/attention/harness.h"

namespace jfa::test {

using reference::HostGradients;
using reference::OutputGradients;

/// Of an output gradient, in elements.
struct GradientStrides {
  std::int64_t row = 0;
  std::int64_t head = 0;
  std::int64_t dim = 1;
};

struct BackwardProblem {
  Problem attention;
  OutputGradients incoming;
};

/// Normal deviates, or the same value everywhere, in the rows that the output has.
BackwardProblem with_random_gradient(Problem attention, std::uint64_t seed, bool lse_gradient = false);
BackwardProblem with_constant_gradient(Problem attention, float value);

struct BackwardRunOptions {
  RunOptions forward;  // strides of query, key, value and output; widths of offsets
  std::optional<GradientStrides> output_grad = std::nullopt;  // packed unless given
  std::uint64_t shift_output_grad_bytes = 0;                  // moves its base address off its alignment
  std::optional<Strides> query_grad = std::nullopt;
  std::optional<Strides> key_grad = std::nullopt;
  std::optional<Strides> value_grad = std::nullopt;
  bool own_workspace = true;           // false: from the library's pool
  std::uint8_t workspace_byte = 0xff;  // what the workspace is full of
  // What becomes of output and LSE [heads, rows] before the backward reads them: nothing unless given.
  std::function<void(HostTensor& output, float* lse)> change_forward = nullptr;
};

struct BackwardResult {
  Status status;            // of forward(), backward() and status(), the first that is not ok
  HostGradients gradients;  // NaN where nothing was written
  HostTensor output;
  /// In words; empty if all is well.
  std::vector<std::string> violations;
  bool wrote = false;  // anything at all in a gradient
};

BackwardResult run_backward(Device& device, const BackwardProblem& problem,
                            const BackwardRunOptions& options = {});

/// Runs it and checks status, surroundings and tolerance with doctest.
BackwardResult check_backward(Device& device, const BackwardProblem& problem,
                              const BackwardRunOptions& options = {});

/// Where the gradients of two runs differ in their bits, in words; empty if nowhere.
std::string first_difference(const HostGradients& a, const HostGradients& b);

}  // namespace jfa::test
