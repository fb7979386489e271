#include "runtime/call.h"

#include <fmt/format.h>

#include "runtime/tuned.h"
#include "runtime/validate.h"
#include "templates/attention/parameters.h"

namespace jfa {
namespace {

// Compiling and loading synchronise, and would break a capture.
Status refuse_cold_capture(const Device::Impl& device, const KernelSpec& spec, CUstream stream) {
  CUstreamCaptureStatus capture = CU_STREAM_CAPTURE_STATUS_NONE;
  Status status = device.with_context("asking whether the stream is capturing",
                                      [&] { return device.driver.cuStreamIsCapturing(stream, &capture); });
  if (!status.ok() || capture == CU_STREAM_CAPTURE_STATUS_NONE) return status;
  return Status::unavailable(fmt::format(
      "the kernel {} is not loaded on {} and cannot be while stream {} captures a graph: call "
      "jfa::prepare(device, configuration), or {}() once, before the capture begins",
      name(spec), device.name, fmt::ptr(stream), spec.pass == Pass::forward ? "forward" : "backward"));
}

}  // namespace

Result<KernelSpec> specialize_call(const AttentionCall& call, Pass pass, Target target) {
  Configuration configuration = configuration_of(call);
  configuration.pass = pass;
  if (call.query.heads == 0) configuration.groups = 1;  // no head at all is right, whatever divides it
  return specialize(configuration, target);
}

Result<const LoadedKernels*> kernels_for(Device::Impl& device, const KernelSpec& spec, const ValidCall& valid,
                                         const Tuning* tuning, CUstream stream) {
  KernelQuery query{spec, {}, tuning};
  const TunedClasses* tuned = device.tuned.load(std::memory_order_acquire);
  if (tuned && !tuning)
    query.size =
        size_class({valid.batch, valid.query.rows, valid.key.rows, valid.query.heads}, spec.broadcast_q);
  if (const LoadedKernels* kernels = device.kernels.find(query)) return kernels;
  // A class that is met for the first time, of kernels that are loaded: nothing stands in a capture's way.
  if (const LoadedKernels* kernels = route_to_loaded(device, query)) return kernels;
  if (Status status = refuse_cold_capture(device, spec, stream); !status.ok()) return status;
  return resolve(device, query);
}

Status clear_header(Device::Impl& device, Workspace workspace,
                    std::initializer_list<std::span<const Operand>> others, CUstream stream) {
  if (Status status = validate_workspace(workspace, sizeof(kernel::WorkspaceHeader), others); !status.ok())
    return status;
  if (workspace.address == 0) return {};
  return device.with_context("clearing the workspace's header", [&] {
    return device.driver.cuMemsetD32Async(workspace.address, 0, sizeof(kernel::WorkspaceHeader) / 4, stream);
  });
}

}  // namespace jfa
