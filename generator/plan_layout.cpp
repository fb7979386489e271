#include "generator/plan_layout.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "generator/target_family.h"

namespace jfa {
namespace {

int flops_per_cycle(Target target) { return is_hopper(target) ? 4096 : 8192; }

// Rows below which a product takes no less time.
int least_rows(Target target) { return is_hopper(target) ? 64 : 128; }

nlohmann::ordered_json describe(const std::vector<MemoryRegion>& regions, const char* unit) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const MemoryRegion& region : regions)
    list.push_back({{"name", region.name}, {"begin", region.begin}, {unit, region.size}});
  return list;
}

}  // namespace

std::vector<MemoryRegion> memory_map(std::initializer_list<std::pair<std::string_view, int>> regions) {
  std::vector<MemoryRegion> map;
  int begin = 0;
  for (const auto& [name, size] : regions) {
    map.push_back({std::string(name), begin, size});
    begin += size;
  }
  return map;
}

int tensor_core_cycles(const EntryPlan& entry, Target target) {
  int flops = 0;
  for (const TileProduct& product : entry.tile_products)
    flops += 2 * std::max(product.m, least_rows(target)) * product.n * product.k;
  return flops / flops_per_cycle(target);
}

void describe_layout(const EntryPlan& entry, Target target, nlohmann::ordered_json& json) {
  if (!entry.shared_map.empty()) json["shared_map"] = describe(entry.shared_map, "bytes");
  if (!entry.tensor_map.empty()) json["tensor_map"] = describe(entry.tensor_map, "columns");
  if (entry.tile_products.empty()) return;
  nlohmann::ordered_json products = nlohmann::ordered_json::array();
  for (const TileProduct& product : entry.tile_products)
    products.push_back({{"name", product.name}, {"m", product.m}, {"n", product.n}, {"k", product.k}});
  json["tensor_core"] = {
      {"products_of_a_tile", products},
      {"cycles_of_a_tile", tensor_core_cycles(entry, target)},
      {"formula", fmt::format("sum of 2 max(m, {}) n k / {}", least_rows(target), flops_per_cycle(target))}};
}

}  // namespace jfa
