#include "runtime/launches.h"

#include <fmt/format.h>

#include <algorithm>
#include <numbers>

#include "runtime/tensor_maps.h"
#include "templates/attention/parameters.h"

namespace jfa {
namespace {

kernel::PrepareArguments prepare_arguments(const ForwardLaunches& launches, std::uint64_t workspace) {
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

kernel::ForwardArguments forward_arguments(const ForwardLaunches& launches, std::uint64_t workspace) {
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

kernel::MergeArguments merge_arguments(const ForwardLaunches& launches, std::uint64_t workspace) {
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

  Status launch(const LoadedEntry& entry, int ctas, void** arguments) const {
    CUlaunchConfig config{};
    config.gridDimX = static_cast<unsigned>(ctas);
    config.gridDimY = config.gridDimZ = config.blockDimY = config.blockDimZ = 1;
    config.blockDimX = static_cast<unsigned>(entry.plan.threads);
    config.sharedMemBytes = static_cast<unsigned>(entry.plan.shared_bytes);
    config.hStream = stream_;
    const CUresult result = device_.driver.cuLaunchKernelEx(&config, entry.function, arguments, nullptr);
    if (result == CUDA_SUCCESS) return {};
    return failure(result, fmt::format("launching {}", entry.plan.name));
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

}  // namespace

Status launch(const Device::Impl& device, const LoadedKernels& kernels, const ForwardLaunches& launches,
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

  const LoadedEntry& prepare_entry = kernels.entries[0];
  const LoadedEntry& main_entry = kernels.entries[1];
  const LoadedEntry& merge_entry = kernels.entries[2];
  kernel::PrepareArguments prepare = prepare_arguments(launches, workspace);
  void* prepare_pointers[] = {&prepare};
  if (Status status = launcher.launch(prepare_entry, 1, prepare_pointers); !status.ok()) return status;

  kernel::ForwardArguments forward = forward_arguments(launches, workspace);
  void* forward_pointers[] = {&maps[0], &maps[1], &maps[2], &maps[3], &forward};
  const std::int64_t items = launches.map.tile_capacity * launches.valid.query.heads;
  const int ctas = static_cast<int>(std::min<std::int64_t>(main_entry.resident_ctas, items));
  if (Status status = launcher.launch(main_entry, ctas, forward_pointers); !status.ok()) return status;
  if (launches.map.part_capacity == 0) return {};
  kernel::MergeArguments merge = merge_arguments(launches, workspace);
  void* merge_pointers[] = {&merge};
  return launcher.launch(merge_entry, main_entry.resident_ctas, merge_pointers);
}

}  // namespace jfa
