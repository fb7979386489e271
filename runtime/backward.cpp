// The public calls of the backward; the same promises as forward()'s.
#include <fmt/format.h>

#include <algorithm>

#include "generator/backward_path.h"
#include "generator/workspace.h"
#include "jfa/attention.h"
#include "runtime/backward_launches.h"
#include "runtime/call.h"
#include "runtime/call_bytes.h"
#include "runtime/call_stream.h"
#include "runtime/call_watch.h"
#include "runtime/device.h"
#include "runtime/kernels.h"
#include "runtime/residence.h"
#include "runtime/validate_backward.h"
#include "runtime/workspace.h"

namespace jfa {
namespace {

BackwardWorkspaceShape workspace_shape(const ValidCall& valid, const OutputGradient& output_grad) {
  return {{valid.batch, valid.query.rows, valid.key.rows, valid.query.heads},
          output_grad.rows,
          output_grad.head_dim,
          needs_packing(output_grad)};
}

Status check_items(const ValidCall& valid, const BackwardWorkspaceMap& map) {
  const std::int64_t most =
      std::max({map.query_tile_capacity, map.key_tile_capacity, map.partial_rows,
                map.query_run_capacity * valid.query.heads, map.key_tile_capacity * valid.key.heads,
                map.short_tile_capacity * valid.key.heads});
  if (most <= kItemLimit) return {};
  return Status::unsupported(
      fmt::format("a batch of {} with query.rows {}, key.rows {} and query.heads {} may need {} tiles times "
                  "heads, above {}",
                  valid.batch, valid.query.rows, valid.key.rows, valid.query.heads, most, kItemLimit));
}

// No query meets a key, and the host can see it: every gradient is 0, and no kernel is needed.
bool trivially_zero(const ValidCall& valid) {
  return valid.batch == 0 || valid.query.rows == 0 || valid.key.rows == 0 || valid.query.heads == 0;
}

Status clear_gradients(Device::Impl& device, const ValidBackward& tensors, CUstream stream) {
  for (const auto& [name, tensor] : {std::pair{"query_grad", &tensors.query_grad},
                                     {"key_grad", &tensors.key_grad},
                                     {"value_grad", &tensors.value_grad}}) {
    Status status = device.with_context(fmt::format("clearing {}", name), [&, tensor = tensor] {
      return clear_tensor(device.driver, *tensor, stream);
    });
    if (!status.ok()) return status;
  }
  return {};
}

Status enqueue(Device::Impl& impl, const AttentionCall& call, const BackwardTensors& given,
               const Workspace& workspace, CUstream cu_stream, CallWatch* watch) {
  if (Status status = impl.usable(); !status.ok()) return status;
  const Result<ValidCall> valid = validate(call);
  if (!valid) return valid.status();
  const Result<ValidBackward> tensors = validate_backward(*valid, call, given);
  if (!tensors) return tensors.status();
  const Result<KernelSpec> spec = specialize_call(call, Pass::backward, impl.target);
  if (!spec) return spec.status();
  if (watch && watch->traces())
    watch->describe(*spec, *valid, backward_bytes(*valid, call, *tensors, given.lse_grad));
  if (trivially_zero(*valid)) {
    if (Status earlier = earlier_bad_offset(impl, cu_stream); !earlier.ok()) return earlier;
    Status status = clear_header(impl, workspace,
                                 {input_operands(*valid, call), gradient_operands(*tensors),
                                  saved_operands(*tensors, given.lse, given.lse_grad)},
                                 cu_stream);
    return status.ok() ? clear_gradients(impl, *tensors, cu_stream) : status;
  }

  const Result<const LoadedKernels*> kernels = kernels_for(impl, *spec, *valid, call.tuning, cu_stream);
  if (!kernels) return kernels.status();
  if (watch && watch->traces()) watch->loaded(**kernels);
  const Result<BackwardPath> path =
      backward_path((*kernels)->plan, valid->query.rows, (*kernels)->has_clusters());
  if (!path) return path.status();
  const BackwardWorkspaceMap map =
      backward_workspace_map((*kernels)->plan, workspace_shape(*valid, tensors->output_grad));
  if (Status status = check_items(*valid, map); !status.ok()) return status;
  if (Status status = validate_workspace(workspace, map.bytes,
                                         {input_operands(*valid, call), gradient_operands(*tensors),
                                          saved_operands(*tensors, given.lse, given.lse_grad)});
      !status.ok())
    return status;

  const ContextGuard guard(impl.driver, impl.context);
  if (guard.result() != CUDA_SUCCESS) return impl.failure(guard.result(), "making its context current");
  const Result<CallStream> on = CallStream::ask(impl, cu_stream);
  if (!on) return on.status();
  if (Status earlier = on->earlier_bad_offset(); !earlier.ok()) return earlier;
  if (Status status = check_residence(impl, call,
                                      {{"output.address", given.output.address},
                                       {"lse", given.lse},
                                       {"output_grad.address", given.output_grad.address},
                                       {"lse_grad", given.lse_grad},
                                       {"query_grad.address", given.query_grad.address},
                                       {"key_grad.address", given.key_grad.address},
                                       {"value_grad.address", given.value_grad.address},
                                       {"workspace.address", workspace.address}});
      !status.ok())
    return status;
  ScopedWorkspace scoped(impl, cu_stream);
  if (Status status = scoped.acquire(workspace, map.bytes); !status.ok()) return status;
  const Range range(watch && watch->ranges(), (*kernels)->name.c_str());
  Status launched = launch(
      impl, **kernels, {*valid, call, *tensors, given.lse, given.lse_grad, map, *path, on->report(), watch},
      scoped.address(), cu_stream);
  return launched.ok() ? on->verdict_at_once(scoped.address()) : launched;
}

}  // namespace

Status backward(Device& device, const AttentionCall& call, const Tensor& output, std::uint64_t lse,
                const OutputGradient& output_grad, std::uint64_t lse_grad, const Tensor& query_grad,
                const Tensor& key_grad, const Tensor& value_grad, Workspace workspace, Stream stream) {
  return watched(device.impl(), Pass::backward, [&](CallWatch* watch) {
    return enqueue(device.impl(), call,
                   {output, lse, output_grad, lse_grad, query_grad, key_grad, value_grad}, workspace,
                   static_cast<CUstream>(stream), watch);
  });
}

Result<std::uint64_t> backward_workspace_bytes(const AttentionCall& call, const OutputGradient& output_grad) {
  const Result<ValidCall> valid = validate(call);
  if (!valid) return valid.status();
  const Result<OutputGradient> valid_grad =
      validate_output_grad(*valid, call.output_offset.has_value(), output_grad);
  if (!valid_grad) return valid_grad.status();
  const Result<KernelSpec> spec = specialize_call(call, Pass::backward, target_table().front().target);
  if (!spec) return spec.status();
  const Result<KernelPlan> plan = jfa::plan(*spec);
  if (!plan) return plan.status();
  const BackwardWorkspaceMap map = backward_workspace_map(*plan, workspace_shape(*valid, *valid_grad));
  if (Status status = check_items(*valid, map); !status.ok()) return status;
  return map.bytes;
}

}  // namespace jfa
