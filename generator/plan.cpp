#include "generator/plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "templates/attention/parameters.h"

namespace jfa {
namespace {

// Shared memory a CTA may have on compute capability 10.x, and what the barriers and the item ring take of
// it.
constexpr int kSharedLimitBytes = 232448;
constexpr int kControlBytes = 1024;
constexpr int kElementBytes = 2;

constexpr std::uint64_t kWorkspaceAlignment = 256;

std::uint64_t align_up(std::uint64_t bytes) {
  return (bytes + kWorkspaceAlignment - 1) / kWorkspaceAlignment * kWorkspaceAlignment;
}

// The widest swizzle whose row divides the padded row.
OperandPlan plan_operand(int padded_dim) {
  OperandPlan operand;
  operand.box_dim = padded_dim % 64 == 0 ? 64 : padded_dim % 32 == 0 ? 32 : 16;
  operand.swizzle_bytes = operand.box_dim * kElementBytes;
  operand.boxes = padded_dim / operand.box_dim;
  return operand;
}

}  // namespace

Result<KernelPlan> plan(const KernelSpec& spec) {
  KernelPlan plan;
  plan.spec = spec;
  plan.operand = plan_operand(spec.padded_dim);
  const int tile_bytes = plan.key_tile * spec.padded_dim * kElementBytes;
  const int query_bytes = plan.query_tile * spec.padded_dim * kElementBytes;
  // Query stages, the output's staging tile, then as many key/value tiles as fit; more than 8 hide nothing.
  const int left = kSharedLimitBytes - kControlBytes - 1024 - (plan.query_stages + 1) * query_bytes;
  plan.key_value_stages = std::min(8, left / tile_bytes);
  const int shared_bytes =
      kControlBytes + 1024 + (plan.query_stages + 1) * query_bytes + plan.key_value_stages * tile_bytes;
  plan.prepare = {"jfa_prepare", 1024, 0, EntryPlan::Grid::kOneCta};
  plan.main = {"jfa_forward", 256, shared_bytes, EntryPlan::Grid::kPersistent};
  return plan;
}

WorkspaceMap workspace_map(const KernelPlan& plan, std::int64_t batch, std::int64_t query_rows) {
  WorkspaceMap map;
  const std::int64_t tile = plan.query_tile;
  // Every sequence starts a tile of its own, so at most one partial tile each.
  map.tile_capacity = plan.spec.broadcast_q ? batch * ((query_rows + tile - 1) / tile)
                                            : std::min(query_rows, query_rows / tile + batch);
  map.header = 0;
  map.tiles = align_up(sizeof(kernel::WorkspaceHeader));
  map.bytes = align_up(map.tiles + static_cast<std::uint64_t>(map.tile_capacity) * sizeof(kernel::QueryTile));
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
      {"tensor_memory_columns", plan.tensor_memory_columns},
      {"entries", {entry(plan.prepare), entry(plan.main)}},
  };
  return json.dump(2);
}

}  // namespace jfa
