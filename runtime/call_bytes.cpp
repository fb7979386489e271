#include "runtime/call_bytes.h"

#include "runtime/footprint.h"

namespace jfa {
namespace {

// Elements along a dimension that lie at places of their own.
std::uint64_t distinct(std::int64_t extent, std::int64_t stride) {
  return static_cast<std::uint64_t>(stride == 0 && extent > 1 ? 1 : extent);
}

std::uint64_t bytes_of(const Tensor& tensor) {
  return distinct(tensor.rows, tensor.row_stride) * distinct(tensor.heads, tensor.head_stride) *
         static_cast<std::uint64_t>(tensor.head_dim * kElementBytes);
}

std::uint64_t bytes_of(const OutputGradient& gradient) {
  return distinct(gradient.rows, gradient.row_stride) * distinct(gradient.heads, gradient.head_stride) *
         distinct(gradient.head_dim, gradient.dim_stride) * static_cast<std::uint64_t>(kElementBytes);
}

std::uint64_t bytes_of(const Offsets& offsets) {
  return static_cast<std::uint64_t>(offsets.count) * (offsets.type == OffsetType::int64 ? 8 : 4);
}

// An fp32 for every row of every head.
std::uint64_t lse_bytes(const Tensor& output) {
  return static_cast<std::uint64_t>(output.rows * output.heads) * sizeof(float);
}

std::uint64_t input_bytes(const ValidCall& valid, const AttentionCall& call) {
  return bytes_of(valid.query) + bytes_of(valid.key) + bytes_of(valid.value) + bytes_of(call.key_offset) +
         (call.broadcast_q ? 0 : bytes_of(call.query_offset)) +
         (call.output_offset ? bytes_of(*call.output_offset) : 0);
}

}  // namespace

std::uint64_t forward_bytes(const ValidCall& valid, const AttentionCall& call, const Tensor& output,
                            std::uint64_t lse) {
  return input_bytes(valid, call) + bytes_of(output) + (lse != 0 ? lse_bytes(output) : 0);
}

std::uint64_t backward_bytes(const ValidCall& valid, const AttentionCall& call, const ValidBackward& tensors,
                             std::uint64_t lse_grad) {
  return input_bytes(valid, call) + bytes_of(tensors.output) + lse_bytes(tensors.output) +
         (lse_grad != 0 ? lse_bytes(tensors.output) : 0) + bytes_of(tensors.output_grad) +
         bytes_of(tensors.query_grad) + bytes_of(tensors.key_grad) + bytes_of(tensors.value_grad);
}

}  // namespace jfa
