// The contract of forward(), checked before anything is launched.
#pragma once

#include <cstdint>

#include "jfa/attention.h"

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
Result<Tensor> validate_output(const ValidCall& valid, bool has_output_offset, const Tensor& output,
                               std::uint64_t lse);

/// `needed_bytes`: of workspace_bytes().
Status validate_workspace(Workspace workspace, std::uint64_t needed_bytes);

}  // namespace jfa
