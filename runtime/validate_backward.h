// The contract of backward(), beyond that of the call itself.
#pragma once

#include <array>
#include <cstdint>

#include "jfa/attention.h"
#include "runtime/validate.h"

namespace jfa {

/// The user's arguments of one backward().
struct BackwardTensors {
  const Tensor& output;
  std::uint64_t lse;
  const OutputGradient& output_grad;
  std::uint64_t lse_grad;  // 0: none
  const Tensor& query_grad;
  const Tensor& key_grad;
  const Tensor& value_grad;
};

/// The same, normalised.
struct ValidBackward {
  Tensor output;
  OutputGradient output_grad;
  Tensor query_grad;
  Tensor key_grad;
  Tensor value_grad;
};

/// Strides of dimensions of extent 1 or 0 are those of a packed tensor. `has_output_offset`: of the call,
/// which has passed validate().
Result<OutputGradient> validate_output_grad(const ValidCall& valid, bool has_output_offset,
                                            const OutputGradient& output_grad);

Result<ValidBackward> validate_backward(const ValidCall& valid, const AttentionCall& call,
                                        const BackwardTensors& tensors);

/// What a backward writes, and what it reads beside the call's inputs.
using GradientOperands = std::array<Operand, 3>;
using SavedOperands = std::array<Operand, 4>;
GradientOperands gradient_operands(const ValidBackward& tensors);
SavedOperands saved_operands(const ValidBackward& tensors, std::uint64_t lse, std::uint64_t lse_grad);

/// Whether the tensor memory accelerator does not take a normalised output gradient as it lies.
bool needs_packing(const OutputGradient& output_grad);

/// The tensor that an output gradient is: as it lies, or its packed copy at `packed_address` unless that is
/// 0.
Tensor as_tensor(const OutputGradient& output_grad, std::uint64_t packed_address);

}  // namespace jfa
