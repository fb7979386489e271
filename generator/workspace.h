// Which part of a call's workspace is whose, and how much of it a plan needs.
#pragma once

#include <cstdint>

#include "generator/plan.h"

namespace jfa {

/// Rows of a tile that each head of a group takes for its `query_rows` queries: whole core matrices.
std::int64_t slot_rows(std::int64_t query_rows);

/// Parts of the list of all key tiles for as many CTAs, or clusters, as are `resident`: as many items, of a
/// part and a head each, as keep them evenly busy; at most `capacity`.
int broadcast_parts(int resident, std::int64_t key_heads, std::int64_t capacity);

/// What the size of the workspace depends on.
struct WorkspaceShape {
  std::int64_t batch = 0;
  std::int64_t query_rows = 0;  // of the query tensor: q_len with broadcast_q
  std::int64_t key_rows = 0;
  std::int64_t query_heads = 0;
};

/// Byte offsets into the workspace of one call.
struct WorkspaceMap {
  std::uint64_t header = 0;
  std::uint64_t tiles = 0;
  std::uint64_t split_tiles = 0;
  std::uint64_t partial_states = 0;
  std::uint64_t partial_output = 0;
  std::int64_t tile_capacity = 0;
  std::int64_t part_capacity = 0;  // 0: no tile's keys are cut into parts
  std::uint64_t bytes = 0;
};

WorkspaceMap workspace_map(const KernelPlan& plan, const WorkspaceShape& shape);

/// The same of a backward.
struct BackwardWorkspaceShape {
  WorkspaceShape call;
  std::int64_t output_rows = 0;
  std::int64_t head_dim = 0;
  bool pack_output_grad = false;  // its strides do not suit the tensor memory accelerator
};

struct BackwardWorkspaceMap {
  std::uint64_t header = 0;
  std::uint64_t query_tiles = 0;
  std::uint64_t key_tiles = 0;
  std::uint64_t query_runs = 0;
  std::uint64_t short_tiles = 0;
  std::uint64_t two_cta_tiles = 0;
  std::uint64_t delta = 0;
  std::uint64_t packed_output_grad = 0;
  std::uint64_t partial_query_grad = 0;
  std::int64_t query_tile_capacity = 0;
  std::int64_t key_tile_capacity = 0;
  std::int64_t query_run_capacity = 0;
  std::int64_t short_tile_capacity = 0;
  std::int64_t two_cta_tile_capacity = 0;
  std::int64_t query_parts = 0;   // with broadcast_q: parts of the batch whose query gradients are summed
  std::int64_t partial_rows = 0;  // query rows of one part, whole tiles
  // Of the broadcast entries, which take the place of the others' lists.
  std::uint64_t key_sequences = 0;
  std::int64_t broadcast_part_capacity = 0;
  std::int64_t two_cta_part_capacity = 0;  // of the list of all pairs' key tiles, which are fewer
  std::uint64_t bytes = 0;
};

BackwardWorkspaceMap backward_workspace_map(const KernelPlan& plan, const BackwardWorkspaceShape& shape);

}  // namespace jfa
