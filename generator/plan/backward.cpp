// A backward's entries and templates, as far as targets share them.
#include <algorithm>
#include <utility>

#include "generator/dtype.h"
#include "generator/plan/common.h"

namespace jfa {
namespace {

constexpr int kStationaryStages = 2;

// What the entries of one plan are cut by.
struct Shape {
  int dim, key_tile, query_tile, streamed_tile, chunk_rows, element_bytes, row_bytes, item_stages;

  int stationary_bytes() const { return kStationaryStages * 2 * key_tile * row_bytes; }
  int pair_bytes(int rows) const { return rows * 2 * row_bytes; }
  int stats_bytes(int rows) const { return rows * kQueryStatsBytes; }
  SharedLayout layout() const { return SharedLayout(element_bytes); }
};

// Two pairs of stationary tiles, and as many streamed pairs as fit beside them, or as are asked for.
void plan_pair(const Shape& shape, const TargetFamily& family, Choices& choices, int control_bytes, int least,
               BackwardPlan& backward) {
  const int dim = shape.dim, tile = shape.streamed_tile;
  const int fixed = kTileAlignmentBytes + control_bytes + shape.stationary_bytes();
  const int streamed = choices.take(
      "streamed_stages", stages_that_fit(family, fixed, shape.pair_bytes(tile) + shape.stats_bytes(tile)));
  backward.keys = persistent_entry("jfa_backward_keys", "Keys");
  backward.queries = persistent_entry("jfa_backward_queries", "Queries");
  for (EntryPlan* entry : {&backward.keys, &backward.queries}) {
    entry->stages = {{"stationary_stages", kStationaryStages, 2},
                     {"streamed_stages", streamed, least},
                     {"item_stages", shape.item_stages, 2}};
    entry->shared_map =
        shape.layout()
            .tiles("Stationary", "stationary pairs", shape.key_tile, shape.dim, kStationaryStages, 2)
            .tiles("Streamed", "streamed pairs", shape.streamed_tile, shape.dim, streamed, 2)
            .bytes("Control", "control", control_bytes + streamed * shape.stats_bytes(tile))
            .regions();
  }
  backward.keys.tile_products = {{"scores", shape.key_tile, tile, dim},
                                 {"score gradients", shape.key_tile, tile, dim},
                                 {"key gradient", shape.key_tile, dim, tile},
                                 {"value gradient", shape.key_tile, dim, tile}};
  backward.queries.tile_products = {{"scores", shape.query_tile, tile, dim},
                                    {"score gradients", shape.query_tile, tile, dim},
                                    {"query gradient", shape.query_tile, dim, tile}};
}

// Products of a tile of keys and so many queries in one pass; the query gradient's comes last.
std::vector<TileProduct> one_pass_products(const Shape& shape, int queries) {
  return {{"scores", shape.key_tile, queries, shape.dim},
          {"score gradients", shape.key_tile, queries, shape.dim},
          {"key gradient", shape.key_tile, shape.dim, queries},
          {"value gradient", shape.key_tile, shape.dim, queries},
          {"query gradient", queries, shape.dim, shape.key_tile}};
}

// Two pairs of stationary tiles, an output tile, score gradients, and as many streamed pairs as fit.
void plan_short(const Shape& shape, const TargetFamily& family, Choices& choices, int control_bytes,
                int least, BackwardPlan& backward) {
  const int score_grad_bytes = shape.key_tile * shape.chunk_rows * shape.element_bytes;
  const int fixed = kTileAlignmentBytes + control_bytes + shape.stationary_bytes() + score_grad_bytes +
                    shape.chunk_rows * shape.row_bytes;
  const int streamed = choices.take("short_stages", stages_that_fit(family, fixed,
                                                                    shape.pair_bytes(shape.chunk_rows) +
                                                                        shape.stats_bytes(shape.chunk_rows)));
  if (choices.take("short_one_pass") == 0) return;
  EntryPlan& entry = backward.short_keys.emplace().main = persistent_entry("jfa_backward_short", "Short");
  entry.stages = {{"stationary_stages", kStationaryStages, 2},
                  {"short_stages", streamed, least},
                  {"item_stages", shape.item_stages, 2}};
  entry.shared_map =
      shape.layout()
          .tiles("Stationary", "stationary pairs", shape.key_tile, shape.dim, kStationaryStages, 2)
          .tiles("Streamed", "streamed pairs", shape.chunk_rows, shape.dim, streamed, 2)
          .tiles("RoundedScoreGrads", "rounded score gradients", shape.key_tile, shape.chunk_rows)
          .tile_over("StagedQueryGrad", "query gradient", shape.chunk_rows, shape.dim, "RoundedScoreGrads")
          .tiles("Output", "output", shape.chunk_rows, shape.dim)
          .bytes("Control", "control", control_bytes + streamed * shape.stats_bytes(shape.chunk_rows))
          .regions();
  entry.tile_products = one_pass_products(shape, shape.chunk_rows);
}

// The query's tile, the output gradients, score gradients, and as many pairs of tiles as fit.
void plan_broadcast(const Shape& shape, const TargetFamily& family, Choices& choices, int control_bytes,
                    int least, BackwardPlan& backward) {
  BroadcastPlan broadcast;
  const int pair_bytes = 2 * shape.key_tile * shape.row_bytes;
  const auto fixed = [&](int output_grad_rows) {
    return kTileAlignmentBytes + control_bytes + shape.key_tile * broadcast.query_tile * shape.element_bytes +
           output_grad_rows * kQueryStatsBytes + (broadcast.query_tile + output_grad_rows) * shape.row_bytes;
  };
  // The next sequence's output gradient beside the current one's, unless that would cost the second pair.
  const int two = 2 * broadcast.query_tile;
  const bool has_room = fixed(two) + 2 * pair_bytes <= family.limits.shared_bytes;
  broadcast.output_grad_rows = choices.take("output_grad_rows", has_room ? two : broadcast.query_tile);
  const int pairs = choices.take("broadcast_stages",
                                 stages_that_fit(family, fixed(broadcast.output_grad_rows), pair_bytes));
  if (choices.take("broadcast_one_pass") == 0) return;
  backward.prepare_broadcast = prepare_broadcast_entry();
  broadcast.main = persistent_entry("jfa_backward_broadcast", "Broadcast");
  broadcast.main.stages = {{"broadcast_stages", pairs, least}, {"item_stages", shape.item_stages, 2}};
  broadcast.main.shared_map =
      shape.layout()
          .tiles("Queries", "queries", broadcast.query_tile, shape.dim)
          .tiles("OutputGrads", "output gradients", broadcast.small_tile, shape.dim,
                 broadcast.output_grad_rows / broadcast.small_tile)
          .tiles("RoundedScoreGrads", "rounded score gradients", shape.key_tile, broadcast.query_tile)
          .tiles("Pairs", "key and value pairs", shape.key_tile, shape.dim, pairs, 2)
          .bytes("Control", "control", control_bytes + broadcast.output_grad_rows * kQueryStatsBytes)
          .regions();
  broadcast.main.tile_products = one_pass_products(shape, broadcast.query_tile);
  backward.broadcast = std::move(broadcast);
}

}  // namespace

KernelPlan plan_backward_entries(const KernelSpec& spec, const TargetFamily& family, Choices& choices,
                                 const ControlBytes& control, const BackwardLeast& least, int streamed_tile) {
  KernelPlan plan;
  plan.spec = spec;
  plan.operand = plan_operand(spec);
  plan.item_stages = choices.take("item_stages");
  BackwardPlan backward;
  backward.streamed_tile = streamed_tile;
  plan.output_box_rows = std::min(backward.streamed_tile, backward.chunk_rows);
  backward.prepare = prepare_entry("jfa_prepare_backward", "Prepare");
  backward.delta = streaming_entry("jfa_delta", "Delta", "sums products of output and its gradient");
  backward.sum = streaming_entry("jfa_sum_query_grad", "Sum", "sums the parts of a query gradient");
  const Shape shape{spec.padded_dim,        plan.key_tile,       plan.query_tile,
                    backward.streamed_tile, backward.chunk_rows, row_of(spec.dtype).bytes,
                    row_bytes(spec),        plan.item_stages};
  plan_pair(shape, family, choices, control.pair, least.streamed, backward);
  if (spec.broadcast_q) {
    backward.query_grad_items = choices.take("query_grad_items");
    backward.broadcast_items = choices.take("broadcast_items");
    plan_broadcast(shape, family, choices, control.one_pass, least.pairs, backward);
  } else {
    plan_short(shape, family, choices, control.one_pass, least.short_stages, backward);
  }
  plan.entries = std::move(backward);
  return plan;
}

std::vector<Fragment> backward_fragments(const KernelSpec& spec, std::vector<Fragment> target_ptx,
                                         Fragment descriptors) {
  std::vector<Fragment> fragments =
      concatenate({shared_fragments(spec, {"attention/parameters.h", "attention/backward_parameters.h"},
                                    std::move(target_ptx)),
                   {"attention/element.cuh", "attention/prepare_backward.cu", "attention/delta.cu",
                    "attention/backward_pipeline.cuh", "attention/keys_stationary.cuh",
                    "attention/queries_stationary.cuh", descriptors, "attention/matrix_descriptor.cuh"}});
  if (spec.broadcast_q) fragments.push_back("attention/sum_query_grad.cu");
  return fragments;
}

std::vector<Fragment> one_pass_fragments(const BackwardPlan& backward) {
  if (backward.broadcast)
    return {"attention/prepare_broadcast.cu", "attention/key_runs.cuh", "attention/broadcast_query.cuh"};
  if (backward.short_keys) return {"attention/short_keys.cuh"};
  return {};
}

}  // namespace jfa
