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
  kernel::KeySequence* key_sequences;
  float* delta;
  float* partial_query_grad;
};

Pieces pieces_of(const BackwardWorkspaceMap& map, std::uint64_t workspace) {
  return {reinterpret_cast<kernel::WorkspaceHeader*>(workspace + map.header),
          reinterpret_cast<kernel::QueryTile*>(workspace + map.query_tiles),
          reinterpret_cast<kernel::KeyTile*>(workspace + map.key_tiles),
          reinterpret_cast<kernel::QueryRun*>(workspace + map.query_runs),
          reinterpret_cast<kernel::KeySequence*>(workspace + map.key_sequences),
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

kernel::BroadcastArguments broadcast_arguments(const BackwardLaunches& launches, const Pieces& pieces,
                                               int parts) {
  const ValidCall& valid = launches.valid;
  kernel::BroadcastArguments arguments{};
  arguments.header = pieces.header;
  arguments.key_sequences = pieces.key_sequences;
  arguments.lse = reinterpret_cast<const float*>(launches.lse);
  arguments.delta = pieces.delta;
  arguments.partial_query_grad = pieces.partial_query_grad;
  arguments.scale = static_cast<float>(valid.scale);
  arguments.scale_log2 = static_cast<float>(valid.scale * std::numbers::log2e);
  arguments.query_heads = static_cast<int>(valid.query.heads);
  arguments.query_rows = static_cast<int>(valid.query.rows);
  arguments.output_rows = static_cast<int>(launches.tensors.output.rows);
  arguments.slot_rows = static_cast<int>(slot_rows(valid.query.rows));
  arguments.parts = parts;
  return arguments;
}

// Of `parts` partial query gradients with `partial_rows` rows for every head.
kernel::SumArguments sum_arguments(const BackwardLaunches& launches, const Pieces& pieces, std::int64_t parts,
                                   std::int64_t partial_rows) {
  const Tensor& query_grad = launches.tensors.query_grad;
  kernel::SumArguments arguments{};
  arguments.header = pieces.header;
  arguments.partial_query_grad = pieces.partial_query_grad;
  arguments.query_grad = reinterpret_cast<void*>(query_grad.address);
  arguments.row_stride = query_grad.row_stride;
  arguments.head_stride = query_grad.head_stride;
  arguments.parts = static_cast<int>(parts);
  arguments.query_heads = static_cast<int>(query_grad.heads);
  arguments.query_rows = static_cast<int>(query_grad.rows);
  arguments.partial_rows = static_cast<int>(partial_rows);
  arguments.head_dim = static_cast<int>(query_grad.head_dim);
  return arguments;
}

std::int64_t ctas_of_threads(const LoadedEntry& entry, std::int64_t threads) {
  return (threads + entry.plan.threads - 1) / entry.plan.threads;
}

// One call's launches, in the order in which they are enqueued.
class BackwardCall {
 public:
  BackwardCall(const Device::Impl& device, const LoadedKernels& kernels, const BackwardLaunches& launches,
               std::uint64_t workspace, CUstream stream)
      : launcher_(device, kernels, stream),
        kernels_(kernels),
        plan_(*kernels.plan.backward),
        launches_(launches),
        pieces_(pieces_of(launches.map, workspace)),
        workspace_(workspace),
        packed_(needs_packing(launches.tensors.output_grad) ? workspace + launches.map.packed_output_grad
                                                            : 0),
        output_grad_(as_tensor(launches.tensors.output_grad, packed_)) {}

  // Keys in place for their gradients and values', queries in place for theirs.
  Status launch_pair() const;
  // All gradients of a shared query in one pass.
  Status launch_broadcast() const;

 private:
  Status launch_delta() const;
  Status launch_sum(std::int64_t parts, std::int64_t partial_rows) const;

  const Launcher launcher_;
  const LoadedKernels& kernels_;
  const BackwardPlan& plan_;
  const BackwardLaunches& launches_;
  const Pieces pieces_;
  const std::uint64_t workspace_;
  const std::uint64_t packed_;  // address of the packed output gradient; 0: it is taken as it lies
  const Tensor output_grad_;
};

Status BackwardCall::launch_delta() const {
  constexpr std::int64_t kThreadsPerRow = 16;
  const LoadedEntry& entry = kernels_.entry(plan_.delta.name);
  const Tensor& output = launches_.tensors.output;
  kernel::DeltaArguments delta = delta_arguments(launches_, pieces_, packed_);
  void* pointers[] = {&delta};
  const std::int64_t threads = output.rows * output.heads * kThreadsPerRow;
  return launcher_.launch(entry, ctas_for(entry, ctas_of_threads(entry, threads)), pointers);
}

Status BackwardCall::launch_sum(std::int64_t parts, std::int64_t partial_rows) const {
  const LoadedEntry& entry = kernels_.entry(plan_.sum.name);
  const Tensor& query_grad = launches_.tensors.query_grad;
  kernel::SumArguments sum = sum_arguments(launches_, pieces_, parts, partial_rows);
  void* pointers[] = {&sum};
  const std::int64_t pairs = query_grad.rows * query_grad.heads * query_grad.head_dim / 2;
  return launcher_.launch(entry, ctas_for(entry, ctas_of_threads(entry, pairs)), pointers);
}

Status BackwardCall::launch_pair() const {
  const ValidCall& valid = launches_.valid;
  const ValidBackward& tensors = launches_.tensors;
  const BackwardWorkspaceMap& map = launches_.map;
  const int box_rows = kernels_.plan.output_box_rows;
  enum { kQuery, kKey, kValue, kOutputGrad, kKeyGrad, kValueGrad, kQueryGrad, kMaps };
  const MapOperand operands[kMaps] = {{"query", valid.query, box_rows},
                                      {"key", valid.key, box_rows},
                                      {"value", valid.value, box_rows},
                                      {"output_grad", output_grad_, box_rows},
                                      {"key_grad", tensors.key_grad, box_rows},
                                      {"value_grad", tensors.value_grad, box_rows},
                                      {"query_grad", tensors.query_grad, box_rows}};
  CUtensorMap maps[kMaps];
  if (Status status = launcher_.encode(operands, workspace_, maps); !status.ok()) return status;

  kernel::BackwardPrepareArguments prepare = prepare_arguments(launches_, pieces_);
  void* prepare_pointers[] = {&prepare};
  const LoadedEntry& prepare_entry = kernels_.entry(kernels_.plan.prepare.name);
  if (Status status = launcher_.launch(prepare_entry, 1, prepare_pointers); !status.ok()) return status;
  if (Status status = launch_delta(); !status.ok()) return status;

  kernel::BackwardArguments backward = backward_arguments(launches_, pieces_);
  void* keys_pointers[] = {&maps[kQuery],   &maps[kKey],       &maps[kValue], &maps[kOutputGrad],
                           &maps[kKeyGrad], &maps[kValueGrad], &backward};
  const LoadedEntry& keys_entry = kernels_.entry(plan_.keys.name);
  const int keys_ctas = ctas_for(keys_entry, map.key_tile_capacity * valid.key.heads);
  if (Status status = launcher_.launch(keys_entry, keys_ctas, keys_pointers); !status.ok()) return status;

  void* queries_pointers[] = {&maps[kQuery],      &maps[kKey],       &maps[kValue],
                              &maps[kOutputGrad], &maps[kQueryGrad], &backward};
  const LoadedEntry& queries_entry = kernels_.entry(plan_.queries.name);
  const int queries_ctas = ctas_for(queries_entry, map.query_run_capacity * valid.query.heads);
  if (Status status = launcher_.launch(queries_entry, queries_ctas, queries_pointers); !status.ok())
    return status;
  if (!kernels_.plan.spec.broadcast_q) return {};
  return launch_sum(map.query_parts, map.partial_rows);
}

Status BackwardCall::launch_broadcast() const {
  const ValidCall& valid = launches_.valid;
  const ValidBackward& tensors = launches_.tensors;
  const int box_rows = kernels_.plan.output_box_rows;
  const auto slot = static_cast<int>(slot_rows(valid.query.rows));
  enum { kQuery, kKey, kValue, kOutputGrad, kKeyGrad, kValueGrad, kMaps };
  const MapOperand operands[kMaps] = {{"query", valid.query, slot},
                                      {"key", valid.key, box_rows},
                                      {"value", valid.value, box_rows},
                                      {"output_grad", output_grad_, slot},
                                      {"key_grad", tensors.key_grad, box_rows},
                                      {"value_grad", tensors.value_grad, box_rows}};
  CUtensorMap maps[kMaps];
  if (Status status = launcher_.encode(operands, workspace_, maps); !status.ok()) return status;

  kernel::BroadcastPrepareArguments prepare{};
  prepare.common = prepare_arguments(valid, launches_.call, tensors.output.rows);
  prepare.common.header = pieces_.header;
  prepare.key_sequences = pieces_.key_sequences;
  void* prepare_pointers[] = {&prepare};
  const LoadedEntry& prepare_entry = kernels_.entry(plan_.broadcast->prepare.name);
  if (Status status = launcher_.launch(prepare_entry, 1, prepare_pointers); !status.ok()) return status;
  if (Status status = launch_delta(); !status.ok()) return status;

  const LoadedEntry& entry = kernels_.entry(plan_.broadcast->main.name);
  const int parts =
      broadcast_parts(entry.resident_ctas, valid.key.heads, launches_.map.broadcast_part_capacity);
  kernel::BroadcastArguments arguments = broadcast_arguments(launches_, pieces_, parts);
  void* pointers[] = {&maps[kQuery],   &maps[kKey],       &maps[kValue], &maps[kOutputGrad],
                      &maps[kKeyGrad], &maps[kValueGrad], &arguments};
  const int ctas = ctas_for(entry, parts * valid.key.heads);
  if (Status status = launcher_.launch(entry, ctas, pointers); !status.ok()) return status;
  return launch_sum(parts, slot);
}

}  // namespace

Status launch(const Device::Impl& device, const LoadedKernels& kernels, const BackwardLaunches& launches,
              std::uint64_t workspace, CUstream stream) {
  const BackwardCall call(device, kernels, launches, workspace, stream);
  return takes_broadcast(kernels.plan, launches.valid.query.rows) ? call.launch_broadcast()
                                                                  : call.launch_pair();
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
