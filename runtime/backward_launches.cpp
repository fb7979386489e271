#include "runtime/backward_launches.h"

#include <iterator>
#include <numbers>

#include "runtime/launcher.h"
#include "runtime/launches.h"
#include "templates/attention/backward_parameters.h"

namespace jfa {
namespace {

// The pieces of the workspace as the kernels see them.
struct Pieces {
  kernel::WorkspaceHeader* header;
  kernel::QueryTile* query_tiles;
  kernel::KeyTile* key_tiles;
  kernel::QueryRun* query_runs;
  float* delta;
  float* partial_query_grad;
};

Pieces pieces_of(const BackwardWorkspaceMap& map, std::uint64_t workspace) {
  return {reinterpret_cast<kernel::WorkspaceHeader*>(workspace + map.header),
          reinterpret_cast<kernel::QueryTile*>(workspace + map.query_tiles),
          reinterpret_cast<kernel::KeyTile*>(workspace + map.key_tiles),
          reinterpret_cast<kernel::QueryRun*>(workspace + map.query_runs),
          reinterpret_cast<float*>(workspace + map.delta),
          reinterpret_cast<float*>(workspace + map.partial_query_grad)};
}

kernel::BackwardPrepareArguments prepare_arguments(const BackwardLaunches& launches, const Pieces& pieces) {
  kernel::BackwardPrepareArguments arguments{};
  arguments.common = prepare_arguments(launches.valid, launches.call, launches.tensors.output.rows);
  arguments.common.header = pieces.header;
  arguments.common.tiles = pieces.query_tiles;
  arguments.key_tiles = pieces.key_tiles;
  arguments.query_runs = pieces.query_runs;
  arguments.query_parts = static_cast<int>(launches.map.query_parts);
  return arguments;
}

kernel::DeltaArguments delta_arguments(const BackwardLaunches& launches, const Pieces& pieces,
                                       std::uint64_t packed_output_grad) {
  const Tensor& output = launches.tensors.output;
  const OutputGradient& output_grad = launches.tensors.output_grad;
  kernel::DeltaArguments arguments{};
  arguments.output = reinterpret_cast<const void*>(output.address);
  arguments.output_grad = reinterpret_cast<const void*>(output_grad.address);
  arguments.packed_output_grad = reinterpret_cast<void*>(packed_output_grad);
  arguments.lse_grad = reinterpret_cast<const float*>(launches.lse_grad);
  arguments.delta = pieces.delta;
  arguments.output_row_stride = output.row_stride;
  arguments.output_head_stride = output.head_stride;
  arguments.output_grad_row_stride = output_grad.row_stride;
  arguments.output_grad_head_stride = output_grad.head_stride;
  arguments.output_grad_dim_stride = output_grad.dim_stride;
  arguments.query_heads = static_cast<int>(output.heads);
  arguments.output_rows = static_cast<int>(output.rows);
  arguments.head_dim = static_cast<int>(output.head_dim);
  return arguments;
}

kernel::BackwardArguments backward_arguments(const BackwardLaunches& launches, const Pieces& pieces) {
  kernel::BackwardArguments arguments{};
  arguments.header = pieces.header;
  arguments.key_tiles = pieces.key_tiles;
  arguments.query_tiles = pieces.query_tiles;
  arguments.query_runs = pieces.query_runs;
  arguments.lse = reinterpret_cast<const float*>(launches.lse);
  arguments.delta = pieces.delta;
  arguments.partial_query_grad = pieces.partial_query_grad;
  arguments.scale = static_cast<float>(launches.valid.scale);
  arguments.scale_log2 = static_cast<float>(launches.valid.scale * std::numbers::log2e);
  arguments.query_heads = static_cast<int>(launches.valid.query.heads);
  arguments.output_rows = static_cast<int>(launches.tensors.output.rows);
  arguments.partial_rows = static_cast<int>(launches.map.partial_rows);
  return arguments;
}

kernel::SumArguments sum_arguments(const BackwardLaunches& launches, const Pieces& pieces) {
  const Tensor& query_grad = launches.tensors.query_grad;
  kernel::SumArguments arguments{};
  arguments.header = pieces.header;
  arguments.partial_query_grad = pieces.partial_query_grad;
  arguments.query_grad = reinterpret_cast<void*>(query_grad.address);
  arguments.row_stride = query_grad.row_stride;
  arguments.head_stride = query_grad.head_stride;
  arguments.parts = static_cast<int>(launches.map.query_parts);
  arguments.query_heads = static_cast<int>(query_grad.heads);
  arguments.query_rows = static_cast<int>(query_grad.rows);
  arguments.partial_rows = static_cast<int>(launches.map.partial_rows);
  arguments.head_dim = static_cast<int>(query_grad.head_dim);
  return arguments;
}

std::int64_t ctas_of_threads(const LoadedEntry& entry, std::int64_t threads) {
  return (threads + entry.plan.threads - 1) / entry.plan.threads;
}

}  // namespace

Status launch(const Device::Impl& device, const LoadedKernels& kernels, const BackwardLaunches& launches,
              std::uint64_t workspace, CUstream stream) {
  const Launcher launcher(device, kernels, stream);
  const ValidCall& valid = launches.valid;
  const ValidBackward& tensors = launches.tensors;
  const BackwardWorkspaceMap& map = launches.map;
  const Pieces pieces = pieces_of(map, workspace);
  const std::uint64_t packed = needs_packing(tensors.output_grad) ? workspace + map.packed_output_grad : 0;
  const Tensor output_grad = as_tensor(tensors.output_grad, packed);

  const int box_rows = kernels.plan.output_box_rows;
  enum { kQuery, kKey, kValue, kOutputGrad, kKeyGrad, kValueGrad, kQueryGrad, kMaps };
  const MapOperand operands[kMaps] = {{"query", valid.query, box_rows},
                                      {"key", valid.key, box_rows},
                                      {"value", valid.value, box_rows},
                                      {"output_grad", output_grad, box_rows},
                                      {"key_grad", tensors.key_grad, box_rows},
                                      {"value_grad", tensors.value_grad, box_rows},
                                      {"query_grad", tensors.query_grad, box_rows}};
  CUtensorMap maps[kMaps];
  if (Status status = launcher.encode(operands, workspace, maps); !status.ok()) return status;

  const LoadedEntry& prepare_entry = kernels.entries[0];
  const LoadedEntry& delta_entry = kernels.entries[1];
  const LoadedEntry& keys_entry = kernels.entries[2];
  const LoadedEntry& queries_entry = kernels.entries[3];

  kernel::BackwardPrepareArguments prepare = prepare_arguments(launches, pieces);
  void* prepare_pointers[] = {&prepare};
  if (Status status = launcher.launch(prepare_entry, 1, prepare_pointers); !status.ok()) return status;

  kernel::DeltaArguments delta = delta_arguments(launches, pieces, packed);
  void* delta_pointers[] = {&delta};
  constexpr std::int64_t kThreadsPerDeltaRow = 16;
  const std::int64_t delta_threads = tensors.output.rows * tensors.output.heads * kThreadsPerDeltaRow;
  const int delta_ctas = ctas_for(delta_entry, ctas_of_threads(delta_entry, delta_threads));
  if (Status status = launcher.launch(delta_entry, delta_ctas, delta_pointers); !status.ok()) return status;

  kernel::BackwardArguments backward = backward_arguments(launches, pieces);
  void* keys_pointers[] = {&maps[kQuery],   &maps[kKey],       &maps[kValue], &maps[kOutputGrad],
                           &maps[kKeyGrad], &maps[kValueGrad], &backward};
  const int keys_ctas = ctas_for(keys_entry, map.key_tile_capacity * valid.key.heads);
  if (Status status = launcher.launch(keys_entry, keys_ctas, keys_pointers); !status.ok()) return status;

  void* queries_pointers[] = {&maps[kQuery],      &maps[kKey],       &maps[kValue],
                              &maps[kOutputGrad], &maps[kQueryGrad], &backward};
  const int queries_ctas = ctas_for(queries_entry, map.query_run_capacity * valid.query.heads);
  if (Status status = launcher.launch(queries_entry, queries_ctas, queries_pointers); !status.ok())
    return status;

  if (!kernels.plan.spec.broadcast_q) return {};
  const LoadedEntry& sum_entry = kernels.entries[4];
  kernel::SumArguments sum = sum_arguments(launches, pieces);
  void* sum_pointers[] = {&sum};
  const Tensor& query_grad = tensors.query_grad;
  const std::int64_t pairs = query_grad.rows * query_grad.heads * query_grad.head_dim / 2;
  const int sum_ctas = ctas_for(sum_entry, ctas_of_threads(sum_entry, pairs));
  return launcher.launch(sum_entry, sum_ctas, sum_pointers);
}

CUresult clear_tensor(const DriverTable& driver, const Tensor& tensor, CUstream stream) {
  constexpr std::int64_t kElementBytes = 2;
  constexpr std::int64_t kMostPitch = 0x7fffffff;  // bytes from row to row that the driver takes
  if (tensor.rows == 0 || tensor.heads == 0) return CUDA_SUCCESS;
  // A rectangle for every head, or one for all of them where they lie side by side.
  const bool dense = tensor.head_stride == tensor.head_dim;
  const std::int64_t columns = dense ? tensor.heads : 1;
  const std::int64_t width = columns * tensor.head_dim * kElementBytes;
  const std::int64_t pitch = tensor.row_stride * kElementBytes;
  const std::int64_t height = pitch <= kMostPitch ? tensor.rows : 1;
  for (std::int64_t row = 0; row < tensor.rows; row += height) {
    for (std::int64_t head = 0; head < tensor.heads; head += columns) {
      const std::int64_t element = row * tensor.row_stride + head * tensor.head_stride;
      const CUresult result =
          driver.cuMemsetD2D8Async(tensor.address + static_cast<std::uint64_t>(element * kElementBytes),
                                   static_cast<std::size_t>(height == 1 ? width : pitch), 0,
                                   static_cast<std::size_t>(width), static_cast<std::size_t>(height), stream);
      if (result != CUDA_SUCCESS) return result;
    }
  }
  return CUDA_SUCCESS;
}

}  // namespace jfa
