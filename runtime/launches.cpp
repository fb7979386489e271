#include "runtime/launches.h"

#include <iterator>
#include <numbers>

#include "runtime/launcher.h"
#include "templates/attention/parameters.h"

namespace jfa {

kernel::PrepareArguments prepare_arguments(const ValidCall& valid, const AttentionCall& call,
                                           std::int64_t output_rows, kernel::OffsetReport* report) {
  kernel::PrepareArguments arguments{};
  const auto set = [](const Offsets& offsets, const void*& address, int& is_64) {
    address = reinterpret_cast<const void*>(offsets.address);
    is_64 = offsets.type == OffsetType::int64;
  };
  if (!call.broadcast_q) set(call.query_offset, arguments.query_offset, arguments.query_offset_is_64);
  set(call.key_offset, arguments.key_offset, arguments.key_offset_is_64);
  if (call.output_offset) set(*call.output_offset, arguments.output_offset, arguments.output_offset_is_64);
  arguments.batch = static_cast<int>(valid.batch);
  arguments.query_rows = static_cast<int>(valid.query.rows);
  arguments.key_rows = static_cast<int>(valid.key.rows);
  arguments.output_rows = static_cast<int>(output_rows);
  arguments.query_heads = static_cast<int>(valid.query.heads);
  arguments.report = report;
  return arguments;
}

namespace {

kernel::ForwardArguments forward_arguments(const ForwardLaunches& launches, std::uint64_t workspace) {
  kernel::ForwardArguments arguments{};
  arguments.header = reinterpret_cast<kernel::WorkspaceHeader*>(workspace + launches.map.header);
  arguments.tiles = reinterpret_cast<const kernel::QueryTile*>(workspace + launches.map.tiles);
  arguments.lse = reinterpret_cast<float*>(launches.lse);
  arguments.partial_output = reinterpret_cast<float*>(workspace + launches.map.partial_output);
  arguments.partial_states = reinterpret_cast<kernel::PartialState*>(workspace + launches.map.partial_states);
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
  arguments.partial_states =
      reinterpret_cast<const kernel::PartialState*>(workspace + launches.map.partial_states);
  arguments.output = reinterpret_cast<void*>(launches.output.address);
  arguments.output_row_stride = launches.output.row_stride;
  arguments.output_head_stride = launches.output.head_stride;
  arguments.lse = reinterpret_cast<float*>(launches.lse);
  arguments.query_heads = static_cast<int>(launches.valid.query.heads);
  arguments.output_rows = static_cast<int>(launches.output.rows);
  arguments.head_dim = static_cast<int>(launches.output.head_dim);
  return arguments;
}

}  // namespace

Status launch(const Device::Impl& device, const LoadedKernels& kernels, const ForwardLaunches& launches,
              std::uint64_t workspace, CUstream stream) {
  const Launcher launcher(device, kernels, stream, launches.watch);
  const KernelPlan& plan = kernels.plan;
  const MapOperand operands[] = {{"query", launches.valid.query, plan.operand, plan.query_tile},
                                 {"key", launches.valid.key, plan.operand, plan.key_tile},
                                 {"value", launches.valid.value, plan.operand, plan.key_tile},
                                 {"output", launches.output, plan.operand, plan.output_box_rows}};
  CUtensorMap maps[std::size(operands)];
  if (Status status = launcher.encode(operands, workspace, maps); !status.ok()) return status;

  const ForwardPlan& entries = plan.forward();
  const LoadedEntry& prepare_entry = kernels.entry(entries.prepare.name);
  const LoadedEntry& main_entry = kernels.entry(entries.main.name);
  const LoadedEntry& merge_entry = kernels.entry(entries.merge.name);
  kernel::PrepareArguments prepare =
      prepare_arguments(launches.valid, launches.call, launches.output.rows, launches.report);
  prepare.part_capacity = static_cast<int>(launches.map.part_capacity);
  prepare.header = reinterpret_cast<kernel::WorkspaceHeader*>(workspace + launches.map.header);
  prepare.tiles = reinterpret_cast<kernel::QueryTile*>(workspace + launches.map.tiles);
  prepare.split_tiles = reinterpret_cast<kernel::SplitTile*>(workspace + launches.map.split_tiles);
  void* prepare_pointers[] = {&prepare};
  if (Status status = launcher.launch(prepare_entry, 1, prepare_pointers); !status.ok()) return status;

  kernel::ForwardArguments forward = forward_arguments(launches, workspace);
  void* forward_pointers[] = {&maps[0], &maps[1], &maps[2], &maps[3], &forward};
  const std::int64_t items = launches.map.tile_capacity * launches.valid.query.heads;
  if (Status status =
          launcher.launch(main_entry, ctas_for(main_entry, items), forward_pointers, Start::kOverlapping);
      !status.ok())
    return status;
  if (launches.map.part_capacity == 0) return {};
  kernel::MergeArguments merge = merge_arguments(launches, workspace);
  void* merge_pointers[] = {&merge};
  return launcher.launch(merge_entry, merge_entry.resident_ctas, merge_pointers, Start::kOverlapping);
}

}  // namespace jfa
