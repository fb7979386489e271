#include "runtime/validate.h"

#include <fmt/format.h>

#include <cmath>
#include <limits>
#include <numbers>
#include <string_view>

#include "generator/dtype.h"
#include "generator/spec.h"
#include "runtime/footprint.h"

namespace jfa {
namespace {

constexpr std::int64_t kAlignmentBytes = 16;
constexpr std::int64_t kStrideMultiple = kAlignmentBytes / kElementBytes;
constexpr std::int64_t kRowLimit = std::int64_t{1} << 30;
// Ragged tensor maps put 2^34 - row stride into a stride; every stride of a map is below 2^40.
constexpr std::int64_t kRowStrideLimitBytes = std::int64_t{1} << 34;
constexpr std::int64_t kHeadStrideLimitBytes = std::int64_t{1} << 40;
constexpr std::int64_t kHeadLimit = 1 << 20;
// Threads of a prepare entry count sequences in 32 bits, by steps of 1024.
constexpr std::int64_t kBatchLimit = std::numeric_limits<std::int32_t>::max() - 4095;
// Device addresses have 49 bits at most; a tensor that spans more is a mistake in its strides.
constexpr __int128 kSpanLimitBytes = __int128{1} << 57;
constexpr std::uint64_t kWorkspaceAlignmentBytes = 256;

template <class... Args>
Status invalid(fmt::format_string<Args...> format, Args&&... args) {
  return Status::invalid_argument(fmt::format(format, std::forward<Args>(args)...));
}

std::string_view to_string(DType dtype) { return row_of(dtype).name; }

bool stride_fits(std::int64_t stride, std::int64_t limit_bytes) {
  return stride >= 0 && stride % kStrideMultiple == 0 && stride < limit_bytes / kElementBytes;
}

// One stride; `name` is the tensor's.
Status check_stride(std::string_view name, std::string_view dimension, std::int64_t stride,
                    std::int64_t limit_bytes) {
  if (stride_fits(stride, limit_bytes)) return {};
  if (stride < 0) return invalid("{}.{}_stride {} is negative", name, dimension, stride);
  if (stride % kStrideMultiple != 0)
    return invalid("{}.{}_stride {} is not a multiple of {} elements (16 bytes)", name, dimension, stride,
                   kStrideMultiple);
  return invalid("{}.{}_stride {} is not below {} elements", name, dimension, stride,
                 limit_bytes / kElementBytes);
}

}  // namespace

Status check_extents(std::string_view name, const Tensor& tensor) {
  if (tensor.dtype != DType::bf16 && tensor.dtype != DType::fp16)
    return invalid("{}.dtype {} is neither bf16 nor fp16", name, static_cast<int>(tensor.dtype));
  if (tensor.rows < 0) return invalid("{}.rows {} is negative", name, tensor.rows);
  if (tensor.rows >= kRowLimit) return invalid("{}.rows {} is not below 2^30", name, tensor.rows);
  if (tensor.heads < 0) return invalid("{}.heads {} is negative", name, tensor.heads);
  if (tensor.heads > kHeadLimit) return invalid("{}.heads {} is above {}", name, tensor.heads, kHeadLimit);
  if (tensor.head_dim <= 0) return invalid("{}.head_dim {} is not positive", name, tensor.head_dim);
  return {};
}

Result<Tensor> normalize(std::string_view name, Tensor tensor) {
  if (Status status = check_extents(name, tensor); !status.ok()) return status;
  if (tensor.rows > 1) {
    if (Status status = check_stride(name, "row", tensor.row_stride, kRowStrideLimitBytes); !status.ok())
      return status;
  }
  if (tensor.heads > 1) {
    if (Status status = check_stride(name, "head", tensor.head_stride, kHeadStrideLimitBytes); !status.ok())
      return status;
  } else {
    tensor.head_stride = tensor.head_dim;
  }
  if (tensor.rows <= 1) tensor.row_stride = tensor.head_dim;

  if (tensor.rows == 0 || tensor.heads == 0) return tensor;
  if (tensor.address == 0)
    return invalid("{}.address is null although it has {} rows of {} heads", name, tensor.rows, tensor.heads);
  if (tensor.address % kAlignmentBytes != 0)
    return invalid("{}.address {:#x} is not a multiple of {} bytes", name, tensor.address, kAlignmentBytes);
  const __int128 span_bytes =
      kElementBytes * (__int128{tensor.rows - 1} * tensor.row_stride +
                       __int128{tensor.heads - 1} * tensor.head_stride + tensor.head_dim);
  if (__int128{tensor.address} + span_bytes > kSpanLimitBytes)
    return invalid(
        "{}: {} rows at stride {} and {} heads at stride {} from address {:#x} reach beyond 2^57 bytes", name,
        tensor.rows, tensor.row_stride, tensor.heads, tensor.head_stride, tensor.address);
  return tensor;
}

Status check_same_kind(std::string_view name, const Tensor& tensor, const Tensor& query) {
  if (tensor.dtype != query.dtype)
    return invalid("{}.dtype {} differs from query.dtype {}", name, to_string(tensor.dtype),
                   to_string(query.dtype));
  if (tensor.head_dim != query.head_dim)
    return invalid("{}.head_dim {} differs from query.head_dim {}", name, tensor.head_dim, query.head_dim);
  return {};
}

namespace {

Status check_offsets(std::string_view name, const Offsets& offsets) {
  if (offsets.type != OffsetType::int32 && offsets.type != OffsetType::int64)
    return invalid("{}.type {} is neither int32 nor int64", name, static_cast<int>(offsets.type));
  if (offsets.count < 1)
    return invalid("{}.count {} is below 1: a batch of n sequences has n + 1 offsets", name, offsets.count);
  if (offsets.count - 1 > kBatchLimit)
    return invalid("{}.count {} is above {}", name, offsets.count, kBatchLimit + 1);
  if (offsets.count == 1) return {};
  if (offsets.address == 0)
    return invalid("{}.address is null although its count is {}", name, offsets.count);
  const std::uint64_t width = offsets.type == OffsetType::int32 ? 4 : 8;
  if (offsets.address % width != 0)
    return invalid("{}.address {:#x} is not a multiple of {} bytes", name, offsets.address, width);
  return {};
}

Status check_same_count(std::string_view name, const Offsets& offsets, const Offsets& key_offset) {
  if (offsets.count == key_offset.count) return {};
  return invalid("{}.count {} differs from key_offset.count {}", name, offsets.count, key_offset.count);
}

Status check_heads(const ValidCall& call) {
  if (call.value.heads != call.key.heads)
    return invalid("value.heads {} differs from key.heads {}", call.value.heads, call.key.heads);
  if (call.value.rows != call.key.rows)
    return invalid("value.rows {} differs from key.rows {}", call.value.rows, call.key.rows);
  const std::int64_t query_heads = call.query.heads, key_heads = call.key.heads;
  if (key_heads == 0 ? query_heads != 0 : query_heads % key_heads != 0)
    return invalid("query.heads {} is not a multiple of key.heads {}", query_heads, key_heads);
  return {};
}

Status check_all_offsets(const AttentionCall& call) {
  if (Status status = check_offsets("key_offset", call.key_offset); !status.ok()) return status;
  if (!call.broadcast_q) {
    if (Status status = check_offsets("query_offset", call.query_offset); !status.ok()) return status;
    if (Status status = check_same_count("query_offset", call.query_offset, call.key_offset); !status.ok())
      return status;
  }
  if (!call.output_offset) return {};
  if (Status status = check_offsets("output_offset", *call.output_offset); !status.ok()) return status;
  return check_same_count("output_offset", *call.output_offset, call.key_offset);
}

Result<double> scale_of(const AttentionCall& call) {
  if (!call.scale) return 1.0 / std::sqrt(static_cast<double>(call.query.head_dim));
  // The kernel works with scale * log2(e) in fp32.
  if (!std::isfinite(*call.scale) ||
      std::abs(*call.scale) * std::numbers::log2e > std::numeric_limits<float>::max())
    return invalid("scale {} is not a finite fp32 number", *call.scale);
  return *call.scale;
}

}  // namespace

bool fits_tensor_map(std::uint64_t address, std::int64_t row_stride, std::int64_t head_stride) {
  return address % kAlignmentBytes == 0 && stride_fits(row_stride, kRowStrideLimitBytes) &&
         stride_fits(head_stride, kHeadStrideLimitBytes);
}

Result<ValidCall> validate(const AttentionCall& call) {
  ValidCall valid;
  struct Input {
    std::string_view name;
    const Tensor& given;
    Tensor& normal;
  };
  for (const Input& input : {Input{"query", call.query, valid.query}, Input{"key", call.key, valid.key},
                             Input{"value", call.value, valid.value}}) {
    const Result<Tensor> tensor = normalize(input.name, input.given);
    if (!tensor) return tensor.status();
    input.normal = *tensor;
    if (Status status = check_same_kind(input.name, *tensor, valid.query); !status.ok()) return status;
  }
  if (Status status = check_heads(valid); !status.ok()) return status;
  if (Status status = check_all_offsets(call); !status.ok()) return status;
  const Result<double> scale = scale_of(call);
  if (!scale) return scale.status();
  valid.scale = *scale;
  valid.batch = call.key_offset.count - 1;
  valid.output_rows = call.broadcast_q ? valid.batch * call.query.rows : call.query.rows;
  if (valid.output_rows >= kRowLimit)  // also with output_offset: no two sequences may share an output row
    return Status::unsupported(
        fmt::format("a batch of {} times query.rows {} makes {} output rows, not below 2^30", valid.batch,
                    call.query.rows, valid.output_rows));
  return valid;
}

Status check_output_shape(std::string_view name, const ValidCall& valid, bool has_output_offset,
                          const Tensor& tensor) {
  if (Status status = check_same_kind(name, tensor, valid.query); !status.ok()) return status;
  if (tensor.heads != valid.query.heads)
    return invalid("{}.heads {} differs from query.heads {}", name, tensor.heads, valid.query.heads);
  if (!has_output_offset && tensor.rows != valid.output_rows)
    return invalid("{}.rows {} differs from the {} rows of the call", name, tensor.rows, valid.output_rows);
  return {};
}

Status check_no_overlap(std::string_view name, const Tensor& tensor) {
  if (tensor.rows > 1 && tensor.heads > 0 && tensor.row_stride < tensor.head_dim)
    return invalid("{}.row_stride {} is below head_dim {}: rows would overlap", name, tensor.row_stride,
                   tensor.head_dim);
  if (tensor.heads > 1 && tensor.rows > 0 && tensor.head_stride < tensor.head_dim)
    return invalid("{}.head_stride {} is below head_dim {}: heads would overlap", name, tensor.head_stride,
                   tensor.head_dim);
  const std::optional<SelfOverlap> overlap = find_self_overlap(tensor);
  if (!overlap) return {};
  return invalid(
      "{}.row_stride {} and {}.head_stride {}: row {} of head 0 and row 0 of head {} would overlap", name,
      tensor.row_stride, name, tensor.head_stride, overlap->row, overlap->head);
}

Status check_apart(std::span<const Operand> written, std::span<const Operand> read) {
  for (std::size_t i = 0; i < written.size(); ++i) {
    for (const std::span<const Operand>& others : {written.subspan(i + 1), read}) {
      for (const Operand& other : others) {
        if (!written[i].footprint.meets(other.footprint)) continue;
        return invalid("{} {:#x} and {} {:#x} share memory: what is written must overlap nothing else",
                       written[i].name, written[i].address, other.name, other.address);
      }
    }
  }
  return {};
}

Operand operand(std::string_view name, const Tensor& tensor) {
  return {name, tensor.address, Footprint::of(tensor)};
}

Operand float_operand(std::string_view name, std::uint64_t address, const Tensor& output) {
  const std::int64_t bytes = address == 0 ? 0 : output.rows * output.heads * std::int64_t{sizeof(float)};
  return {name, address, Footprint::of_bytes(address, static_cast<std::uint64_t>(bytes))};
}

OutputOperands output_operands(const Tensor& output, std::uint64_t lse) {
  return {operand("output.address", output), float_operand("lse", lse, output)};
}

InputOperands input_operands(const ValidCall& valid, const AttentionCall& call) {
  const auto offsets = [](std::string_view name, const Offsets& given) -> Operand {
    const std::int64_t bytes = given.count * (given.type == OffsetType::int32 ? 4 : 8);
    return {name, given.address, Footprint::of_bytes(given.address, static_cast<std::uint64_t>(bytes))};
  };
  return {operand("query.address", valid.query),
          operand("key.address", valid.key),
          operand("value.address", valid.value),
          offsets("query_offset.address", call.broadcast_q ? Offsets{} : call.query_offset),
          offsets("key_offset.address", call.key_offset),
          offsets("output_offset.address", call.output_offset.value_or(Offsets{}))};
}

Status check_float_address(std::string_view name, std::uint64_t address) {
  if (address % sizeof(float) != 0)
    return invalid("{} {:#x} is not a multiple of {} bytes", name, address, sizeof(float));
  return {};
}

namespace {

// A tile of the query is read by the one item that then writes the same rows and heads of the output: so the
// output may take the query's place, element by element.
bool in_place(const ValidCall& valid, const AttentionCall& call, const Tensor& output) {
  const Tensor& query = valid.query;
  return !call.broadcast_q && !call.output_offset && output.address == query.address &&
         output.row_stride == query.row_stride && output.head_stride == query.head_stride;
}

}  // namespace

Result<Tensor> validate_output(const ValidCall& valid, const AttentionCall& call, const Tensor& output,
                               std::uint64_t lse) {
  const Result<Tensor> normal = normalize("output", output);
  if (!normal) return normal;
  if (Status status = check_output_shape("output", valid, call.output_offset.has_value(), *normal);
      !status.ok())
    return status;
  if (Status status = check_no_overlap("output", *normal); !status.ok()) return status;
  if (Status status = check_float_address("lse", lse); !status.ok()) return status;
  InputOperands read = input_operands(valid, call);
  if (in_place(valid, call, *normal)) read[0].footprint = {};
  if (Status status = check_apart(output_operands(*normal, lse), read); !status.ok()) return status;
  return normal;
}

Status validate_workspace(Workspace workspace, std::uint64_t needed_bytes,
                          std::initializer_list<std::span<const Operand>> others) {
  if (workspace.address == 0) return {};
  if (workspace.address % kWorkspaceAlignmentBytes != 0)
    return invalid("workspace.address {:#x} is not a multiple of {} bytes", workspace.address,
                   kWorkspaceAlignmentBytes);
  if (workspace.bytes < needed_bytes)
    return invalid("workspace.bytes {} is below the {} that this call needs", workspace.bytes, needed_bytes);
  const Operand scratch[] = {
      {"workspace.address", workspace.address, Footprint::of_bytes(workspace.address, needed_bytes)}};
  for (const std::span<const Operand> operands : others)
    if (Status status = check_apart(scratch, operands); !status.ok()) return status;
  return {};
}

}  // namespace jfa
