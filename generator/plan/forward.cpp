// A forward's entries and templates, as far as targets share them.
#include <utility>

#include "generator/dtype.h"
#include "generator/plan/common.h"

namespace jfa {

KernelPlan plan_forward_entries(const KernelSpec& spec, const TargetFamily& family, Choices& choices,
                                int control_bytes, int least_key_value_stages) {
  KernelPlan plan;
  plan.spec = spec;
  plan.operand = plan_operand(spec);
  plan.output_box_rows = plan.query_tile;
  plan.item_stages = choices.take("item_stages");

  ForwardPlan forward;
  forward.split.items = choices.take("split_items");
  forward.split.long_items = choices.take("split_long_items");
  forward.split.long_key_tiles = choices.take("long_key_tiles");
  forward.split.parts = choices.take("split_parts");
  forward.split.least_part_tiles = choices.take("least_part_tiles");
  forward.prepare = prepare_entry("jfa_prepare", "Prepare");
  forward.main = persistent_entry("jfa_forward", "Forward");
  forward.merge = streaming_entry("jfa_merge", "Merge", "sums the parts of an output");

  const int query_stages = choices.take("query_stages");
  const int query_bytes = plan.query_tile * row_bytes(spec);
  const int fixed = kTileAlignmentBytes + control_bytes + (query_stages + 1) * query_bytes;
  const int key_value_stages =
      choices.take("key_value_stages", stages_that_fit(family, fixed, plan.key_tile * row_bytes(spec)));
  forward.main.stages = {{"query_stages", query_stages, 1},
                         {"key_value_stages", key_value_stages, least_key_value_stages},
                         {"item_stages", plan.item_stages, 2}};
  const int dim = spec.padded_dim;
  forward.main.shared_map =
      SharedLayout(row_of(spec.dtype).bytes)
          .tiles("Queries", "queries", plan.query_tile, dim, query_stages)
          .tiles("KeysAndValues", "keys and values", plan.key_tile, dim, key_value_stages)
          .tiles("Output", "output", plan.query_tile, dim)
          .bytes("Control", "control", control_bytes)
          .regions();
  forward.main.tile_products = {{"scores", plan.query_tile, plan.key_tile, dim},
                                {"output", plan.query_tile, dim, plan.key_tile}};
  plan.entries = std::move(forward);
  return plan;
}

std::vector<Fragment> forward_fragments(const KernelSpec& spec, std::vector<Fragment> target_ptx,
                                        Fragment descriptors) {
  return concatenate(
      {shared_fragments(spec, {"attention/parameters.h"}, std::move(target_ptx)),
       {"attention/key_parts.cuh", "attention/prepare.cu", "attention/pipeline.cuh", "attention/partial.cuh",
        "attention/merge.cu", descriptors, "attention/matrix_descriptor.cuh"}});
}

}  // namespace jfa
