// The public calls. After a configuration's first call, forward() takes no lock, reads no environment, waits
// for nothing, and allocates nothing but a workspace that the caller did not give.
#include "jfa/attention.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <numbers>

#include "runtime/device.h"
#include "runtime/kernels.h"
#include "runtime/tensor_maps.h"
#include "runtime/validate.h"
#include "runtime/workspace.h"
#include "templates/attention/parameters.h"

namespace jfa {
namespace {

// Work items are counted in 32 bits, with room for every CTA to draw one too many.
constexpr std::int64_t kItemLimit = std::numeric_limits<std::int32_t>::max();

Configuration configuration_for(const AttentionCall& call, std::string_view target) {
  Configuration configuration = configuration_of(call, target);
  if (call.query.heads == 0) configuration.groups = 1;  // no head at all is right, whatever divides it
  return configuration;
}

// What one call launches, apart from where its workspace lies.
struct Launches {
  const ValidCall& valid;
  const AttentionCall& call;
  const Tensor& output;
  std::uint64_t lse;
  const WorkspaceMap& map;
};

kernel::PrepareArguments prepare_arguments(const Launches& launches, std::uint64_t workspace) {
  const AttentionCall& call = launches.call;
  kernel::PrepareArguments arguments{};
  const auto set = [](const Offsets& offsets, const void*& address, int& is_64) {
    address = reinterpret_cast<const void*>(offsets.address);
    is_64 = offsets.type == OffsetType::int64;
  };
  if (!call.broadcast_q) set(call.query_offset, arguments.query_offset, arguments.query_offset_is_64);
  set(call.key_offset, arguments.key_offset, arguments.key_offset_is_64);
  if (call.output_offset) set(*call.output_offset, arguments.output_offset, arguments.output_offset_is_64);
  arguments.batch = static_cast<int>(launches.valid.batch);
  arguments.query_rows = static_cast<int>(launches.valid.query.rows);
  arguments.key_rows = static_cast<int>(launches.valid.key.rows);
  arguments.output_rows = static_cast<int>(launches.output.rows);
  arguments.query_heads = static_cast<int>(launches.valid.query.heads);
  arguments.part_capacity = static_cast<int>(launches.map.part_capacity);
  arguments.header = reinterpret_cast<kernel::WorkspaceHeader*>(workspace + launches.map.header);
  arguments.tiles = reinterpret_cast<kernel::QueryTile*>(workspace + launches.map.tiles);
  arguments.split_tiles = reinterpret_cast<kernel::SplitTile*>(workspace + launches.map.split_tiles);
  return arguments;
}

kernel::ForwardArguments forward_arguments(const Launches& launches, std::uint64_t workspace) {
  kernel::ForwardArguments arguments{};
  arguments.header = reinterpret_cast<kernel::WorkspaceHeader*>(workspace + launches.map.header);
  arguments.tiles = reinterpret_cast<const kernel::QueryTile*>(workspace + launches.map.tiles);
  arguments.lse = reinterpret_cast<float*>(launches.lse);
  arguments.partial_output = reinterpret_cast<float*>(workspace + launches.map.partial_output);
  arguments.partial_lse = reinterpret_cast<float*>(workspace + launches.map.partial_lse);
  arguments.scale_log2 = static_cast<float>(launches.valid.scale * std::numbers::log2e);
  arguments.query_heads = static_cast<int>(launches.valid.query.heads);
  arguments.output_rows = static_cast<int>(launches.output.rows);
  return arguments;
}

kernel::MergeArguments merge_arguments(const Launches& launches, std::uint64_t workspace) {
  kernel::MergeArguments arguments{};
  arguments.header = reinterpret_cast<const kernel::WorkspaceHeader*>(workspace + launches.map.header);
  arguments.split_tiles = reinterpret_cast<const kernel::SplitTile*>(workspace + launches.map.split_tiles);
  arguments.partial_output = reinterpret_cast<const float*>(workspace + launches.map.partial_output);
  arguments.partial_lse = reinterpret_cast<const float*>(workspace + launches.map.partial_lse);
  arguments.output = reinterpret_cast<void*>(launches.output.address);
  arguments.output_row_stride = launches.output.row_stride;
  arguments.output_head_stride = launches.output.head_stride;
  arguments.lse = reinterpret_cast<float*>(launches.lse);
  arguments.query_heads = static_cast<int>(launches.valid.query.heads);
  arguments.output_rows = static_cast<int>(launches.output.rows);
  arguments.head_dim = static_cast<int>(launches.output.head_dim);
  return arguments;
}

// One device's stream, and what is said of it when something fails.
class Launcher {
 public:
  Launcher(const Device::Impl& device, const LoadedKernels& kernels, CUstream stream)
      : device_(device), kernels_(kernels), stream_(stream) {}

