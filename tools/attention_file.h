// One attention as a safetensors file: query, key and value [rows, heads, head_dim] in BF16 or F16,
// query_offset, key_offset and optionally output_offset [batch + 1] in I32 or I64. For a backward also
// output_grad [output rows, heads, head_dim], and optionally lse_grad [heads, output rows] in F32.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "formats/safetensors.h"
#include "jfa/attention.h"
#include "reference/reference.h"
#include "reference/reference_backward.h"

namespace jfa::tools {

struct AttentionFile {
  safetensors::File file;  // owns the bytes that the views point into
  DType dtype = DType::bf16;
  const safetensors::TensorView* query = nullptr;
  const safetensors::TensorView* key = nullptr;
  const safetensors::TensorView* value = nullptr;
  const safetensors::TensorView* query_offset = nullptr;  // null with broadcast_q
  const safetensors::TensorView* key_offset = nullptr;
  const safetensors::TensorView* output_offset = nullptr;  // null if the file has none
  const safetensors::TensorView* output_grad = nullptr;    // null unless asked for
  const safetensors::TensorView* lse_grad = nullptr;       // null if the file has none
};

/// Checks that the tensors are there and of the right dtype and rank; what their sizes must be to each other,
/// the library checks. Errors: one line naming the file, the tensor and what it is instead.
Result<AttentionFile> read_attention_file(const std::string& path, bool broadcast_q, bool backward = false);

/// Offsets of either width.
std::vector<std::int64_t> offsets_of(const safetensors::TensorView& tensor);
OffsetType offset_type(const safetensors::TensorView& tensor);

/// The tensors and offsets for the reference; window, broadcast_q and scale are left to the caller.
reference::Problem to_problem(const AttentionFile& file);

/// What flows back into the attention; the file has an output_grad.
reference::OutputGradients to_output_gradients(const AttentionFile& file);

/// Bits of the 16-bit type as fp32.
reference::HostTensor to_host_tensor(const safetensors::TensorView& tensor, DType dtype);

}  // namespace jfa::tools
