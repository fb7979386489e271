#include "generator/emit_configuration.h"

#include <fmt/format.h>

#include "generator/dtype.h"
#include "generator/plan/family.h"

namespace jfa {
namespace {

void define(std::string& text, std::string_view type, std::string_view name, std::string_view value,
            std::string_view comment) {
  text +=
      fmt::format("constexpr {} {} = {};{}{}\n", type, name, value, comment.empty() ? "" : "  // ", comment);
}
void constant(std::string& text, std::string_view name, int value, std::string_view comment = "") {
  define(text, "int", name, fmt::format("{}", value), comment);
}
void flag(std::string& text, std::string_view name, bool value, std::string_view comment) {
  define(text, "bool", name, value ? "true" : "false", comment);
}

// What the whole source shares.
std::string shared_constants(const KernelPlan& plan) {
  const KernelSpec& spec = plan.spec;
  const DTypeRow& dtype = row_of(spec.dtype);
  std::string text;
  define(text, "Element", "kElement", fmt::format("Element::{}", dtype.name), "of the tensors");
  constant(text, "kElementBytes", dtype.bytes);
  if (plan.tensor_memory_columns != 0)
    constant(text, "kMmaFormat", dtype.tcgen05_format, "of the elements in instruction descriptors");
  constant(text, "kPaddedDim", spec.padded_dim,
           "columns of a row on chip; the tensor maps pad and clip head_dim");
  constant(text, "kGroups", spec.groups, "query heads per key/value head");
  flag(text, "kBroadcastQuery", spec.broadcast_q, "one query sequence for every batch entry");
  if (const Visibility& visible = spec.visibility; !visible.full()) {
    constant(text, "kLeft", visible.left.value_or(-1),
             "keys before the one a query stands at; negative: all");
    constant(text, "kRight", visible.right.value_or(-1), "keys behind it");
    flag(text, "kBottomRight", visible.alignment == Alignment::bottom_right,
         "the last query stands at the last key, else the first at the first");
  }
  constant(text, "kTileRows", plan.query_tile, "of a query or key tile, as the work list counts them");
  constant(text, "kItemStages", plan.item_stages, "work items drawn ahead");
  constant(text, "kSwizzleBytes", plan.operand.swizzle_bytes, "as wide as a tensor-map box");
  constant(text, "kTileAlignment", kTileAlignmentBytes, "the repeat of the widest swizzle");
  if (plan.tensor_memory_columns != 0) constant(text, "kTensorMemoryColumns", plan.tensor_memory_columns);
  return text;
}

std::string pass_constants(const KernelPlan& plan) {
  std::string text;
  if (const auto* forward = std::get_if<ForwardPlan>(&plan.entries)) {
    constant(text, "kSplitParts", forward->split.parts, "that a launch with few items is cut into, about");
    constant(text, "kLeastPartTiles", forward->split.least_part_tiles, "key tiles of a part");
    if (forward->polynomial_pairs)
      constant(text, "kPolynomialPairs", *forward->polynomial_pairs,
               "of 16 pairs of exponentials, by multiplications");
    return text;
  }
  const BackwardPlan& backward = plan.backward();
  constant(text, "kStreamedRows", backward.streamed_tile, "of the tiles that stream");
  constant(text, "kChunkRows", backward.chunk_rows, "of those of the entries in one pass");
  constant(text, "kBoxRows", plan.output_box_rows, "of a tensor-map box");
  flag(text, "kShortKeys", backward.short_keys.has_value(),
       "sequences whose keys fit one tile: an entry of their own");
  flag(text, "kTwoCta", backward.two_cta.has_value(),
       "sequences or calls for clusters of two CTAs: an entry of their own");
  return text;
}

std::string shared_region(const KernelPlan& plan, const Region& region) {
  if (region.element == RegionElement::kBytes)
    return fmt::format("SharedBytes<{}, {}>", region.begin, region.size());
  std::string tile =
      fmt::format("SharedTile<kElement, {}, {}, {}>", region.rows, region.columns,
                  region.swizzle_bytes != 0 ? region.swizzle_bytes : plan.operand.swizzle_bytes);
  if (region.tiles == 2) tile = fmt::format("TilePair<{}>", tile);
  return fmt::format("SharedTiles<{}, {}, {}>", tile, region.begin, region.stages);
}

std::string tensor_region(const Region& region) {
  const char* element = region.element == RegionElement::kFloat ? "Element::fp32" : "kElement";
  return fmt::format("TensorTiles<TensorTile<{}, {}, {}>, {}, {}>", element, region.rows, region.columns,
                     region.begin, region.stages);
}

std::string entry_struct(const KernelPlan& plan, const EntryPlan& entry) {
  std::string text = fmt::format(
      "\nstruct {} {{  // {}\n"
      "  static constexpr int kThreads = {}, kCtas = {}, kSharedBytes = {};\n",
      entry.config, entry.name, entry.threads, entry.ctas, entry.shared_bytes);
  const auto define = [&](std::string_view name, std::string_view type, std::string_view comment) {
    text += fmt::format("  using {} = {};  // {}\n", name, type, comment);
  };
  if (entry.cluster > 1)
    text += fmt::format("  static constexpr int kCluster = {};  // CTAs\n", entry.cluster);
  int first = 0;
  for (const WarpRole& role : entry.roles) {
    define(role.type + "Warps", fmt::format("Warps<{}, {}, {}>", first, role.warps, role.registers),
           role.task);
    first += role.warps;
  }
  for (const Region& region : entry.shared_map)
    define(region.type, shared_region(plan, region), region.holds);
  for (const Region& region : entry.tensor_map) define(region.type, tensor_region(region), region.holds);
  return text + "};\n";
}

}  // namespace

std::string configuration_block(const KernelPlan& plan) {
  std::string text = fmt::format("\n#define JFA_PTX_ELEMENT \"{}\"\nnamespace jfa::kernel::config {{\n",
                                 row_of(plan.spec.dtype).ptx);
  text += shared_constants(plan);
  text += pass_constants(plan);
  for (const EntryPlan* entry : entries_of(plan)) text += entry_struct(plan, *entry);
  return text + "}  // namespace jfa::kernel::config\n";
}

}  // namespace jfa
