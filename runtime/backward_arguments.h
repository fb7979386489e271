// What the host hands to each entry of a backward call.
#pragma once

#include <cstdint>

#include "generator/backward_path.h"
#include "generator/workspace.h"
#include "runtime/backward_launches.h"
#include "templates/attention/backward_parameters.h"

namespace jfa {

/// The pieces of the workspace as the kernels see them.
struct BackwardPieces {
  kernel::WorkspaceHeader* header;
  kernel::QueryTile* query_tiles;
  kernel::KeyTile* key_tiles;
  kernel::QueryRun* query_runs;
  kernel::KeyTile* short_tiles;
  kernel::KeyTile* two_cta_tiles;
  kernel::KeySequence* key_sequences;
  float* delta;
  float* partial_query_grad;
};

BackwardPieces pieces_of(const BackwardWorkspaceMap& map, std::uint64_t workspace);

kernel::BackwardPrepareArguments prepare_arguments(const BackwardLaunches& launches,
                                                   const BackwardPieces& pieces,
                                                   const KeyRange& two_cta_keys);
/// packed_output_grad: its address; 0: it is taken as it lies.
kernel::DeltaArguments delta_arguments(const BackwardLaunches& launches, const BackwardPieces& pieces,
                                       std::uint64_t packed_output_grad);
kernel::BackwardArguments backward_arguments(const BackwardLaunches& launches, const BackwardPieces& pieces);
kernel::ShortArguments short_arguments(const BackwardLaunches& launches, const BackwardPieces& pieces);
/// tile_rows: of the key tiles that are listed.
kernel::BroadcastPrepareArguments broadcast_prepare_arguments(const BackwardLaunches& launches,
                                                              const BackwardPieces& pieces, int tile_rows);
kernel::BroadcastArguments broadcast_arguments(const BackwardLaunches& launches, const BackwardPieces& pieces,
                                               int parts);
/// Of a shared query. box_rows: of the tensor maps of the query's side.
kernel::TwoCtaArguments two_cta_broadcast_arguments(const BackwardLaunches& launches,
                                                    const BackwardPieces& pieces, int box_rows, int parts);
/// Of sequences that have queries of their own.
kernel::TwoCtaArguments two_cta_length_arguments(const BackwardLaunches& launches,
                                                 const BackwardPieces& pieces, int box_rows);
/// Of `parts` partial query gradients with `partial_rows` rows for every head.
kernel::SumArguments sum_arguments(const BackwardLaunches& launches, const BackwardPieces& pieces,
                                   std::int64_t parts, std::int64_t partial_rows);

}  // namespace jfa