  Status launch(CUfunction function, const EntryPlan& entry, int ctas, void** arguments) const {
    CUlaunchConfig config{};
    config.gridDimX = static_cast<unsigned>(ctas);
    config.gridDimY = config.gridDimZ = config.blockDimY = config.blockDimZ = 1;
    config.blockDimX = static_cast<unsigned>(entry.threads);
    config.sharedMemBytes = static_cast<unsigned>(entry.shared_bytes);
    config.hStream = stream_;
    const CUresult result = device_.driver.cuLaunchKernelEx(&config, function, arguments, nullptr);
    if (result == CUDA_SUCCESS) return {};
    return failure(result, fmt::format("launching {}", entry.name));
  }

  Status failure(CUresult result, std::string_view what) const {
    return device_.failure(result, fmt::format("{} of {}, stream {}{},", what, kernels_.name,
                                               fmt::ptr(stream_), foreign_stream()));
  }

 private:
  // " (of CUDA device 1)" for a stream of another device, a common reason why a launch fails.
  std::string foreign_stream() const {
    const DriverTable& driver = device_.driver;
    CUcontext context = nullptr;
    if (driver.cuStreamGetCtx(stream_, &context) != CUDA_SUCCESS || context == device_.context) return {};
    const ContextGuard guard(driver, context);
    CUdevice owner = 0;
    if (guard.result() != CUDA_SUCCESS || driver.cuCtxGetDevice(&owner) != CUDA_SUCCESS) return {};
    return fmt::format(" (of CUDA device {}, or of another context)", owner);
  }

