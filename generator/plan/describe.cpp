// The plan as JSON, for people and tools.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "generator/dtype.h"
#include "generator/plan/family.h"

namespace jfa {
namespace {

using Json = nlohmann::ordered_json;

const char* to_string(RegionElement element) {
  switch (element) {
    case RegionElement::kInput:
      return "input";
    case RegionElement::kFloat:
      return "fp32";
    case RegionElement::kBytes:
      return "bytes";
  }
  return "?";
}

Json describe_map(const KernelPlan& plan, const std::vector<Region>& map, const char* unit) {
  Json list = Json::array();
  for (const Region& region : map) {
    Json json{{"name", region.holds}, {"begin", region.begin}, {unit, region.size()}};
    if (region.element != RegionElement::kBytes) {
      json["tile"] = {{"element", region.element == RegionElement::kInput ? row_of(plan.spec.dtype).name
                                                                          : to_string(region.element)},
                      {"rows", region.rows},
                      {"columns", region.columns}};
      if (region.tiles > 1) json["tiles"] = region.tiles;
      if (region.stages > 1) json["stages"] = region.stages;
    }
    if (!region.over.empty()) json["over"] = jfa::region(map, region.over).holds;
    list.push_back(std::move(json));
  }
  return list;
}

// Products and the cycles they take.
Json describe_products(const KernelPlan& plan, const EntryPlan& entry) {
  const TargetFamily& family = *row_of(plan.spec.target).family;
  Json products = Json::array();
  for (const TileProduct& product : entry.tile_products)
    products.push_back({{"name", product.name}, {"m", product.m}, {"n", product.n}, {"k", product.k}});
  return {{"products_of_a_tile", products},
          {"cycles_of_a_tile", tensor_core_cycles(entry, plan.spec.target)},
          {"formula",
           fmt::format("sum of 2 max(m, {}) n k / {}", family.least_product_rows, family.flops_per_cycle)}};
}

const char* to_string(EntryPlan::Grid grid) {
  switch (grid) {
    case EntryPlan::Grid::kOneCta:
      return "one CTA";
    case EntryPlan::Grid::kPersistent:
      return "persistent";
    case EntryPlan::Grid::kStreaming:
      return "streaming";
  }
  return "?";
}

Json describe_entry(const KernelPlan& plan, const EntryPlan& entry) {
  Json json{{"name", entry.name},
            {"threads", entry.threads},
            {"shared_bytes", entry.shared_bytes},
            {"grid", to_string(entry.grid)}};
  int first = 0;
  for (const WarpRole& role : entry.roles) {
    Json described{{"name", role.type}, {"task", role.task}, {"first_warp", first}, {"warps", role.warps}};
    if (role.registers != 0) described["registers"] = role.registers;
    json["roles"].push_back(std::move(described));
    first += role.warps;
  }
  for (const StageCount& stage : entry.stages)
    json["stages"].push_back({{"name", stage.name}, {"count", stage.count}, {"least", stage.least}});
  if (!entry.shared_map.empty()) json["shared_map"] = describe_map(plan, entry.shared_map, "bytes");
  if (!entry.tensor_map.empty()) json["tensor_map"] = describe_map(plan, entry.tensor_map, "columns");
  if (!entry.tile_products.empty()) json["tensor_core"] = describe_products(plan, entry);
  return json;
}

Json describe_knobs(const KernelPlan& plan) {
  Json list = Json::array();
  for (const ChosenKnob& chosen : plan.knobs) {
    const Knob& knob = chosen.knob;
    list.push_back({{"name", knob.name},
                    {"value", chosen.value},
                    {"default", knob.usual},
                    {"least", knob.least},
                    {"most", knob.most},
                    {"step", knob.step},
                    {"what", knob.what}});
  }
  return list;
}

// Which calls take which entries, in the order of their launch, and what they do for which sequences.
Json backward_paths(const KernelPlan& plan) {
  const BackwardPlan& backward = plan.backward();
  Json paths = Json::array();
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
        {backward.prepare.name, backward.delta.name, backward.keys.name, backward.queries.name});
    return paths;
  }
  const ShortPlan& short_keys = *backward.short_keys;
  const std::string short_why =
      fmt::format("sequences of at most {} keys: all gradients in one pass of {}, which needs no delta",
                  plan.key_tile, short_keys.main.name);
  add(fmt::format("at most {} keys in the whole batch", plan.key_tile), short_why,
      {backward.prepare.name, short_keys.main.name});
  add("others", short_why + "; other sequences: " + pair,
      {backward.prepare.name, backward.delta.name, short_keys.main.name, backward.keys.name,
       backward.queries.name});
  return paths;
}

}  // namespace

std::string describe(const KernelPlan& plan) {
  const KernelSpec& spec = plan.spec;
  Json json{
      {"name", name(plan)},
      {"pass", spec.pass == Pass::forward ? "forward" : "backward"},
      {"dtype", row_of(spec.dtype).name},
      {"padded_dim", spec.padded_dim},
      {"window", spec.window ? Json(*spec.window) : Json()},
      {"broadcast_q", spec.broadcast_q},
      {"groups", spec.groups},
      {"target", jfa::to_string(spec.target)},
      {"query_tile", plan.query_tile},
      {"key_tile", plan.key_tile},
      {"box_dim", plan.operand.box_dim},
      {"swizzle_bytes", plan.operand.swizzle_bytes},
      {"output_box_rows", plan.output_box_rows},
      {"tensor_memory_columns", plan.tensor_memory_columns},
  };
  if (const auto* backward = std::get_if<BackwardPlan>(&plan.entries)) {
    json["streamed_tile"] = backward->streamed_tile;
    if (const std::optional<BroadcastPlan>& broadcast = backward->broadcast)
      json["broadcast"] = {{"query_tile", broadcast->query_tile},
                           {"output_grad_rows", broadcast->output_grad_rows}};
  }
  json["knobs"] = describe_knobs(plan);
  for (const EntryPlan* entry : entries_of(plan)) json["entries"].push_back(describe_entry(plan, *entry));
  if (std::holds_alternative<BackwardPlan>(plan.entries)) json["paths"] = backward_paths(plan);
  return json.dump(2);
}

}  // namespace jfa
