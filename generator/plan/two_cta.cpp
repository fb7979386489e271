#include "generator/plan/two_cta.h"

#include <algorithm>
#include <utility>

#include "generator/dtype.h"
#include "generator/plan/common.h"

namespace jfa {
namespace {

constexpr int kCtas = 2;
constexpr int kControlBytes = 1024;
// A product of both CTAs has no fewer columns, and accumulators begin at multiples of so many.
constexpr int kLeastColumns = 32;
// The next chunk's scores are issued before this one's other products.
constexpr int kLeastStages = 2;
constexpr int kMostKeyStages = 2;
constexpr int kPieceColumns = 32;  // of operands that are made at a time

// What shared memory is cut by.
struct TwoCtaShape {
  int dim, gradient_dim, key_tile, key_rows, owned_rows, chunk_rows, element_bytes;

  int half_columns() const { return gradient_dim / kCtas; }
  int key_bytes() const { return (2 * key_tile * dim + key_rows * half_columns()) * element_bytes; }
  int score_grad_bytes() const { return key_rows * owned_rows * element_bytes; }
  int chunk_bytes() const {
    return 2 * (chunk_rows / kCtas * dim + chunk_rows * half_columns()) * element_bytes +
           chunk_rows * kQueryStatsBytes;
  }
};

std::vector<Region> shared_map(const TwoCtaShape& shape, int swizzle_bytes, int key_stages, int stages) {
  const int half_rows = shape.chunk_rows / kCtas;
  return SharedLayout(shape.element_bytes)
      .tiles("Keys", "keys", shape.key_tile, shape.dim, key_stages)
      .tiles("Values", "values", shape.key_tile, shape.dim, key_stages)
      .swizzled_tiles("KeyColumns", "half the columns of the pair's keys", shape.key_rows,
                      shape.half_columns(), swizzle_bytes, key_stages)
      .tiles("RoundedScoreGrads", "rounded score gradients of the pair's keys", shape.key_rows,
             shape.owned_rows)
      .tiles("QueryRows", "half the rows of queries and output gradients", half_rows, shape.dim, stages, 2)
      .swizzled_tiles("QueryColumns", "half the columns of queries and output gradients", shape.chunk_rows,
                      shape.half_columns(), swizzle_bytes, stages, 2)
      .bytes("Control", "control", kControlBytes + stages * shape.chunk_rows * kQueryStatsBytes)
      .regions();
}

// Operands lie over the score gradients that they are made of, piece by piece: probabilities, then rounded
// score gradients.
std::vector<Region> tensor_map(const TwoCtaShape& shape) {
  return TensorLayout(shape.element_bytes)
      .accumulator("Scores", "scores", shape.key_tile, shape.chunk_rows, kLeastColumns)
      .accumulator("ScoreGrads", "score gradients", shape.key_tile, shape.chunk_rows, kLeastColumns)
      .operand_over("Operands", "probabilities and rounded score gradients", shape.key_tile, kPieceColumns,
                    "ScoreGrads", 2 * shape.chunk_rows / kPieceColumns)
      .accumulator("KeyGrad", "key gradient", shape.key_tile, shape.gradient_dim, kLeastColumns)
      .accumulator("ValueGrad", "value gradient", shape.key_tile, shape.gradient_dim, kLeastColumns)
      .accumulator("QueryGrad", "query gradient", shape.owned_rows, shape.gradient_dim, kLeastColumns)
      .regions();
}

// Of one CTA, for its tile of keys and all rows of a tile of queries: it does half of every product.
std::vector<TileProduct> products(const TwoCtaShape& shape, int query_rows) {
  return {{"scores", shape.key_tile, query_rows, shape.dim},
          {"score gradients", shape.key_tile, query_rows, shape.dim},
          {"key gradient", shape.key_tile, shape.gradient_dim, query_rows},
          {"value gradient", shape.key_tile, shape.gradient_dim, query_rows},
          {"query gradient", shape.owned_rows, shape.gradient_dim, shape.key_rows}};
}

}  // namespace

void plan_two_cta(const TargetFamily& family, Choices& choices, KernelPlan& plan) {
  auto& backward = std::get<BackwardPlan>(plan.entries);
  constexpr int kOff = 0, kOn = 2;
  const int calls = choices.take("two_cta");
  TwoCtaPlan two_cta;
  two_cta.on = calls == kOn;
  const int dim = plan.spec.padded_dim;
  const TwoCtaShape shape{dim,
                          std::max(dim, kLeastColumns),
                          plan.key_tile,
                          two_cta.key_rows,
                          two_cta.query_rows / kCtas,
                          backward.chunk_rows,
                          row_of(plan.spec.dtype).bytes};
  two_cta.columns = operand_of(shape.half_columns(), shape.element_bytes);
  const int fixed = kTileAlignmentBytes + kControlBytes + shape.score_grad_bytes();
  const int key_stages = std::min(
      kMostKeyStages, stages_that_fit(family, fixed + kLeastStages * shape.chunk_bytes(), shape.key_bytes()));
  const int stages = choices.take(
      "two_cta_stages", stages_that_fit(family, fixed + key_stages * shape.key_bytes(), shape.chunk_bytes()));
  if (calls == kOff) return;
  if (plan.spec.broadcast_q) backward.prepare_broadcast = prepare_broadcast_entry();
  EntryPlan& main = two_cta.main = persistent_entry("jfa_backward_two_cta", "TwoCta");
  main.cluster = kCtas;
  main.stages = {{"key_stages", key_stages, 1},
                 {"two_cta_stages", stages, kLeastStages},
                 {"item_stages", plan.item_stages, 2}};
  main.roles = {{"Load", "loads tiles"},
                {"Draw", "allocates tensor memory, draws work items"},
                {"Stats", "LSE and delta of the queries"},
                {"Multiply", "of the even CTA: issues the products of both"},
                {"Attend", "operands from scores: one thread a key", 4},
                {"Unload", "gradients out of tensor memory: one thread a row", 4}};
  main.shared_map = shared_map(shape, two_cta.columns.swizzle_bytes, key_stages, stages);
  main.tensor_map = tensor_map(shape);
  main.tile_products = products(shape, two_cta.query_rows);
  backward.two_cta = std::move(two_cta);
}

std::vector<Fragment> two_cta_fragments(const KernelSpec& spec, bool has_runs) {
  std::vector<Fragment> fragments;
  if (spec.broadcast_q && !has_runs) fragments = {"attention/prepare_broadcast.cu", "attention/key_runs.cuh"};
  append(fragments, {"ptx/cluster.cuh", "sm100/two_cta.cuh", "sm100/two_cta_load.cuh",
                     "sm100/two_cta_products.cuh", "sm100/two_cta_rows.cuh",
                     spec.broadcast_q ? "sm100/two_cta_shared_query.cuh" : "sm100/two_cta_own_query.cuh",
                     "sm100/backward_two_cta.cu"});
  return fragments;
}

}  // namespace jfa