  const Device::Impl& device_;
  const LoadedKernels& kernels_;
  CUstream stream_;
};

Status launch(Device::Impl& device, const LoadedKernels& kernels, const Launches& launches,
              std::uint64_t workspace, CUstream stream) {
  const Launcher launcher(device, kernels, stream);
  const KernelPlan& plan = kernels.plan;
  CUtensorMap maps[4];
  const struct {
    const char* name;
    const Tensor& tensor;
    int box_rows;
  } operands[4] = {{"query", launches.valid.query, plan.query_tile},
                   {"key", launches.valid.key, plan.key_tile},
                   {"value", launches.valid.value, plan.key_tile},
                   {"output", launches.output, plan.output_box_rows}};
  for (int i = 0; i < 4; ++i) {
    const CUresult result = encode_ragged_map(device.driver, operands[i].tensor, plan.operand,
                                              operands[i].box_rows, workspace, &maps[i]);
    if (result != CUDA_SUCCESS)
      return launcher.failure(result, fmt::format("encoding the tensor map of {}", operands[i].name));
  }

  kernel::PrepareArguments prepare = prepare_arguments(launches, workspace);
  void* prepare_pointers[] = {&prepare};
  if (Status status = launcher.launch(kernels.prepare, plan.prepare, 1, prepare_pointers); !status.ok())
    return status;

  kernel::ForwardArguments forward = forward_arguments(launches, workspace);
  void* forward_pointers[] = {&maps[0], &maps[1], &maps[2], &maps[3], &forward};
  const std::int64_t items = launches.map.tile_capacity * launches.valid.query.heads;
  const int ctas = static_cast<int>(std::min<std::int64_t>(kernels.resident_ctas, items));
  if (Status status = launcher.launch(kernels.main, plan.main, ctas, forward_pointers); !status.ok())
    return status;
  if (launches.map.part_capacity == 0) return {};
  kernel::MergeArguments merge = merge_arguments(launches, workspace);
  void* merge_pointers[] = {&merge};
  return launcher.launch(kernels.merge, plan.merge, kernels.resident_ctas, merge_pointers);
}

// There is nothing to compute, but status() may be asked of the caller's workspace.
Status clear_header(Device::Impl& device, Workspace workspace, CUstream stream) {
  if (workspace.address == 0) return {};
  return device.with_context("clearing the workspace's header", [&] {
    return device.driver.cuMemsetD32Async(workspace.address, 0, sizeof(kernel::WorkspaceHeader) / 4, stream);
  });
}

// Compiling and loading synchronise, and would break a capture.
Status refuse_cold_capture(const Device::Impl& device, const KernelSpec& spec, CUstream stream) {
  CUstreamCaptureStatus capture = CU_STREAM_CAPTURE_STATUS_NONE;
  Status status = device.with_context("asking whether the stream is capturing",
                                      [&] { return device.driver.cuStreamIsCapturing(stream, &capture); });
  if (!status.ok() || capture == CU_STREAM_CAPTURE_STATUS_NONE) return status;
  return Status::unavailable(
      fmt::format("the kernel {} is not loaded on {} and cannot be while stream {} captures a graph: call "
                  "jfa::prepare(device, "
                  "configuration), or forward() once, before the capture begins",
                  name(spec), device.name, fmt::ptr(stream)));
}

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

}  // namespace

Status forward(Device& device, const AttentionCall& call, const Tensor& output, std::uint64_t lse,
               Workspace workspace, Stream stream) {
  Device::Impl& impl = device.impl();
  const CUstream cu_stream = static_cast<CUstream>(stream);
  if (Status status = impl.usable(); !status.ok()) return status;
  const Result<ValidCall> valid = validate(call);
  if (!valid) return valid.status();
  const Result<Tensor> valid_output = validate_output(*valid, call.output_offset.has_value(), output, lse);
  if (!valid_output) return valid_output.status();
  const Result<KernelSpec> spec = specialize(configuration_for(call, impl.target));
  if (!spec) return spec.status();

  if (valid->batch == 0 || valid->query.rows == 0 || valid->query.heads == 0) {
    if (Status status = validate_workspace(workspace, sizeof(kernel::WorkspaceHeader)); !status.ok())
      return status;
    return clear_header(impl, workspace, cu_stream);
  }

  const LoadedKernels* kernels = impl.kernels.find(*spec);
  if (!kernels) {
    if (Status status = refuse_cold_capture(impl, *spec, cu_stream); !status.ok()) return status;
    const Result<const LoadedKernels*> resolved = resolve(impl, *spec);
    if (!resolved) return resolved.status();
    kernels = *resolved;
  }
  const WorkspaceMap map = workspace_map(kernels->plan, workspace_shape(*valid));
  if (Status status = check_items(*valid, map); !status.ok()) return status;
  if (Status status = validate_workspace(workspace, map.bytes); !status.ok()) return status;

  const ContextGuard guard(impl.driver, impl.context);
  if (guard.result() != CUDA_SUCCESS) return impl.failure(guard.result(), "making its context current");
  ScopedWorkspace scoped(impl, cu_stream);
  if (Status status = scoped.acquire(workspace, map.bytes); !status.ok()) return status;
  return launch(impl, *kernels, {*valid, call, *valid_output, lse, map}, scoped.address(), cu_stream);
}

Result<std::uint64_t> workspace_bytes(const AttentionCall& call) {
  const Result<ValidCall> valid = validate(call);
  if (!valid) return valid.status();
  const Result<KernelSpec> spec = specialize(configuration_for(call, Configuration().target));
  if (!spec) return spec.status();
  const Result<KernelPlan> plan = jfa::plan(*spec);
  if (!plan) return plan.status();
  const WorkspaceMap map = workspace_map(*plan, workspace_shape(*valid));
  if (Status status = check_items(*valid, map); !status.ok()) return status;
  return map.bytes;
}

Status status(Device& device, Workspace workspace, Stream stream) {
  const Device::Impl& impl = device.impl();
  if (workspace.address == 0)
    return Status::invalid_argument(
        "workspace.address is null: only a workspace that the caller gave can be read");
  if (Status valid = validate_workspace(workspace, sizeof(kernel::WorkspaceHeader)); !valid.ok())
    return valid;
  kernel::WorkspaceHeader header{};
  Status read = impl.with_context("running the attention", [&] {
    const CUstream cu_stream = static_cast<CUstream>(stream);
    const CUresult result =
        impl.driver.cuMemcpyDtoHAsync(&header, workspace.address, sizeof header, cu_stream);
    return result == CUDA_SUCCESS ? impl.driver.cuStreamSynchronize(cu_stream) : result;
  });
  if (!read.ok()) return read;
  const char* const names[] = {"", "query_offset", "key_offset", "output_offset"};
  if (header.bad_offset_name < 0 || header.bad_offset_name >= static_cast<int>(std::size(names)))
    return Status::invalid_argument(
        fmt::format("workspace {:#x} holds no result of forward()", workspace.address));
  if (header.bad_offset_name == kernel::kNoOffset) return {};
  return Status::invalid_argument(
      fmt::format("{}[{}] is {}: offsets start at 0, never decrease and stay within their tensor's rows",
                  names[header.bad_offset_name], header.bad_offset_index, header.bad_offset_value));
}

Status supported(const Configuration& configuration) {
  const Result<KernelSpec> spec = specialize(configuration);
  if (!spec) return spec.status();
  return jfa::plan(*spec).status();
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
  Configuration on_device = configuration;
  on_device.target = impl.target;
  const Result<KernelSpec> spec = specialize(on_device);
  if (!spec) return spec.status();
  return resolve(impl, *spec).status();
}

}  // namespace jfa
