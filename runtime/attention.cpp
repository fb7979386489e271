// The public calls. After a configuration's first call, forward() takes no lock, reads no environment, waits
// for nothing unless JFA_CHECK_OFFSETS asks for it, and allocates nothing but a workspace that the caller did
// not give.
#include "jfa/attention.h"

#include <fmt/format.h>

#include <algorithm>

#include "generator/workspace.h"
#include "runtime/call.h"
#include "runtime/call_bytes.h"
#include "runtime/call_stream.h"
#include "runtime/call_watch.h"
#include "runtime/device.h"
#include "runtime/kernels.h"
#include "runtime/launches.h"
#include "runtime/residence.h"
#include "runtime/tuned.h"
#include "runtime/validate.h"
#include "runtime/workspace.h"
#include "templates/attention/parameters.h"

namespace jfa {
namespace {

WorkspaceShape workspace_shape(const ValidCall& valid) {
  return {valid.batch, valid.query.rows, valid.key.rows, valid.query.heads};
}

Status check_items(const ValidCall& valid, const WorkspaceMap& map) {
  if (map.tile_capacity <= kItemLimit &&
      map.tile_capacity * std::max<std::int64_t>(valid.query.heads, 1) <= kItemLimit)
    return {};
  return Status::unsupported(fmt::format(
      "a batch of {} with query.rows {} and query.heads {} may need {} tiles a head; tiles times heads "
      "must not pass {}",
      valid.batch, valid.query.rows, valid.query.heads, map.tile_capacity, kItemLimit));
}

Status enqueue(Device::Impl& impl, const AttentionCall& call, const Tensor& output, std::uint64_t lse,
               const Workspace& workspace, CUstream cu_stream, CallWatch* watch) {
  if (Status status = impl.usable(); !status.ok()) return status;
  const Result<ValidCall> valid = validate(call);
  if (!valid) return valid.status();
  const Result<Tensor> valid_output = validate_output(*valid, call, output, lse);
  if (!valid_output) return valid_output.status();
  const Result<KernelSpec> spec = specialize_call(call, Pass::forward, impl.target);
  if (!spec) return spec.status();
  if (watch && watch->traces())
    watch->describe(*spec, *valid, forward_bytes(*valid, call, *valid_output, lse));

  if (valid->batch == 0 || valid->query.rows == 0 || valid->query.heads == 0) {
    if (Status earlier = earlier_bad_offset(impl, cu_stream); !earlier.ok()) return earlier;
    return clear_header(impl, workspace, {input_operands(*valid, call), output_operands(*valid_output, lse)},
                        cu_stream);
  }

  const Result<const LoadedKernels*> kernels = kernels_for(impl, *spec, *valid, call.tuning, cu_stream);
  if (!kernels) return kernels.status();
  if (watch && watch->traces()) watch->loaded(**kernels);
  const WorkspaceMap map = workspace_map((*kernels)->plan, workspace_shape(*valid));
  if (Status status = check_items(*valid, map); !status.ok()) return status;
  if (Status status = validate_workspace(workspace, map.bytes,
                                         {input_operands(*valid, call), output_operands(*valid_output, lse)});
      !status.ok())
    return status;

  const ContextGuard guard(impl.driver, impl.context);
  if (guard.result() != CUDA_SUCCESS) return impl.failure(guard.result(), "making its context current");
  const Result<CallStream> on = CallStream::ask(impl, cu_stream);
  if (!on) return on.status();
  if (Status earlier = on->earlier_bad_offset(); !earlier.ok()) return earlier;
  if (Status status = check_residence(
          impl, call,
          {{"output.address", output.address}, {"lse", lse}, {"workspace.address", workspace.address}});
      !status.ok())
    return status;
  ScopedWorkspace scoped(impl, cu_stream);
  if (Status status = scoped.acquire(workspace, map.bytes); !status.ok()) return status;
  const Range range(watch && watch->ranges(), (*kernels)->name.c_str());
  Status launched = launch(impl, **kernels, {*valid, call, *valid_output, lse, map, on->report(), watch},
                           scoped.address(), cu_stream);
  return launched.ok() ? on->verdict_at_once(scoped.address()) : launched;
}

}  // namespace

Status forward(Device& device, const AttentionCall& call, const Tensor& output, std::uint64_t lse,
               Workspace workspace, Stream stream) {
  return watched(device.impl(), Pass::forward, [&](CallWatch* watch) {
    return enqueue(device.impl(), call, output, lse, workspace, static_cast<CUstream>(stream), watch);
  });
}

Result<std::uint64_t> workspace_bytes(const AttentionCall& call) {
  const Result<ValidCall> valid = validate(call);
  if (!valid) return valid.status();
  const Result<KernelSpec> spec = specialize_call(call, Pass::forward, target_table().front().target);
  if (!spec) return spec.status();
  const Result<KernelPlan> plan = jfa::plan(*spec);
  if (!plan) return plan.status();
  const WorkspaceMap map = workspace_map(*plan, workspace_shape(*valid));
  if (Status status = check_items(*valid, map); !status.ok()) return status;
  return map.bytes;
}

Status status(Device& device, Workspace workspace, Stream stream) {
  const Device::Impl& impl = device.impl();
  if (Status usable = impl.usable(); !usable.ok()) return usable;
  if (workspace.address == 0)
    return Status::invalid_argument(
        "workspace.address is null: only a workspace that the caller gave can be read");
  if (Status valid = validate_workspace(workspace, sizeof(kernel::WorkspaceHeader)); !valid.ok())
    return valid;
  const ContextGuard guard(impl.driver, impl.context);
  if (guard.result() != CUDA_SUCCESS) return impl.failure(guard.result(), "running the attention");
  const Result<CallStream> on = CallStream::ask(impl, static_cast<CUstream>(stream));
  return on ? on->verdict(workspace.address) : on.status();
}

Status supported(const Configuration& configuration) {
  const Result<KernelSpec> spec = specialize(configuration);
  if (!spec) return spec.status();
  return jfa::plan(*spec, configuration.tuning ? relevant(*configuration.tuning, *spec) : Tuning()).status();
}

std::vector<std::int64_t> supported_head_dims() {
  constexpr std::int64_t kMostConceivable = 1024;
  std::vector<std::int64_t> dims;
  Configuration configuration;
  for (configuration.head_dim = 1; configuration.head_dim <= kMostConceivable; ++configuration.head_dim)
    if (supported(configuration).ok()) dims.push_back(configuration.head_dim);
  return dims;
}

Status prepare(Device& device, const Configuration& configuration) {
  Device::Impl& impl = device.impl();
  if (Status status = impl.usable(); !status.ok()) return status;
  const Result<KernelSpec> spec = specialize(configuration, impl.target);
  if (!spec) return spec.status();
  return resolve_all(impl, *spec, configuration.tuning);
}

}  // namespace jfa
