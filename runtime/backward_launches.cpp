#include "runtime/backward_launches.h"

#include <iterator>
#include <numbers>
#include <span>

#include "generator/dtype.h"
#include "generator/workspace.h"
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
  kernel::KeyTile* short_tiles;
  kernel::KeySequence* key_sequences;
  float* delta;
  float* partial_query_grad;
};

Pieces pieces_of(const BackwardWorkspaceMap& map, std::uint64_t workspace) {
  return {reinterpret_cast<kernel::WorkspaceHeader*>(workspace + map.header),
          reinterpret_cast<kernel::QueryTile*>(workspace + map.query_tiles),
          reinterpret_cast<kernel::KeyTile*>(workspace + map.key_tiles),
          reinterpret_cast<kernel::QueryRun*>(workspace + map.query_runs),
          reinterpret_cast<kernel::KeyTile*>(workspace + map.short_tiles),
          reinterpret_cast<kernel::KeySequence*>(workspace + map.key_sequences),
          reinterpret_cast<float*>(workspace + map.delta),
          reinterpret_cast<float*>(workspace + map.partial_query_grad)};
}

kernel::BackwardPrepareArguments prepare_arguments(const BackwardLaunches& launches, const Pieces& pieces) {
  kernel::BackwardPrepareArguments arguments{};
  arguments.common =
      prepare_arguments(launches.valid, launches.call, launches.tensors.output.rows, launches.report);
  arguments.common.header = pieces.header;
  arguments.common.tiles = pieces.query_tiles;
  arguments.key_tiles = pieces.key_tiles;
  arguments.query_runs = pieces.query_runs;
  arguments.short_tiles = pieces.short_tiles;
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
  arguments.header = pieces.header;
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

kernel::ShortArguments short_arguments(const BackwardLaunches& launches, const Pieces& pieces) {
  kernel::ShortArguments arguments{};
  arguments.header = pieces.header;
  arguments.tiles = pieces.short_tiles;
  arguments.lse = reinterpret_cast<const float*>(launches.lse);
  arguments.lse_grad = reinterpret_cast<const float*>(launches.lse_grad);
  arguments.scale = static_cast<float>(launches.valid.scale);
  arguments.scale_log2 = static_cast<float>(launches.valid.scale * std::numbers::log2e);
  arguments.query_heads = static_cast<int>(launches.valid.query.heads);
  arguments.output_rows = static_cast<int>(launches.tensors.output.rows);
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
      : launcher_(device, kernels, stream, launches.watch),
        kernels_(kernels),
        plan_(kernels.plan.backward()),
        launches_(launches),
        pieces_(pieces_of(launches.map, workspace)),
        workspace_(workspace),
        packed_(needs_packing(launches.tensors.output_grad) ? workspace + launches.map.packed_output_grad
                                                            : 0),
        output_grad_(as_tensor(launches.tensors.output_grad, packed_)) {}

  // Short sequences in one pass, if there is an entry for them; the others with keys in place for their
  // gradients and values', and with queries in place for theirs.
  Status launch_by_length() const;
  // All gradients of a shared query in one pass.
  Status launch_broadcast() const;

 private:
  enum Map { kQuery, kKey, kValue, kOutputGrad, kKeyGrad, kValueGrad, kQueryGrad, kOutput, kMaps };
  // The first `count` of them. query_box_rows: of maps with the query's rows.
  Status encode(int count, int query_box_rows, CUtensorMap (&maps)[kMaps]) const;
  Status launch_prepare() const;
  // only_query_tiles: no rows but those of prepare's query tiles, unless all must be packed.
  Status launch_delta(bool only_query_tiles) const;
  Status launch_short(CUtensorMap (&maps)[kMaps]) const;
  Status launch_pair(CUtensorMap (&maps)[kMaps]) const;
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

Status BackwardCall::encode(int count, int query_box_rows, CUtensorMap (&maps)[kMaps]) const {
  const int box_rows = kernels_.plan.output_box_rows;
  const ValidCall& valid = launches_.valid;
  const ValidBackward& tensors = launches_.tensors;
  const MapOperand operands[kMaps] = {{"query", valid.query, query_box_rows},
                                      {"key", valid.key, box_rows},
                                      {"value", valid.value, box_rows},
                                      {"output_grad", output_grad_, query_box_rows},
                                      {"key_grad", tensors.key_grad, box_rows},
                                      {"value_grad", tensors.value_grad, box_rows},
                                      {"query_grad", tensors.query_grad, query_box_rows},
                                      {"output", tensors.output, query_box_rows}};
  return launcher_.encode(std::span(operands).first(static_cast<std::size_t>(count)), workspace_, maps);
}

Status BackwardCall::launch_prepare() const {
  kernel::BackwardPrepareArguments prepare = prepare_arguments(launches_, pieces_);
  void* pointers[] = {&prepare};
  return launcher_.launch(kernels_.entry(plan_.prepare.name), 1, pointers);
}

Status BackwardCall::launch_delta(bool only_query_tiles) const {
  constexpr std::int64_t kThreadsPerRow = 16;
  const LoadedEntry& entry = kernels_.entry(plan_.delta.name);
  const Tensor& output = launches_.tensors.output;
  kernel::DeltaArguments delta = delta_arguments(launches_, pieces_, packed_);
  if (only_query_tiles && packed_ == 0) delta.query_tiles = pieces_.query_tiles;
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

Status BackwardCall::launch_short(CUtensorMap (&maps)[kMaps]) const {
  const LoadedEntry& entry = kernels_.entry(plan_.short_keys->main.name);
  kernel::ShortArguments arguments = short_arguments(launches_, pieces_);
  void* pointers[] = {&maps[kQuery],   &maps[kKey],        &maps[kValue],
                      &maps[kOutput],  &maps[kOutputGrad], &maps[kQueryGrad],
                      &maps[kKeyGrad], &maps[kValueGrad],  &arguments};
  const std::int64_t items = launches_.map.short_tile_capacity * launches_.valid.key.heads;
  return launcher_.launch(entry, ctas_for(entry, items), pointers);
}

Status BackwardCall::launch_pair(CUtensorMap (&maps)[kMaps]) const {
  const ValidCall& valid = launches_.valid;
  const BackwardWorkspaceMap& map = launches_.map;
  kernel::BackwardArguments arguments = backward_arguments(launches_, pieces_);
  void* keys_pointers[] = {&maps[kQuery],   &maps[kKey],       &maps[kValue], &maps[kOutputGrad],
                           &maps[kKeyGrad], &maps[kValueGrad], &arguments};
  const LoadedEntry& keys_entry = kernels_.entry(plan_.keys.name);
  const int keys_ctas = ctas_for(keys_entry, map.key_tile_capacity * valid.key.heads);
  if (Status status = launcher_.launch(keys_entry, keys_ctas, keys_pointers); !status.ok()) return status;

  void* queries_pointers[] = {&maps[kQuery],      &maps[kKey],       &maps[kValue],
                              &maps[kOutputGrad], &maps[kQueryGrad], &arguments};
  const LoadedEntry& queries_entry = kernels_.entry(plan_.queries.name);
  const int queries_ctas = ctas_for(queries_entry, map.query_run_capacity * valid.query.heads);
  return launcher_.launch(queries_entry, queries_ctas, queries_pointers);
}

Status BackwardCall::launch_by_length() const {
  const bool has_short = plan_.short_keys.has_value();
  // No sequence has more keys than there are.
  const bool all_short = has_short && launches_.valid.key.rows <= kernels_.plan.key_tile;
  CUtensorMap maps[kMaps];
  if (Status status = encode(has_short ? kMaps : kOutput, kernels_.plan.output_box_rows, maps); !status.ok())
    return status;
  if (Status status = launch_prepare(); !status.ok()) return status;
  if (!all_short || packed_ != 0) {
    if (Status status = launch_delta(has_short); !status.ok()) return status;
  }
  if (has_short) {
    if (Status status = launch_short(maps); !status.ok()) return status;
  }
  if (!all_short) {
    if (Status status = launch_pair(maps); !status.ok()) return status;
  }
  if (!kernels_.plan.spec.broadcast_q) return {};
  return launch_sum(launches_.map.query_parts, launches_.map.partial_rows);
}

Status BackwardCall::launch_broadcast() const {
  const ValidCall& valid = launches_.valid;
  const auto slot = static_cast<int>(slot_rows(valid.query.rows));
  CUtensorMap maps[kMaps];
  if (Status status = encode(kQueryGrad, slot, maps); !status.ok()) return status;

  kernel::BroadcastPrepareArguments prepare{};
  prepare.common = prepare_arguments(valid, launches_.call, launches_.tensors.output.rows, launches_.report);
  prepare.common.header = pieces_.header;
  prepare.key_sequences = pieces_.key_sequences;
  void* prepare_pointers[] = {&prepare};
  const LoadedEntry& prepare_entry = kernels_.entry(plan_.broadcast->prepare.name);
  if (Status status = launcher_.launch(prepare_entry, 1, prepare_pointers); !status.ok()) return status;
  if (Status status = launch_delta(false); !status.ok()) return status;

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
                                                                  : call.launch_by_length();
}

CUresult clear_tensor(const DriverTable& driver, const Tensor& tensor, CUstream stream) {
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
