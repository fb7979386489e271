#include "runtime/launcher.h"

#include <fmt/format.h>

#include <algorithm>

#include "runtime/tensor_maps.h"

namespace jfa {

LaunchAttributes::LaunchAttributes(const EntryPlan& entry, Start start) {
  if (start == Start::kOverlapping) {
    CUlaunchAttribute& overlap = attributes_[count_++];
    overlap.id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION;
    overlap.value.programmaticStreamSerializationAllowed = 1;
  }
  if (entry.cluster > 1) {
    CUlaunchAttribute& cluster = attributes_[count_++];
    cluster.id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION;
    cluster.value.clusterDim = {static_cast<unsigned>(entry.cluster), 1, 1};
  }
}

CUlaunchConfig launch_config(const EntryPlan& entry, int ctas, LaunchAttributes& attributes) {
  CUlaunchConfig config{};
  config.attrs = attributes.list().data();
  config.numAttrs = static_cast<unsigned>(attributes.list().size());
  config.gridDimX = static_cast<unsigned>(ctas);
  config.gridDimY = config.gridDimZ = config.blockDimY = config.blockDimZ = 1;
  config.blockDimX = static_cast<unsigned>(entry.threads);
  config.sharedMemBytes = static_cast<unsigned>(entry.shared_bytes);
  return config;
}

Status Launcher::encode(std::span<const MapOperand> operands, std::uint64_t substitute,
                        CUtensorMap* maps) const {
  for (const MapOperand& operand : operands) {
    const CUresult result =
        encode_ragged_map(device_.driver, operand.tensor, operand.cut, operand.box_rows, substitute, maps++);
    if (result != CUDA_SUCCESS)
      return failure(result, fmt::format("encoding the tensor map of {}", operand.name));
  }
  return {};
}

Status Launcher::launch(const LoadedEntry& entry, int ctas, void** arguments, Start start) const {
  LaunchAttributes attributes(entry.plan, start);
  CUlaunchConfig config = launch_config(entry.plan, ctas, attributes);
  config.hStream = stream_;
  const CUresult result = device_.driver.cuLaunchKernelEx(&config, entry.function, arguments, nullptr);
  if (result == CUDA_SUCCESS) {
    if (watch_ && watch_->traces()) watch_->launched(entry.plan.name);
    return {};
  }
  return failure(result, fmt::format("launching {}", entry.plan.name));
}

Status Launcher::failure(CUresult result, std::string_view what) const {
  return device_.failure(result, fmt::format("{} of {}, stream {}{},", what, kernels_.name, fmt::ptr(stream_),
                                             foreign_stream()));
}

// " (of CUDA device 1)" for a stream of another device, a common reason why a launch fails.
std::string Launcher::foreign_stream() const {
  const DriverTable& driver = device_.driver;
  CUcontext context = nullptr;
  if (driver.cuStreamGetCtx(stream_, &context) != CUDA_SUCCESS || context == device_.context) return {};
  const ContextGuard guard(driver, context);
  CUdevice owner = 0;
  if (guard.result() != CUDA_SUCCESS || driver.cuCtxGetDevice(&owner) != CUDA_SUCCESS) return {};
  return fmt::format(" (of CUDA device {}, or of another context)", owner);
}

int ctas_for(const LoadedEntry& entry, std::int64_t items) {
  return static_cast<int>(std::min<std::int64_t>(entry.resident_ctas, items * entry.plan.cluster));
}

}  // namespace jfa
