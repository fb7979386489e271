#include "generator/plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "generator/target_family.h"
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
// a large GPU. A constant, so that results do not depend on the device.
constexpr std::int64_t kSplitItems = 160;

constexpr std::uint64_t kWorkspaceAlignment = 256;

std::uint64_t align_up(std::uint64_t bytes) {
  return (bytes + kWorkspaceAlignment - 1) / kWorkspaceAlignment * kWorkspaceAlignment;
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
}

KernelPlan plan_backward_entries(const KernelSpec& spec, int threads) {
  KernelPlan plan;
  plan.spec = spec;
  plan.operand = plan_operand(spec.padded_dim);
  BackwardPlan& backward = plan.backward.emplace();
  plan.output_box_rows = backward.streamed_tile;
  plan.prepare = {"jfa_prepare_backward", 1024, 0, EntryPlan::Grid::kOneCta};
  backward.delta = {"jfa_delta", 256, 0, EntryPlan::Grid::kPersistent};
  backward.keys = {"jfa_backward_keys", threads, 0, EntryPlan::Grid::kPersistent};
  backward.queries = {"jfa_backward_queries", threads, 0, EntryPlan::Grid::kPersistent};
  backward.sum = {"jfa_sum_query_grad", 256, 0, EntryPlan::Grid::kPersistent};

  constexpr int kStationaryStages = 2;
  constexpr int kControlBytes = 512;
  const int row_bytes = spec.padded_dim * kElementBytes;
  const int fixed = kTileAlignmentBytes + kControlBytes + kStationaryStages * 2 * plan.key_tile * row_bytes;
  const int pair_bytes = backward.streamed_tile * (2 * row_bytes + kQueryStatsBytes);
  backward.streamed_stages = std::min(kMostKeyValueStages, (kSharedLimitBytes - fixed) / pair_bytes);
  backward.keys.shared_bytes = backward.queries.shared_bytes = fixed + backward.streamed_stages * pair_bytes;
  return plan;
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
  return concatenate({std::move(parameters),
                      {"ptx/thread.cuh", "ptx/mbarrier.cuh", "ptx/bulk_tensor.cuh"},
                      std::move(target_ptx),
                      {"attention/operand.cuh",
                       spec.window ? "attention/interval_window.cuh" : "attention/interval_full.cuh",
                       "attention/offsets.cuh", "attention/work_list.cuh", "attention/work_queue.cuh",
                       "attention/softmax.cuh"}});
}

}  // namespace

std::vector<std::string_view> forward_fragments(const KernelSpec& spec, Fragments target_ptx,
                                                std::string_view descriptors) {
  return concatenate({shared_fragments(spec, {"attention/parameters.h"}, std::move(target_ptx)),
                      {"attention/prepare.cu", "attention/pipeline.cuh", "attention/partial.cuh",
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

Result<KernelPlan> plan(const KernelSpec& spec) {
  const PlanFunction target_plan = spec.target == Target::sm_90a ? plan_sm90 : plan_sm100;
  return target_plan(spec);
}

WorkspaceMap workspace_map(const KernelPlan& plan, const WorkspaceShape& shape) {
  const std::int64_t tile = plan.query_tile;
  WorkspaceMap map;
  // Every sequence starts a tile of its own, so at most one partial tile each.
  const std::int64_t whole_tiles = plan.spec.broadcast_q
                                       ? shape.batch * ((shape.query_rows + tile - 1) / tile)
                                       : std::min(shape.query_rows, shape.query_rows / tile + shape.batch);
  const std::int64_t items = whole_tiles * shape.query_heads;
  if (items > 0 && items <= kSplitItems && shape.key_rows > kernel::kLeastPartTiles * plan.key_tile) {
    map.part_capacity = (kernel::kSplitParts + kSplitItems + shape.query_heads) / shape.query_heads;
  }
  map.tile_capacity = whole_tiles + map.part_capacity;
  const std::uint64_t partial_rows =
      static_cast<std::uint64_t>(map.part_capacity * shape.query_heads) * static_cast<std::uint64_t>(tile);
  std::uint64_t end = 0;
  auto take = [&](std::uint64_t bytes) {
    const std::uint64_t begin = end;
    end = align_up(end + bytes);
    return begin;
  };
  map.header = take(sizeof(kernel::WorkspaceHeader));
  map.tiles = take(static_cast<std::uint64_t>(map.tile_capacity) * sizeof(kernel::QueryTile));
  map.split_tiles = take(static_cast<std::uint64_t>(map.part_capacity) * sizeof(kernel::SplitTile));
  map.partial_lse = take(partial_rows * sizeof(float));
  map.partial_output = take(partial_rows * static_cast<std::uint64_t>(plan.spec.padded_dim) * sizeof(float));
  map.bytes = end;
  return map;
}

std::vector<const EntryPlan*> entries_of(const KernelPlan& plan) {
  if (!plan.backward) return {&plan.prepare, &plan.main, &plan.merge};
  const BackwardPlan& backward = *plan.backward;
  std::vector<const EntryPlan*> entries{&plan.prepare, &backward.delta, &backward.keys, &backward.queries};
  if (plan.spec.broadcast_q) entries.push_back(&backward.sum);
  return entries;
}

std::string describe(const KernelPlan& plan) {
  const KernelSpec& spec = plan.spec;
  auto entry = [](const EntryPlan& entry) {
    return nlohmann::ordered_json{
        {"name", entry.name},
        {"threads", entry.threads},
        {"shared_bytes", entry.shared_bytes},
        {"grid", entry.grid == EntryPlan::Grid::kOneCta ? "one CTA" : "persistent"},
    };
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
      {"query_stages", plan.query_stages},
      {"key_value_stages", plan.key_value_stages},
      {"box_dim", plan.operand.box_dim},
      {"swizzle_bytes", plan.operand.swizzle_bytes},
      {"output_box_rows", plan.output_box_rows},
      {"tensor_memory_columns", plan.tensor_memory_columns},
      {"entries", entries},
  };
  return json.dump(2);
}

}  // namespace jfa
