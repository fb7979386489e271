#include "generator/workspace.h"

#include <algorithm>

#include "generator/dtype.h"
#include "templates/attention/backward_parameters.h"
#include "templates/attention/parameters.h"

namespace jfa {
namespace {

// An even division of the work leaves no more than this share of the multiprocessors idle.
constexpr double kMostIdle = 0.05;

constexpr std::uint64_t kWorkspaceAlignment = 256;

std::uint64_t align_up(std::uint64_t bytes) {
  return (bytes + kWorkspaceAlignment - 1) / kWorkspaceAlignment * kWorkspaceAlignment;
}

// Hands out aligned pieces of a workspace, from its start.
class Pieces {
 public:
  std::uint64_t take(std::int64_t count, std::size_t element_bytes) {
    const std::uint64_t begin = end_;
    end_ = align_up(end_ + static_cast<std::uint64_t>(count) * element_bytes);
    return begin;
  }
  std::uint64_t bytes() const { return end_; }

 private:
  std::uint64_t end_ = 0;
};

std::int64_t tiles_of(std::int64_t rows, std::int64_t tile) { return (rows + tile - 1) / tile; }

// Tiles of `rows` rows in `sequences` sequences: every sequence starts a tile of its own, so at most one
// partial tile each.
std::int64_t most_tiles(std::int64_t rows, std::int64_t sequences, std::int64_t tile) {
  return std::min(rows, rows / tile + sequences);
}

}  // namespace

std::int64_t slot_rows(std::int64_t query_rows) {
  constexpr std::int64_t kCoreMatrixRows = 8;
  return tiles_of(query_rows, kCoreMatrixRows) * kCoreMatrixRows;
}

int broadcast_parts(int resident, std::int64_t key_heads, std::int64_t capacity) {
  std::int64_t best = 1;
  double least_idle = 1;
  for (std::int64_t rounds = 1; rounds <= capacity; ++rounds) {
    const std::int64_t wanted = std::max<std::int64_t>(1, rounds * resident / key_heads);
    if (wanted > capacity && rounds > 1) break;
    const std::int64_t parts = std::min(wanted, capacity);  // few tiles: one a part
    const std::int64_t items = parts * key_heads;
    const std::int64_t places = tiles_of(items, resident) * resident;
    const double idle = 1 - static_cast<double>(items) / static_cast<double>(places);
    if (idle < least_idle) {
      best = parts;
      least_idle = idle;
    }
    if (idle <= kMostIdle) break;
  }
  return static_cast<int>(best);
}

WorkspaceMap workspace_map(const KernelPlan& plan, const WorkspaceShape& shape) {
  const std::int64_t tile = plan.query_tile;
  const SplitPlan& split = plan.forward().split;
  WorkspaceMap map;
  const std::int64_t whole_tiles = plan.spec.broadcast_q ? shape.batch * tiles_of(shape.query_rows, tile)
                                                         : most_tiles(shape.query_rows, shape.batch, tile);
  const std::int64_t items = whole_tiles * shape.query_heads;
  const bool is_long = shape.key_rows >= split.long_key_tiles * std::int64_t{plan.key_tile} * shape.batch;
  const std::int64_t most_items = is_long ? split.long_items : split.items;
  if (items > 0 && items <= most_items && shape.key_rows > split.least_part_tiles * plan.key_tile) {
    map.part_capacity = (split.parts + most_items + shape.query_heads) / shape.query_heads;
  }
  map.tile_capacity = whole_tiles + map.part_capacity;
  const std::int64_t partial_rows = map.part_capacity * shape.query_heads * tile;
  Pieces pieces;
  map.header = pieces.take(1, sizeof(kernel::WorkspaceHeader));
  map.tiles = pieces.take(map.tile_capacity, sizeof(kernel::QueryTile));
  map.split_tiles = pieces.take(map.part_capacity, sizeof(kernel::SplitTile));
  map.partial_states = pieces.take(partial_rows, sizeof(kernel::PartialState));
  map.partial_output = pieces.take(partial_rows * plan.spec.padded_dim, sizeof(float));
  map.bytes = pieces.bytes();
  return map;
}

BackwardWorkspaceMap backward_workspace_map(const KernelPlan& plan, const BackwardWorkspaceShape& shape) {
  const WorkspaceShape& call = shape.call;
  BackwardWorkspaceMap map;
  // Rows that no sequence owns, before the first and behind the last, are tiled as if they were two more.
  // Of sequences aligned at their ends the rows at the beginning that see nothing are, of one side, another
  // one.
  const bool aligned_at_ends = plan.spec.visibility.alignment == Alignment::bottom_right;
  const std::int64_t sequences = call.batch * (aligned_at_ends ? 2 : 1) + 2;
  map.key_tile_capacity = most_tiles(call.key_rows, sequences, plan.key_tile);
  std::int64_t partial_elements = 0;
  if (plan.spec.broadcast_q) {
    const std::int64_t tiles = tiles_of(call.query_rows, plan.query_tile);
    const std::int64_t items = std::max<std::int64_t>(1, tiles * call.query_heads);
    map.query_parts =
        std::min(call.batch, std::max<std::int64_t>(1, plan.backward().query_grad_items / items));
    map.partial_rows = tiles * plan.query_tile;
    map.query_tile_capacity = call.batch * tiles;
    map.query_run_capacity = tiles * map.query_parts;
    partial_elements = map.query_parts * call.query_heads * map.partial_rows * plan.spec.padded_dim;
    // The same for all targets, whether they have the entry or not: who asks for bytes names no device.
    const std::int64_t key_heads = call.query_heads / plan.spec.groups;
    map.broadcast_part_capacity =
        std::min(map.key_tile_capacity,
                 tiles_of(plan.backward().broadcast_items, std::max<std::int64_t>(1, key_heads)));
    partial_elements = std::max(partial_elements, map.broadcast_part_capacity * call.query_heads *
                                                      slot_rows(call.query_rows) * plan.spec.padded_dim);
    map.two_cta_part_capacity =
        std::min(map.broadcast_part_capacity, most_tiles(call.key_rows, sequences, 2 * plan.key_tile));
  } else {
    map.query_tile_capacity = map.query_run_capacity =
        most_tiles(call.query_rows, sequences, plan.query_tile);
    // As for a shared query the same for all targets: either side's tiles, of sequences without the other.
    map.short_tile_capacity = map.key_tile_capacity + map.query_tile_capacity;
    map.two_cta_tile_capacity = std::min({call.batch, call.query_rows, call.key_rows});
  }
  const std::int64_t delta_rows = call.query_heads * shape.output_rows;
  Pieces pieces;
  map.header = pieces.take(1, sizeof(kernel::WorkspaceHeader));
  map.query_tiles = pieces.take(map.query_tile_capacity, sizeof(kernel::QueryTile));
  map.key_tiles = pieces.take(map.key_tile_capacity, sizeof(kernel::KeyTile));
  map.query_runs = pieces.take(map.query_run_capacity, sizeof(kernel::QueryRun));
  map.short_tiles = pieces.take(map.short_tile_capacity, sizeof(kernel::KeyTile));
  map.two_cta_tiles = pieces.take(map.two_cta_tile_capacity, sizeof(kernel::KeyTile));
  map.key_sequences = pieces.take(plan.spec.broadcast_q ? sequences : 0, sizeof(kernel::KeySequence));
  map.delta = pieces.take(delta_rows, sizeof(float));
  map.packed_output_grad = pieces.take(shape.pack_output_grad ? delta_rows * shape.head_dim : 0,
                                       static_cast<std::size_t>(row_of(plan.spec.dtype).bytes));
  map.partial_query_grad = pieces.take(partial_elements, sizeof(float));
  map.bytes = pieces.bytes();
  return map;
}

}  // namespace jfa
