// The contract of forward(), checked before anything is launched.
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string_view>

#include "jfa/attention.h"
#include "runtime/footprint.h"

namespace jfa {

/// A call whose fields keep the contract. Strides of dimensions of extent 1 are those of a packed tensor.
struct ValidCall {
  Tensor query;
  Tensor key;
  Tensor value;
  std::int64_t batch = 0;
  std::int64_t output_rows = 0;  // that the call needs: total_q, or batch * q_len
  double scale = 0;

  std::int64_t query_rows() const { return query.rows; }
  std::int64_t query_heads() const { return query.heads; }
};

/// Errors: kInvalidArgument names the argument and its value; kUnsupported a size beyond our limits.
Result<ValidCall> validate(const AttentionCall& call);

/// The output's normalised form; `call` has passed validate().
Result<Tensor> validate_output(const ValidCall& valid, const AttentionCall& call, const Tensor& output,
                               std::uint64_t lse);

/// dtype, and extents within our limits.
Status check_extents(std::string_view name, const Tensor& tensor);
/// Whether a tensor map takes a 16-bit tensor whose innermost stride is 1. Strides in elements.
bool fits_tensor_map(std::uint64_t address, std::int64_t row_stride, std::int64_t head_stride);
/// Checks one tensor by itself; packed strides take the place of those of dimensions of extent 1 or 0.
Result<Tensor> normalize(std::string_view name, Tensor tensor);
/// dtype and head_dim must be the query's.
Status check_same_kind(std::string_view name, const Tensor& tensor, const Tensor& query);
/// The shape of the output, or of a tensor that goes with it.
Status check_output_shape(std::string_view name, const ValidCall& valid, bool has_output_offset,
                          const Tensor& tensor);
/// Elements of a tensor that is written must lie apart.
Status check_no_overlap(std::string_view name, const Tensor& tensor);

/// Memory that a call uses.
struct Operand {
  std::string_view name;
  std::uint64_t address;
  Footprint footprint;
};
using InputOperands = std::array<Operand, 6>;
using OutputOperands = std::array<Operand, 2>;

Operand operand(std::string_view name, const Tensor& tensor);
/// fp32 [heads, rows] of `output`; address 0: none.
Operand float_operand(std::string_view name, std::uint64_t address, const Tensor& output);
OutputOperands output_operands(const Tensor& output, std::uint64_t lse);
/// Query, key and value, in this order, then the offsets that the call has.
InputOperands input_operands(const ValidCall& valid, const AttentionCall& call);
/// What is written shares memory with nothing else, as far as Footprint::meets() is certain of it.
Status check_apart(std::span<const Operand> written, std::span<const Operand> read);

/// An fp32 array.
Status check_float_address(std::string_view name, std::uint64_t address);

/// `needed_bytes`: of workspace_bytes(); the kernels scribble on so many. `others`: what else the call uses.
Status validate_workspace(Workspace workspace, std::uint64_t needed_bytes,
                          std::initializer_list<std::span<const Operand>> others = {});

}  // namespace jfa
