#include "runtime/backward_arguments.h"

#include <numbers>

#include "runtime/launches.h"

namespace jfa {
namespace {

// What both forms of the entry of CTA pairs need.
kernel::TwoCtaArguments two_cta_arguments(const BackwardLaunches& launches, const BackwardPieces& pieces) {
  const ValidCall& valid = launches.valid;
  const ValidBackward& tensors = launches.tensors;
  kernel::TwoCtaArguments arguments{};
  arguments.header = pieces.header;
  arguments.lse = reinterpret_cast<const float*>(launches.lse);
  arguments.delta = pieces.delta;
  arguments.key_grad = reinterpret_cast<void*>(tensors.key_grad.address);
  arguments.value_grad = reinterpret_cast<void*>(tensors.value_grad.address);
  arguments.key_grad_row_stride = tensors.key_grad.row_stride;
  arguments.key_grad_head_stride = tensors.key_grad.head_stride;
  arguments.value_grad_row_stride = tensors.value_grad.row_stride;
  arguments.value_grad_head_stride = tensors.value_grad.head_stride;
  arguments.scale = static_cast<float>(valid.scale);
  arguments.scale_log2 = static_cast<float>(valid.scale * std::numbers::log2e);
  arguments.query_heads = static_cast<int>(valid.query.heads);
  arguments.query_rows = static_cast<int>(valid.query.rows);
  arguments.output_rows = static_cast<int>(tensors.output.rows);
  arguments.head_dim = static_cast<int>(valid.query.head_dim);
  return arguments;
}

}  // namespace

BackwardPieces pieces_of(const BackwardWorkspaceMap& map, std::uint64_t workspace) {
  return {reinterpret_cast<kernel::WorkspaceHeader*>(workspace + map.header),
          reinterpret_cast<kernel::QueryTile*>(workspace + map.query_tiles),
          reinterpret_cast<kernel::KeyTile*>(workspace + map.key_tiles),
          reinterpret_cast<kernel::QueryRun*>(workspace + map.query_runs),
          reinterpret_cast<kernel::KeyTile*>(workspace + map.short_tiles),
          reinterpret_cast<kernel::KeyTile*>(workspace + map.two_cta_tiles),
          reinterpret_cast<kernel::KeySequence*>(workspace + map.key_sequences),
          reinterpret_cast<float*>(workspace + map.delta),
          reinterpret_cast<float*>(workspace + map.partial_query_grad)};
}

kernel::BackwardPrepareArguments prepare_arguments(const BackwardLaunches& launches,
                                                   const BackwardPieces& pieces,
                                                   const KeyRange& two_cta_keys) {
  kernel::BackwardPrepareArguments arguments{};
  arguments.common =
      prepare_arguments(launches.valid, launches.call, launches.tensors.output.rows, launches.report);
  arguments.common.header = pieces.header;
  arguments.common.tiles = pieces.query_tiles;
  arguments.key_tiles = pieces.key_tiles;
  arguments.query_runs = pieces.query_runs;
  arguments.short_tiles = pieces.short_tiles;
  arguments.two_cta_tiles = pieces.two_cta_tiles;
  arguments.two_cta_least_keys = two_cta_keys.least;
  arguments.two_cta_most_keys = two_cta_keys.most;
  arguments.query_parts = static_cast<int>(launches.map.query_parts);
  return arguments;
}

kernel::DeltaArguments delta_arguments(const BackwardLaunches& launches, const BackwardPieces& pieces,
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

kernel::BackwardArguments backward_arguments(const BackwardLaunches& launches, const BackwardPieces& pieces) {
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

kernel::ShortArguments short_arguments(const BackwardLaunches& launches, const BackwardPieces& pieces) {
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

kernel::BroadcastPrepareArguments broadcast_prepare_arguments(const BackwardLaunches& launches,
                                                              const BackwardPieces& pieces, int tile_rows) {
  kernel::BroadcastPrepareArguments arguments{};
  arguments.common =
      prepare_arguments(launches.valid, launches.call, launches.tensors.output.rows, launches.report);
  arguments.common.header = pieces.header;
  arguments.key_sequences = pieces.key_sequences;
  arguments.tile_rows = tile_rows;
  return arguments;
}

kernel::BroadcastArguments broadcast_arguments(const BackwardLaunches& launches, const BackwardPieces& pieces,
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

kernel::SumArguments sum_arguments(const BackwardLaunches& launches, const BackwardPieces& pieces,
                                   std::int64_t parts, std::int64_t partial_rows) {
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

kernel::TwoCtaArguments two_cta_broadcast_arguments(const BackwardLaunches& launches,
                                                    const BackwardPieces& pieces, int box_rows, int parts) {
  kernel::TwoCtaArguments arguments = two_cta_arguments(launches, pieces);
  arguments.key_sequences = pieces.key_sequences;
  arguments.partial_query_grad = pieces.partial_query_grad;
  arguments.slot_rows = static_cast<int>(slot_rows(launches.valid.query.rows));
  arguments.parts = parts;
  arguments.box_rows = box_rows;
  return arguments;
}

kernel::TwoCtaArguments two_cta_length_arguments(const BackwardLaunches& launches,
                                                 const BackwardPieces& pieces, int box_rows) {
  kernel::TwoCtaArguments arguments = two_cta_arguments(launches, pieces);
  const Tensor& query_grad = launches.tensors.query_grad;
  arguments.tiles = pieces.two_cta_tiles;
  arguments.query_grad = reinterpret_cast<void*>(query_grad.address);
  arguments.query_grad_row_stride = query_grad.row_stride;
  arguments.query_grad_head_stride = query_grad.head_stride;
  arguments.box_rows = box_rows;
  return arguments;
}

}  // namespace jfa
