// The plan as JSON, for people and tools.
#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <utility>

#include "generator/backward_path.h"
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
  if (entry.cluster > 1) json["cluster"] = entry.cluster;
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

// Which calls of a backward take which entries, in the order of their launch, and what they do for which
// sequences.
class BackwardPaths {
 public:
  explicit BackwardPaths(const KernelPlan& plan) : plan_(plan), backward_(plan.backward()) {}

  Json all() {
    if (plan_.spec.broadcast_q) {
      add_shared_query();
    } else {
      add_by_length();
    }
    return std::move(paths_);
  }

 private:
  void add(std::string_view calls, std::string_view why, std::vector<std::string> entries) {
    if (plan_.spec.broadcast_q) entries.push_back(backward_.sum.name);
    paths_.push_back({{"calls", calls}, {"why", why}, {"entries", entries}});
  }

  bool is_on() const { return backward_.two_cta && backward_.two_cta->on; }

  std::string pair_why() const {
    return fmt::format(
        "{} keeps keys in place for their gradients and values', {} queries for theirs: nothing is "
        "accumulated in memory",
        backward_.keys.name, backward_.queries.name);
  }

  // What all calls of CTA pairs have in common.
  std::string two_cta_choice() const {
    return is_on()
               ? "a device that cannot place clusters of two CTAs refuses the call; asked for by two_cta = 2"
               : "a device that cannot place clusters of two CTAs takes the other entries; chosen by bytes "
                 "and tensor-core cycles, a model, not by a clock";
  }

  void add_shared_query() {
    const std::string rows = fmt::format("{} * (q_len rounded up to 8)", plan_.spec.groups);
    if (backward_.broadcast && !is_on()) {
      add(fmt::format("{} <= {}", rows, backward_.broadcast->query_tile),
          "all queries of a key head fit one tile: keys and values are read once, their gradients are "
          "complete at once, and the query's stays on chip",
          {backward_.prepare_broadcast->name, backward_.delta.name, backward_.broadcast->main.name});
    }
    if (const std::optional<TwoCtaPlan>& two_cta = backward_.two_cta) {
      add(is_on() ? fmt::format("{} <= {}", rows, two_cta->query_rows)
                  : fmt::format("{} < {} <= {}", plan_.query_tile, rows, two_cta->query_rows),
          fmt::format("all queries of a key head fit two CTAs: bytes: keys and values are read once instead "
                      "of twice, their gradients are complete at once, and the query's stays on chip, half "
                      "of it in each CTA; {}",
                      two_cta_choice()),
          {backward_.prepare_broadcast->name, backward_.delta.name, two_cta->main.name});
      if (is_on()) return;  // others are refused
    }
    add(paths_.empty() ? "all" : "others", pair_why(),
        {backward_.prepare.name, backward_.delta.name, backward_.keys.name, backward_.queries.name});
  }

  void add_by_length() {
    std::string why;  // of what goes before the pair of entries
    std::vector<std::string> entries{backward_.prepare.name};
    const auto add_one_pass = [&](int most_keys, const std::string& reason, const EntryPlan& main) {
      why += (why.empty() ? "" : "; ") + reason;
      entries.push_back(main.name);
      // Without an entry for short sequences, rows that lack the other side are the pair's.
      if (backward_.short_keys)
        add(fmt::format("at most {} keys in the whole batch", most_keys), why, entries);
    };
    if (backward_.short_keys) {
      const EntryPlan& main = backward_.short_keys->main;
      const std::string reason =
          fmt::format("sequences of at most {} keys: all gradients in one pass of {}, which needs no delta",
                      plan_.key_tile, main.name);
      if (!is_on()) {
        add_one_pass(plan_.key_tile, reason, main);
      } else {
        why = fmt::format("rows without the other side get gradients of 0 from {}", main.name);
        entries.push_back(main.name);
      }
    }
    entries.insert(entries.begin() + 1, backward_.delta.name);
    if (const std::optional<TwoCtaPlan>& two_cta = backward_.two_cta) {
      const KeyRange keys = two_cta_keys(plan_, true);
      add_one_pass(keys.most,
                   fmt::format("sequences of {} to {} keys: all gradients in one pass of {}: both CTAs' keys "
                               "are all keys, so the query's gradient is complete after one product; bytes: "
                               "keys, values, queries and output gradients are read from memory once; {}",
                               keys.least, keys.most, two_cta->main.name, two_cta_choice()),
                   two_cta->main);
    }
    entries.insert(entries.end(), {backward_.keys.name, backward_.queries.name});
    add(paths_.empty() ? "all" : "others",
        why.empty() ? pair_why() : why + "; other sequences: " + pair_why(), entries);
  }

  const KernelPlan& plan_;
  const BackwardPlan& backward_;
  Json paths_ = Json::array();
};

}  // namespace

std::string describe(const KernelPlan& plan) {
  const KernelSpec& spec = plan.spec;
  Json json{
      {"name", name(plan)},
      {"pass", spec.pass == Pass::forward ? "forward" : "backward"},
      {"dtype", row_of(spec.dtype).name},
      {"padded_dim", spec.padded_dim},
      {"visibility", window_text(spec.visibility)},
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
    if (const std::optional<TwoCtaPlan>& two_cta = backward->two_cta)
      json["two_cta"] = {{"key_rows", two_cta->key_rows},
                         {"query_rows", two_cta->query_rows},
                         {"box_dim", two_cta->columns.box_dim},
                         {"swizzle_bytes", two_cta->columns.swizzle_bytes}};
  }
  json["knobs"] = describe_knobs(plan);
  for (const EntryPlan* entry : entries_of(plan)) json["entries"].push_back(describe_entry(plan, *entry));
  if (std::holds_alternative<BackwardPlan>(plan.entries)) json["paths"] = BackwardPaths(plan).all();
  return json.dump(2);
}

}  // namespace jfa
