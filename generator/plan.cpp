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

std::vector<std::string_view> common_fragments(const KernelSpec& spec,
                                               std::vector<std::string_view> target_ptx,
                                               std::string_view descriptors) {
  std::vector<std::string_view> fragments{"attention/parameters.h", "ptx/thread.cuh", "ptx/mbarrier.cuh",
                                          "ptx/bulk_tensor.cuh"};
  fragments.insert(fragments.end(), target_ptx.begin(), target_ptx.end());
  for (std::string_view fragment : {
           std::string_view("attention/operand.cuh"),
           std::string_view(spec.window ? "attention/interval_window.cuh" : "attention/interval_full.cuh"),
           std::string_view("attention/offsets.cuh"),
           std::string_view("attention/work_list.cuh"),
           std::string_view("attention/prepare.cu"),
           std::string_view("attention/work_queue.cuh"),
           std::string_view("attention/pipeline.cuh"),
           std::string_view("attention/softmax.cuh"),
           std::string_view("attention/partial.cuh"),
           std::string_view("attention/merge.cu"),
           descriptors,
           std::string_view("attention/matrix_descriptor.cuh"),
       }) {
    fragments.push_back(fragment);
  }
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
  nlohmann::ordered_json json{
      {"name", name(spec)},
      {"pass", "forward"},
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
      {"entries", {entry(plan.prepare), entry(plan.main), entry(plan.merge)}},
  };
  return json.dump(2);
}

}  // namespace jfa
