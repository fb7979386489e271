#include "tools/attention_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "reference/float16.h"

namespace jfa::tools {
namespace {

using safetensors::TensorView;

class Finder {
 public:
  Finder(const std::string& path, const safetensors::TensorMap& tensors) : path_(path), tensors_(tensors) {}

  Status find_values(const char* name, const TensorView*& result) const {
    if (Status status = find(name, result); !status.ok()) return status;
    if (result->dtype != "BF16" && result->dtype != "F16") return wrong(name, *result, "not BF16 or F16");
    if (result->shape.size() != 3) return wrong(name, *result, "not [rows, heads, head_dim]");
    return {};
  }

  Status find_offsets(const char* name, const TensorView*& result) const {
    if (Status status = find(name, result); !status.ok()) return status;
    if (result->dtype != "I32" && result->dtype != "I64") return wrong(name, *result, "not I32 or I64");
    if (result->shape.size() != 1 || result->shape[0] < 1) return wrong(name, *result, "not [batch + 1]");
    return {};
  }

  Status find_floats(const char* name, const TensorView*& result) const {
    if (Status status = find(name, result); !status.ok()) return status;
    if (result->dtype != "F32") return wrong(name, *result, "not F32");
    if (result->shape.size() != 2) return wrong(name, *result, "not [heads, output rows]");
    return {};
  }

  bool has(std::string_view name) const { return tensors_.find(name) != tensors_.end(); }

  Status wrong(const char* name, const TensorView& tensor, std::string_view what) const {
    return Status::invalid_argument(
        fmt::format("{}: tensor '{}' is {}, {}", path_, name, safetensors::describe(tensor), what));
  }

 private:
  Status find(const char* name, const TensorView*& result) const {
    const auto found = tensors_.find(std::string_view(name));
    if (found == tensors_.end()) {
      return Status::invalid_argument(fmt::format("{}: has no tensor '{}'", path_, name));
    }
    result = &found->second;
    return {};
  }

  const std::string& path_;
  const safetensors::TensorMap& tensors_;
};

}  // namespace

Result<AttentionFile> read_attention_file(const std::string& path, bool broadcast_q, bool backward) {
  Result<safetensors::File> read = safetensors::read(path);
  if (!read) return read.status();
  AttentionFile result;
  result.file = std::move(*read);
  const Finder finder(path, result.file.contents.tensors);

  Status status = finder.find_values("query", result.query);
  if (status.ok()) status = finder.find_values("key", result.key);
  if (status.ok()) status = finder.find_values("value", result.value);
  if (status.ok() && !broadcast_q) status = finder.find_offsets("query_offset", result.query_offset);
  if (status.ok()) status = finder.find_offsets("key_offset", result.key_offset);
  if (status.ok() && finder.has("output_offset")) {
    status = finder.find_offsets("output_offset", result.output_offset);
  }
  if (status.ok() && backward && !finder.has("output_grad"))
    status = Status::invalid_argument(
        fmt::format("{}: has no tensor 'output_grad', which a backward needs", path));
  if (status.ok() && backward) status = finder.find_values("output_grad", result.output_grad);
  if (status.ok() && backward && finder.has("lse_grad"))
    status = finder.find_floats("lse_grad", result.lse_grad);
  if (!status.ok()) return status;
  result.dtype = result.query->dtype == "BF16" ? DType::bf16 : DType::fp16;
  const std::string differs = fmt::format("but the query is {}", safetensors::describe(*result.query));
  if (result.key->dtype != result.query->dtype) return finder.wrong("key", *result.key, differs);
  if (result.value->dtype != result.query->dtype) return finder.wrong("value", *result.value, differs);
  if (backward && result.output_grad->dtype != result.query->dtype)
    return finder.wrong("output_grad", *result.output_grad, differs);
  return result;
}

OffsetType offset_type(const TensorView& tensor) {
  return tensor.dtype == "I64" ? OffsetType::int64 : OffsetType::int32;
}

std::vector<std::int64_t> offsets_of(const TensorView& tensor) {
  std::vector<std::int64_t> offsets(static_cast<std::size_t>(tensor.element_count()));
  if (offset_type(tensor) == OffsetType::int64) {
    std::memcpy(offsets.data(), tensor.data.data(), tensor.data.size());
  } else {
    std::vector<std::int32_t> narrow(offsets.size());
    std::memcpy(narrow.data(), tensor.data.data(), tensor.data.size());
    std::copy(narrow.begin(), narrow.end(), offsets.begin());
  }
  return offsets;
}

reference::HostTensor to_host_tensor(const TensorView& tensor, DType dtype) {
  reference::HostTensor result(tensor.shape[0], tensor.shape[1], tensor.shape[2]);
  for (std::size_t i = 0; i < result.values.size(); ++i) {
    std::uint16_t bits = 0;
    std::memcpy(&bits, tensor.data.data() + i * sizeof bits, sizeof bits);
    result.values[i] = to_float(dtype, bits);
  }
  return result;
}

reference::Problem to_problem(const AttentionFile& file) {
  reference::Problem problem;
  problem.dtype = file.dtype;
  problem.query = to_host_tensor(*file.query, file.dtype);
  problem.key = to_host_tensor(*file.key, file.dtype);
  problem.value = to_host_tensor(*file.value, file.dtype);
  if (file.query_offset) problem.query_offset = offsets_of(*file.query_offset);
  problem.key_offset = offsets_of(*file.key_offset);
  if (file.output_offset) problem.output_offset = offsets_of(*file.output_offset);
  return problem;
}

reference::OutputGradients to_output_gradients(const AttentionFile& file) {
  reference::OutputGradients incoming;
  incoming.output = to_host_tensor(*file.output_grad, file.dtype);
  if (file.lse_grad) {
    incoming.lse.resize(static_cast<std::size_t>(file.lse_grad->element_count()));
    std::memcpy(incoming.lse.data(), file.lse_grad->data.data(), file.lse_grad->data.size());
  }
  return incoming;
}

}  // namespace jfa::tools
