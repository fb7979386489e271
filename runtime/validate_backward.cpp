#include "runtime/validate_backward.h"

#include <fmt/format.h>

#include "generator/dtype.h"

namespace jfa {
namespace {

// Every term of a byte address fits 64 bits with room for their sum.
constexpr std::int64_t kStrideLimit = std::int64_t{1} << 57;

// A gradient lies apart from itself and has the shape of what it is the gradient of.
Result<Tensor> validate_gradient(std::string_view name, std::string_view of, const Tensor& gradient,
                                 const Tensor& tensor) {
  const Result<Tensor> normal = normalize(name, gradient);
  if (!normal) return normal;
  if (gradient.rows != tensor.rows)
    return Status::invalid_argument(
        fmt::format("{}.rows {} differs from {}.rows {}", name, gradient.rows, of, tensor.rows));
  if (gradient.heads != tensor.heads)
    return Status::invalid_argument(
        fmt::format("{}.heads {} differs from {}.heads {}", name, gradient.heads, of, tensor.heads));
  if (Status status = check_same_kind(name, *normal, tensor); !status.ok()) return status;
  if (Status status = check_no_overlap(name, *normal); !status.ok()) return status;
  return normal;
}

// The farthest element, in elements from the first; strides may be negative.
Status check_span(const OutputGradient& gradient) {
  __int128 span = 0;
  const struct {
    std::string_view name;
    std::int64_t extent, stride;
  } dimensions[] = {{"row", gradient.rows, gradient.row_stride},
                    {"head", gradient.heads, gradient.head_stride},
                    {"dim", gradient.head_dim, gradient.dim_stride}};
  for (const auto& [name, extent, stride] : dimensions) {
    const __int128 reach = __int128{extent - 1} * (stride < 0 ? -__int128{stride} : __int128{stride});
    span += reach;
    if (reach >= kStrideLimit || span >= kStrideLimit)
      return Status::invalid_argument(fmt::format(
          "output_grad.{}_stride {} at an extent of {} reaches 2^57 elements", name, stride, extent));
  }
  return {};
}

}  // namespace

Result<OutputGradient> validate_output_grad(const ValidCall& valid, bool has_output_offset,
                                            const OutputGradient& output_grad) {
  OutputGradient normal = output_grad;
  // Shape and type as of a tensor; the strides have rules of their own.
  const Tensor shape{0, output_grad.rows, output_grad.heads, output_grad.head_dim, 0, 0, output_grad.dtype};
  if (Status status = check_extents("output_grad", shape); !status.ok()) return status;
  if (Status status = check_output_shape("output_grad", valid, has_output_offset, shape); !status.ok())
    return status;
  if (normal.head_dim == 1) normal.dim_stride = 1;
  if (normal.heads <= 1) normal.head_stride = normal.head_dim;
  if (normal.rows <= 1) normal.row_stride = normal.heads * normal.head_dim;
  if (normal.rows == 0 || normal.heads == 0) return normal;
  if (normal.address == 0)
    return Status::invalid_argument(fmt::format(
        "output_grad.address is null although it has {} rows of {} heads", normal.rows, normal.heads));
  if (normal.address % kElementBytes != 0)
    return Status::invalid_argument(fmt::format("output_grad.address {:#x} is not a multiple of {} bytes",
                                                normal.address, kElementBytes));
  if (Status status = check_span(normal); !status.ok()) return status;
  return normal;
}

Result<ValidBackward> validate_backward(const ValidCall& valid, const AttentionCall& call,
                                        const BackwardTensors& tensors) {
  const bool has_output_offset = call.output_offset.has_value();
  ValidBackward result;
  const Result<Tensor> output = normalize("output", tensors.output);
  if (!output) return output.status();
  if (Status status = check_output_shape("output", valid, has_output_offset, *output); !status.ok())
    return status;
  const Result<OutputGradient> output_grad =
      validate_output_grad(valid, has_output_offset, tensors.output_grad);
  if (!output_grad) return output_grad.status();
  if (output_grad->rows != output->rows)
    return Status::invalid_argument(
        fmt::format("output_grad.rows {} differs from output.rows {}", output_grad->rows, output->rows));
  if (tensors.lse == 0 && output->rows > 0 && output->heads > 0)
    return Status::invalid_argument(
        fmt::format("lse is null although the output has {} rows of {} heads", output->rows, output->heads));
  for (const auto& [name, address] : {std::pair{"lse", tensors.lse}, {"lse_grad", tensors.lse_grad}}) {
    if (Status status = check_float_address(name, address); !status.ok()) return status;
  }
  const struct {
    std::string_view name, of;
    const Tensor& given;
    const Tensor& tensor;
    Tensor& result;
  } gradients[] = {{"query_grad", "query", tensors.query_grad, valid.query, result.query_grad},
                   {"key_grad", "key", tensors.key_grad, valid.key, result.key_grad},
                   {"value_grad", "value", tensors.value_grad, valid.value, result.value_grad}};
  for (const auto& gradient : gradients) {
    const Result<Tensor> checked =
        validate_gradient(gradient.name, gradient.of, gradient.given, gradient.tensor);
    if (!checked) return checked.status();
    gradient.result = *checked;
  }
  result.output = *output;
  result.output_grad = *output_grad;
  const GradientOperands written = gradient_operands(result);
  if (Status status = check_apart(written, saved_operands(result, tensors.lse, tensors.lse_grad));
      !status.ok())
    return status;
  if (Status status = check_apart(written, input_operands(valid, call)); !status.ok()) return status;
  return result;
}

GradientOperands gradient_operands(const ValidBackward& tensors) {
  return {operand("query_grad.address", tensors.query_grad), operand("key_grad.address", tensors.key_grad),
          operand("value_grad.address", tensors.value_grad)};
}

SavedOperands saved_operands(const ValidBackward& tensors, std::uint64_t lse, std::uint64_t lse_grad) {
  const OutputGradient& output_grad = tensors.output_grad;
  return {operand("output.address", tensors.output),
          Operand{"output_grad.address", output_grad.address, Footprint::of(output_grad)},
          float_operand("lse", lse, tensors.output), float_operand("lse_grad", lse_grad, tensors.output)};
}

bool needs_packing(const OutputGradient& output_grad) {
  if (output_grad.rows == 0 || output_grad.heads == 0) return false;
  return output_grad.dim_stride != 1 ||
         !fits_tensor_map(output_grad.address, output_grad.row_stride, output_grad.head_stride);
}

Tensor as_tensor(const OutputGradient& output_grad, std::uint64_t packed_address) {
  if (packed_address != 0)
    return Tensor::packed(packed_address, output_grad.rows, output_grad.heads, output_grad.head_dim,
                          output_grad.dtype);
  return {output_grad.address,    output_grad.rows,        output_grad.heads, output_grad.head_dim,
          output_grad.row_stride, output_grad.head_stride, output_grad.dtype};
}

}  // namespace jfa
