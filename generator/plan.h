// Every number of a kernel: tile sizes, stages, shared- and tensor-memory maps, launch shapes, workspace.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "generator/spec.h"

namespace jfa {

/// A piece of a CTA's shared memory, in bytes behind the alignment of its tiles, or of tensor memory, in
/// columns.
struct MemoryRegion {
  std::string name;
  int begin = 0;
  int size = 0;
};

/// A product of [m, k] and [k, n].
struct TileProduct {
  std::string name;
  int m = 0, n = 0, k = 0;
};

/// One __global__ function of the emitted source.
struct EntryPlan {
  /// kPersistent: as many CTAs as fit the device at once, each with the target's tensor memory. kStreaming:
  /// as many as fit, without.
  enum class Grid { kOneCta, kPersistent, kStreaming };
  std::string name;
  int threads = 0;
  int shared_bytes = 0;  // dynamic shared memory
  Grid grid = Grid::kOneCta;
  // For who reads the plan; the templates say the same in their own words.
  std::vector<MemoryRegion> shared_map = {};
  std::vector<MemoryRegion> tensor_map = {};
  std::vector<TileProduct> tile_products = {};  // what the tensor core does for one streamed tile
};

/// How one operand is cut for the tensor-map engine: boxes of box_dim columns, in a swizzle as wide.
struct OperandPlan {
  int box_dim = 64;         // columns of a box: 16, 32 or 64
  int swizzle_bytes = 128;  // 32, 64 or 128 = box_dim * 2
  int boxes = 2;            // padded_dim / box_dim
};

/// All gradients in one pass, of a query that the whole batch shares and whose heads of a group fit one tile.
struct BroadcastPlan {
  int query_tile = 128;        // rows
  int output_grad_rows = 128;  // of output gradient in flight
  int pair_stages = 2;         // tiles of keys and of values in flight
  EntryPlan prepare;
  EntryPlan main;
};

/// All gradients in one pass, of sequences whose keys fit one tile.
struct ShortPlan {
  int streamed_stages = 2;
  EntryPlan main;
};

/// The entries of a backward beside prepare, in the order of their launch.
struct BackwardPlan {
  int streamed_tile = 64;  // rows of the tiles that stream past the stationary ones, and of every box
  int streamed_stages = 2;
  EntryPlan delta;
  EntryPlan keys;                          // gradients of keys and values
  EntryPlan queries;                       // gradient of queries
  EntryPlan sum;                           // with broadcast_q: sums the parts of the query gradient
  std::optional<ShortPlan> short_keys;     // without broadcast_q: the other entries get the rest
  std::optional<BroadcastPlan> broadcast;  // with broadcast_q: instead of prepare, keys and queries
};

/// Rows of a tile that each head of a group takes for its `query_rows` queries: whole core matrices.
std::int64_t slot_rows(std::int64_t query_rows);

struct KernelPlan {
  KernelSpec spec;
  int query_tile = 128;  // rows
  int key_tile = 128;    // rows
  int query_stages = 2;
  int key_value_stages = 4;
  int output_box_rows = 128;  // rows of one box of the output's tensor map
  OperandPlan operand;
  int tensor_memory_columns = 0;  // 0: the target has none
  EntryPlan prepare;
  EntryPlan main;
  EntryPlan merge;                          // launched only if WorkspaceMap::part_capacity is not 0
  std::optional<BackwardPlan> backward;     // of a backward; main and merge are then empty
  std::vector<std::string_view> fragments;  // templates in the order in which they are emitted
};

Result<KernelPlan> plan(const KernelSpec& spec);

/// Whether a backward of a shared query of so many rows goes to BackwardPlan::broadcast.
bool takes_broadcast(const KernelPlan& plan, std::int64_t query_rows);

/// Parts of the list of all key tiles for `resident_ctas`: as many items, of a part and a head each, as keep
/// them evenly busy; at most `capacity`.
int broadcast_parts(int resident_ctas, std::int64_t key_heads, std::int64_t capacity);

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
  std::uint64_t delta = 0;
  std::uint64_t packed_output_grad = 0;
  std::uint64_t partial_query_grad = 0;
  std::int64_t query_tile_capacity = 0;
  std::int64_t key_tile_capacity = 0;
  std::int64_t query_run_capacity = 0;
  std::int64_t short_tile_capacity = 0;
  std::int64_t query_parts = 0;   // with broadcast_q: parts of the batch whose query gradients are summed
  std::int64_t partial_rows = 0;  // query rows of one part, whole tiles
  // Of the broadcast entries, which take the place of the others' lists.
  std::uint64_t key_sequences = 0;
  std::int64_t broadcast_part_capacity = 0;
  std::uint64_t bytes = 0;
};

BackwardWorkspaceMap backward_workspace_map(const KernelPlan& plan, const BackwardWorkspaceShape& shape);

/// All entries of the emitted source, in the order of their launch.
std::vector<const EntryPlan*> entries_of(const KernelPlan& plan);

/// Cycles that the tensor core of one multiprocessor takes at its full 16-bit rate for tile_products: the sum
/// of 2 m n k over the floating-point operations of a cycle, 8192 on 10.x and 4096 on 9.0; an m below 128 on
/// 10.x, 64 on 9.0, counts as that.
int tensor_core_cycles(const EntryPlan& entry, Target target);

/// The plan as JSON, for `jfa emit --format plan`.
std::string describe(const KernelPlan& plan);

}  // namespace jfa
