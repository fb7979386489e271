#include "generator/plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "generator/plan_layout.h"
#include "generator/target_family.h"
#include "templates/attention/backward_parameters.h"
#include "templates/attention/parameters.h"

namespace jfa {
namespace {

// Shared memory a CTA may have, the same on 9.0 and 10.x.
constexpr int kSharedLimitBytes = 232448;
// Tiles start at multiples of the widest swizzle's repeat, wherever dynamic shared memory starts.
constexpr int kTileAlignmentBytes = 1024;
constexpr int kElementBytes = 2;
// LSE and delta of a streamed query.
constexpr int kQueryStatsBytes = 8;
// More key/value tiles in flight hide nothing.
constexpr int kMostKeyValueStages = 8;

// Launches of at most so many (tile, head) items cut long key ranges into parts: about the multiprocessors of
// a large GPU, or four times as many if sequences are so long on average that one could keep the others
// waiting. Constants, so that results do not depend on the device.
constexpr std::int64_t kSplitItems = 160;
constexpr std::int64_t kSplitLongItems = 640;
constexpr std::int64_t kLongKeyTiles = 32;

// Parts of a batch that share a query, so that every multiprocessor has work on the query's gradient. A
// constant for the same reason.
constexpr std::int64_t kQueryGradItems = 512;

// Items of the broadcast entry that the workspace has room for: two for every multiprocessor of a large GPU.
constexpr std::int64_t kBroadcastItems = 320;
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

OperandPlan plan_operand(int padded_dim) {
  OperandPlan operand;
  operand.box_dim = padded_dim % 64 == 0 ? 64 : padded_dim % 32 == 0 ? 32 : 16;
  operand.swizzle_bytes = operand.box_dim * kElementBytes;
  operand.boxes = padded_dim / operand.box_dim;
  return operand;
}

void plan_shared_memory(KernelPlan& plan, int control_bytes) {
  const int query_bytes = plan.query_tile * plan.spec.padded_dim * kElementBytes;
  const int key_bytes = plan.key_tile * plan.spec.padded_dim * kElementBytes;
  const int fixed = kTileAlignmentBytes + control_bytes + (plan.query_stages + 1) * query_bytes;
  plan.key_value_stages = std::min(kMostKeyValueStages, (kSharedLimitBytes - fixed) / key_bytes);
  plan.main.shared_bytes = fixed + plan.key_value_stages * key_bytes;
  plan.main.shared_map = memory_map({{"queries", plan.query_stages * query_bytes},
                                     {"keys and values", plan.key_value_stages * key_bytes},
                                     {"output", query_bytes},
                                     {"control", control_bytes}});
}

KernelPlan plan_backward_entries(const KernelSpec& spec, int threads) {
  KernelPlan plan;
  plan.spec = spec;
  plan.operand = plan_operand(spec.padded_dim);
  BackwardPlan& backward = plan.backward.emplace();
  plan.output_box_rows = backward.streamed_tile;
  plan.prepare = {"jfa_prepare_backward", 1024, 0, EntryPlan::Grid::kOneCta};
  backward.delta = {"jfa_delta", 256, 0, EntryPlan::Grid::kStreaming};
  backward.keys = {"jfa_backward_keys", threads, 0, EntryPlan::Grid::kPersistent};
  backward.queries = {"jfa_backward_queries", threads, 0, EntryPlan::Grid::kPersistent};
  backward.sum = {"jfa_sum_query_grad", 256, 0, EntryPlan::Grid::kStreaming};

  constexpr int kStationaryStages = 2;
  constexpr int kControlBytes = 512;
  const int row_bytes = spec.padded_dim * kElementBytes;
  const int fixed = kTileAlignmentBytes + kControlBytes + kStationaryStages * 2 * plan.key_tile * row_bytes;
  const int pair_bytes = backward.streamed_tile * (2 * row_bytes + kQueryStatsBytes);
  backward.streamed_stages = std::min(kMostKeyValueStages, (kSharedLimitBytes - fixed) / pair_bytes);
  backward.keys.shared_bytes = backward.queries.shared_bytes = fixed + backward.streamed_stages * pair_bytes;
  const int stats_bytes = backward.streamed_stages * backward.streamed_tile * kQueryStatsBytes;
  backward.keys.shared_map = backward.queries.shared_map =
      memory_map({{"stationary pairs", kStationaryStages * 2 * plan.key_tile * row_bytes},
                  {"streamed pairs", backward.streamed_stages * pair_bytes - stats_bytes},
                  {"control", kControlBytes + stats_bytes}});
  return plan;
}

void plan_short_entry(KernelPlan& plan, int threads, int control_bytes) {
  BackwardPlan& backward = *plan.backward;
  ShortPlan& entry = backward.short_keys.emplace();
  entry.main = {"jfa_backward_short", threads, 0, EntryPlan::Grid::kPersistent};
  constexpr int kStationaryStages = 2;
  const int row_bytes = plan.spec.padded_dim * kElementBytes;
  const int stationary_bytes = kStationaryStages * 2 * plan.key_tile * row_bytes;
  const int score_grad_bytes = plan.key_tile * backward.streamed_tile * kElementBytes;
  const int output_bytes = backward.streamed_tile * row_bytes;
  const int stats_bytes = backward.streamed_tile * kQueryStatsBytes;
  const int pair_bytes = backward.streamed_tile * 2 * row_bytes;
  const int fixed = kTileAlignmentBytes + control_bytes + stationary_bytes + score_grad_bytes + output_bytes;
  entry.streamed_stages =
      std::min(kMostKeyValueStages, (kSharedLimitBytes - fixed) / (pair_bytes + stats_bytes));
  entry.main.shared_bytes = fixed + entry.streamed_stages * (pair_bytes + stats_bytes);
  entry.main.shared_map = memory_map({{"stationary pairs", stationary_bytes},
                                      {"streamed pairs", entry.streamed_stages * pair_bytes},
                                      {"score gradients, then query gradient", score_grad_bytes},
                                      {"output", output_bytes},
                                      {"control", control_bytes + entry.streamed_stages * stats_bytes}});
}

void plan_broadcast_entry(KernelPlan& plan, int threads, int control_bytes) {
  BroadcastPlan& broadcast = plan.backward->broadcast.emplace();
  broadcast.prepare = {"jfa_prepare_broadcast", 1024, 0, EntryPlan::Grid::kOneCta};
  broadcast.main = {"jfa_backward_broadcast", threads, 0, EntryPlan::Grid::kPersistent};
  const int row_bytes = plan.spec.padded_dim * kElementBytes;
  const int pair_bytes = 2 * plan.key_tile * row_bytes;
  const int score_grad_bytes = plan.key_tile * broadcast.query_tile * kElementBytes;
  const auto fixed = [&] {
    return kTileAlignmentBytes + control_bytes + score_grad_bytes +
           broadcast.output_grad_rows * kQueryStatsBytes +
           (broadcast.query_tile + broadcast.output_grad_rows) * row_bytes;
  };
  // The next sequence's output gradient beside the current one's, unless that would cost the second pair.
  broadcast.output_grad_rows = 2 * broadcast.query_tile;
  if (fixed() + 2 * pair_bytes > kSharedLimitBytes) broadcast.output_grad_rows = broadcast.query_tile;
  broadcast.pair_stages = std::min(kMostKeyValueStages, (kSharedLimitBytes - fixed()) / pair_bytes);
  broadcast.main.shared_bytes = fixed() + broadcast.pair_stages * pair_bytes;
  broadcast.main.shared_map =
      memory_map({{"queries", broadcast.query_tile * row_bytes},
                  {"output gradients", broadcast.output_grad_rows * row_bytes},
                  {"score gradients", score_grad_bytes},
                  {"key and value pairs", broadcast.pair_stages * pair_bytes},
                  {"control", control_bytes + broadcast.output_grad_rows * kQueryStatsBytes}});
}

namespace {

using Fragments = std::vector<std::string_view>;

Fragments concatenate(std::initializer_list<Fragments> lists) {
  Fragments all;
  for (const Fragments& list : lists) all.insert(all.end(), list.begin(), list.end());
  return all;
}

// What every entry needs: wrappers, tiles, intervals, offsets, work order and queue.
Fragments shared_fragments(const KernelSpec& spec, Fragments parameters, Fragments target_ptx) {
  return concatenate(
      {std::move(parameters),
       {"ptx/thread.cuh", "ptx/mbarrier.cuh", "ptx/bulk_tensor.cuh", "ptx/grid_dependency.cuh"},
       std::move(target_ptx),
       {"attention/operand.cuh",
        spec.window ? "attention/interval_window.cuh" : "attention/interval_full.cuh",
        "attention/offsets.cuh", "attention/work_list.cuh", "attention/work_queue.cuh",
        "attention/softmax.cuh"}});
}

}  // namespace

std::vector<std::string_view> forward_fragments(const KernelSpec& spec, Fragments target_ptx,
                                                std::string_view descriptors) {
  return concatenate(
      {shared_fragments(spec, {"attention/parameters.h"}, std::move(target_ptx)),
       {"attention/key_parts.cuh", "attention/prepare.cu", "attention/pipeline.cuh", "attention/partial.cuh",
        "attention/merge.cu", descriptors, "attention/matrix_descriptor.cuh"}});
}

std::vector<std::string_view> backward_fragments(const KernelSpec& spec, Fragments target_ptx,
                                                 std::string_view descriptors) {
  Fragments fragments =
      concatenate({shared_fragments(spec, {"attention/parameters.h", "attention/backward_parameters.h"},
                                    std::move(target_ptx)),
                   {"attention/element.cuh", "attention/prepare_backward.cu", "attention/delta.cu",
                    "attention/backward_pipeline.cuh", "attention/keys_stationary.cuh",
                    "attention/queries_stationary.cuh", descriptors, "attention/matrix_descriptor.cuh"}});
  if (spec.broadcast_q) fragments.push_back("attention/sum_query_grad.cu");
  return fragments;
}

std::vector<std::string_view> short_fragments() { return {"attention/short_keys.cuh"}; }

std::vector<std::string_view> broadcast_fragments() {
  return {"attention/prepare_broadcast.cu", "attention/broadcast_query.cuh"};
}

Result<KernelPlan> plan(const KernelSpec& spec) {
  const PlanFunction target_plan = is_hopper(spec.target) ? plan_sm90 : plan_sm100;
  return target_plan(spec);
}

std::int64_t slot_rows(std::int64_t query_rows) {
  constexpr std::int64_t kCoreMatrixRows = 8;
  return tiles_of(query_rows, kCoreMatrixRows) * kCoreMatrixRows;
}

bool takes_broadcast(const KernelPlan& plan, std::int64_t query_rows) {
  return plan.backward && plan.backward->broadcast &&
         plan.spec.groups * slot_rows(query_rows) <= plan.backward->broadcast->query_tile;
}

int broadcast_parts(int resident_ctas, std::int64_t key_heads, std::int64_t capacity) {
  std::int64_t best = 1;
  double least_idle = 1;
  for (std::int64_t rounds = 1; rounds <= capacity; ++rounds) {
    const std::int64_t parts = std::max<std::int64_t>(1, rounds * resident_ctas / key_heads);
    if (parts > capacity) break;
    const std::int64_t items = parts * key_heads;
    const std::int64_t places = tiles_of(items, resident_ctas) * resident_ctas;
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
  WorkspaceMap map;
  const std::int64_t whole_tiles = plan.spec.broadcast_q ? shape.batch * tiles_of(shape.query_rows, tile)
                                                         : most_tiles(shape.query_rows, shape.batch, tile);
  const std::int64_t items = whole_tiles * shape.query_heads;
  const bool is_long = shape.key_rows >= kLongKeyTiles * plan.key_tile * shape.batch;
  const std::int64_t most_items = is_long ? kSplitLongItems : kSplitItems;
  if (items > 0 && items <= most_items && shape.key_rows > kernel::kLeastPartTiles * plan.key_tile) {
    map.part_capacity = (kernel::kSplitParts + most_items + shape.query_heads) / shape.query_heads;
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
  const std::int64_t sequences = call.batch + 2;
  map.key_tile_capacity = most_tiles(call.key_rows, sequences, plan.key_tile);
  std::int64_t partial_elements = 0;
  if (plan.spec.broadcast_q) {
    const std::int64_t tiles = tiles_of(call.query_rows, plan.query_tile);
    const std::int64_t items = std::max<std::int64_t>(1, tiles * call.query_heads);
    map.query_parts = std::min(call.batch, std::max<std::int64_t>(1, kQueryGradItems / items));
    map.partial_rows = tiles * plan.query_tile;
    map.query_tile_capacity = call.batch * tiles;
    map.query_run_capacity = tiles * map.query_parts;
    partial_elements = map.query_parts * call.query_heads * map.partial_rows * plan.spec.padded_dim;
    // The same for all targets, whether they have the entry or not: who asks for bytes names no device.
    const std::int64_t key_heads = call.query_heads / plan.spec.groups;
    map.broadcast_part_capacity =
        std::min(map.key_tile_capacity, tiles_of(kBroadcastItems, std::max<std::int64_t>(1, key_heads)));
    partial_elements = std::max(partial_elements, map.broadcast_part_capacity * call.query_heads *
                                                      slot_rows(call.query_rows) * plan.spec.padded_dim);
  } else {
    map.query_tile_capacity = map.query_run_capacity =
        most_tiles(call.query_rows, sequences, plan.query_tile);
    // As for a shared query the same for all targets: either side's tiles, of sequences without the other.
    map.short_tile_capacity = map.key_tile_capacity + map.query_tile_capacity;
  }
  const std::int64_t delta_rows = call.query_heads * shape.output_rows;
  Pieces pieces;
  map.header = pieces.take(1, sizeof(kernel::WorkspaceHeader));
  map.query_tiles = pieces.take(map.query_tile_capacity, sizeof(kernel::QueryTile));
  map.key_tiles = pieces.take(map.key_tile_capacity, sizeof(kernel::KeyTile));
  map.query_runs = pieces.take(map.query_run_capacity, sizeof(kernel::QueryRun));
  map.short_tiles = pieces.take(map.short_tile_capacity, sizeof(kernel::KeyTile));
  map.key_sequences = pieces.take(plan.spec.broadcast_q ? sequences : 0, sizeof(kernel::KeySequence));
  map.delta = pieces.take(delta_rows, sizeof(float));
  map.packed_output_grad =
      pieces.take(shape.pack_output_grad ? delta_rows * shape.head_dim : 0, kElementBytes);
  map.partial_query_grad = pieces.take(partial_elements, sizeof(float));
  map.bytes = pieces.bytes();
  return map;
}

std::vector<const EntryPlan*> entries_of(const KernelPlan& plan) {
  if (!plan.backward) return {&plan.prepare, &plan.main, &plan.merge};
  const BackwardPlan& backward = *plan.backward;
  std::vector<const EntryPlan*> entries{&plan.prepare, &backward.delta, &backward.keys, &backward.queries};
  if (plan.spec.broadcast_q) entries.push_back(&backward.sum);
  if (backward.short_keys) entries.push_back(&backward.short_keys->main);
  if (backward.broadcast) {
    entries.push_back(&backward.broadcast->prepare);
    entries.push_back(&backward.broadcast->main);
  }
  return entries;
}

namespace {

// Which calls take which entries, in the order of their launch, and what they do for which sequences.
nlohmann::ordered_json backward_paths(const KernelPlan& plan) {
  const BackwardPlan& backward = *plan.backward;
  nlohmann::ordered_json paths = nlohmann::ordered_json::array();
  const auto add = [&](std::string_view calls, std::string_view why, std::vector<std::string> entries) {
    if (plan.spec.broadcast_q) entries.push_back(backward.sum.name);
    paths.push_back({{"calls", calls}, {"why", why}, {"entries", entries}});
  };
  if (backward.broadcast) {
    add(fmt::format("{} * (q_len rounded up to 8) <= {}", plan.spec.groups, backward.broadcast->query_tile),
        "all queries of a key head fit one tile: keys and values are read once, their gradients are complete "
        "at once, and the query's stays on chip",
        {backward.broadcast->prepare.name, backward.delta.name, backward.broadcast->main.name});
  }
  const std::string pair = fmt::format(
      "{} keeps keys in place for their gradients and values', {} queries for theirs: nothing is accumulated "
      "in memory",
      backward.keys.name, backward.queries.name);
  if (!backward.short_keys) {
    add(backward.broadcast ? "others" : "all", pair,
        {plan.prepare.name, backward.delta.name, backward.keys.name, backward.queries.name});
    return paths;
  }
  const ShortPlan& short_keys = *backward.short_keys;
  const std::string short_why =
      fmt::format("sequences of at most {} keys: all gradients in one pass of {}, which needs no delta",
                  plan.key_tile, short_keys.main.name);
  add(fmt::format("at most {} keys in the whole batch", plan.key_tile), short_why,
      {plan.prepare.name, short_keys.main.name});
  add("others", short_why + "; other sequences: " + pair,
      {plan.prepare.name, backward.delta.name, short_keys.main.name, backward.keys.name,
       backward.queries.name});
  return paths;
}

}  // namespace

std::string describe(const KernelPlan& plan) {
  const KernelSpec& spec = plan.spec;
  auto entry = [&](const EntryPlan& entry) {
    nlohmann::ordered_json json{
        {"name", entry.name},
        {"threads", entry.threads},
        {"shared_bytes", entry.shared_bytes},
        {"grid", entry.grid == EntryPlan::Grid::kOneCta       ? "one CTA"
                 : entry.grid == EntryPlan::Grid::kPersistent ? "persistent"
                                                              : "streaming"},
    };
    describe_layout(entry, spec.target, json);
    return json;
  };
  nlohmann::ordered_json entries;
  for (const EntryPlan* planned : entries_of(plan)) entries.push_back(entry(*planned));
  nlohmann::ordered_json json{
      {"name", name(spec)},
      {"pass", spec.pass == Pass::forward ? "forward" : "backward"},
      {"dtype", spec.dtype == DType::bf16 ? "bf16" : "fp16"},
      {"padded_dim", spec.padded_dim},
      {"window", spec.window ? nlohmann::ordered_json(*spec.window) : nlohmann::ordered_json()},
      {"broadcast_q", spec.broadcast_q},
      {"groups", spec.groups},
      {"target", to_string(spec.target)},
      {"query_tile", plan.query_tile},
      {"key_tile", plan.key_tile},
      {"box_dim", plan.operand.box_dim},
      {"swizzle_bytes", plan.operand.swizzle_bytes},
      {"output_box_rows", plan.output_box_rows},
      {"tensor_memory_columns", plan.tensor_memory_columns},
  };
  if (plan.backward) {
    json["streamed_tile"] = plan.backward->streamed_tile;
    json["streamed_stages"] = plan.backward->streamed_stages;
    if (plan.backward->short_keys)
      json["short_keys"] = {{"streamed_stages", plan.backward->short_keys->streamed_stages}};
    if (const std::optional<BroadcastPlan>& broadcast = plan.backward->broadcast) {
      json["broadcast"] = {{"query_tile", broadcast->query_tile},
                           {"output_grad_rows", broadcast->output_grad_rows},
                           {"pair_stages", broadcast->pair_stages}};
    }
  } else {
    json["query_stages"] = plan.query_stages;
    json["key_value_stages"] = plan.key_value_stages;
  }
  json["entries"] = entries;
  if (plan.backward) json["paths"] = backward_paths(plan);
  return json.dump(2);
}

}  // namespace jfa
