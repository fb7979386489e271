// Compute capability 10.x: tcgen05, accumulators in tensor memory.
#include <utility>

#include "generator/dtype.h"
#include "generator/plan/knobs.h"
#include "generator/plan/two_cta.h"

namespace jfa {
namespace {

using enum Knob::Scope;

constexpr auto kSm100Knobs = all_knobs(
    2, {.streamed = 2, .short_stages = 2, .pairs = 2},
    {{kForward, "tensor_order", 0, 1, 1, 0, "tensor memory: 0 scores first, 1 output first"},
     {kForward, "exp_polynomial", 0, 16, 1, Knob::kByPlan,
      "of 16 pairs of exponentials, those that the multipliers make"},
     {kBackward, "streamed_tile", 32, 64, 32, 64, "rows of a streamed tile, of keys and queries"},
     {kBackward, "tensor_order", 0, 1, 1, 0, "tensor memory: 0 scores first, 1 gradients first"},
     {kBackward, "two_cta", 0, 2, 1, 1,
      "by clusters of two CTAs: 0 nothing, 1 what saves bytes, 2 all that can be"},
     {kBackward, "two_cta_stages", 2, 8, 1, Knob::kByPlan, "chunks of queries in flight, of those"}});

constexpr int kTensorColumns = 512;
// Accumulators begin at multiples of so many columns, what feeds them at multiples of kOperandAlignment.
constexpr int kAccumulatorAlignment = 128;
constexpr int kOperandAlignment = 32;

std::vector<Region> forward_tensor_map(const KernelPlan& plan, bool output_first) {
  TensorLayout map(row_of(plan.spec.dtype).bytes);
  const auto scores = [&] {
    map.accumulator("Scores", "scores", plan.query_tile, plan.key_tile, kAccumulatorAlignment, 2);
  };
  if (!output_first) scores();
  // Probabilities have columns of their own, so that no product overwrites what another, unordered with it,
  // still reads.
  map.accumulator("Accumulator", "output", plan.query_tile, plan.spec.padded_dim, kAccumulatorAlignment);
  map.operand("Probabilities", "probabilities", plan.query_tile, plan.key_tile, kAccumulatorAlignment);
  if (output_first) scores();
  return map.regions();
}

// Of 16 pairs of exponentials, those that are made by a polynomial: as many as keep the multipliers of 10.0
// busy as long as its unit for exponentials. That of 10.3 is twice as fast and needs no help. The family's
// image runs on both, and takes the share of the slower one.
int usual_polynomial_pairs(Target target) { return virtual_target(target) == Target::compute_103a ? 0 : 6; }

KernelPlan plan_forward_sm100(const TargetFamily& family, const KernelSpec& spec, Choices& choices) {
  // The product thread waits for the next keys before it multiplies these values.
  constexpr int kLeastKeyValueStages = 2;
  constexpr int kControlBytes = 2048;
  KernelPlan plan = plan_forward_entries(spec, family, choices, kControlBytes, kLeastKeyValueStages);
  plan.tensor_memory_columns = kTensorColumns;
  auto& forward = std::get<ForwardPlan>(plan.entries);
  forward.polynomial_pairs = choices.take("exp_polynomial", usual_polynomial_pairs(spec.target));
  EntryPlan& main = forward.main;
  main.roles = {{"Load", "loads queries, keys and values"},
                {"Multiply", "issues the products"},
                {"Draw", "draws work items"},
                {"Allocate", "allocates tensor memory"},
                {"Softmax", "softmax, rescale, normalise, store: one thread a query", 4}};
  main.tensor_map = forward_tensor_map(plan, choices.take("tensor_order") != 0);
  plan.fragments = forward_fragments(spec, {"ptx/packed.cuh", "ptx/tcgen05.cuh"}, "sm100/descriptors.cuh");
  append(plan.fragments, {"sm100/product.cuh", "sm100/row.cuh", "sm100/forward.cu"});
  return plan;
}

// Of the two entries that have one side in place each; the queries' has no use for the probabilities.
std::vector<Region> pair_tensor_map(const KernelPlan& plan, bool gradients_first,
                                    const std::vector<std::pair<const char*, const char*>>& gradients) {
  const int streamed = plan.backward().streamed_tile;
  TensorLayout map(row_of(plan.spec.dtype).bytes);
  const auto add_gradients = [&] {
    for (const auto& [type, holds] : gradients)
      map.accumulator(type, holds, plan.key_tile, plan.spec.padded_dim, kAccumulatorAlignment);
  };
  if (gradients_first) add_gradients();
  // The next scores are computed while these are read.
  map.accumulator("Scores", "scores", plan.key_tile, streamed, kOperandAlignment, 2);
  map.accumulator("ScoreGrads", "score gradients", plan.key_tile, streamed, kOperandAlignment);
  map.operand("Probabilities", "probabilities", plan.key_tile, streamed, kOperandAlignment);
  map.operand("RoundedScoreGrads", "rounded score gradients", plan.key_tile, streamed, kOperandAlignment);
  if (!gradients_first) add_gradients();
  return map.regions();
}

std::vector<Region> one_pass_tensor_map(const KernelPlan& plan, bool gradients_first, int query_rows) {
  const int streamed = plan.backward().chunk_rows;
  const int dim = plan.spec.padded_dim;
  TensorLayout map(row_of(plan.spec.dtype).bytes);
  const auto add_scores = [&] {
    map.accumulator("Scores", "scores", plan.key_tile, streamed, kOperandAlignment);
    map.accumulator("ScoreGrads", "score gradients", plan.key_tile, streamed, kOperandAlignment);
    map.operand_over("Probabilities", "probabilities", plan.key_tile, streamed, "ScoreGrads");
  };
  if (!gradients_first) add_scores();
  map.accumulator("KeyGrad", "key gradient", plan.key_tile, dim, kAccumulatorAlignment);
  map.accumulator("ValueGrad", "value gradient", plan.key_tile, dim, kAccumulatorAlignment);
  map.accumulator("QueryGrad", "query gradient", query_rows, dim, kAccumulatorAlignment);
  if (gradients_first) add_scores();
  return map.regions();
}

std::vector<WarpRole> pair_roles(const char* stats_task) {
  return {{"Load", "loads tiles"},
          {"Multiply", "issues the products"},
          {"Draw", "draws work items"},
          {"Stats", stats_task},
          {"Gradients", "operands from scores, then the store: two threads a row", 8}};
}

std::vector<WarpRole> one_pass_roles() {
  return {{"Load", "loads tiles"},
          {"Draw", "draws work items"},
          {"Stats", "LSE and delta of the queries"},
          {"Store", "allocates tensor memory, stores gradients"},
          {"Attend", "operands from scores: one thread a key", 4},
          {"Unload", "gradients out of tensor memory: one thread a row", 4},
          {"Multiply", "issues the products"}};
}

KernelPlan plan_backward_sm100(const TargetFamily& family, const KernelSpec& spec, Choices& choices) {
  constexpr ControlBytes kControl{.pair = 512, .one_pass = 1024};
  // Scores of the next tile, or of the next keys, are issued before the products of this one.
  constexpr BackwardLeast kLeast{.streamed = 2, .short_stages = 2, .pairs = 2};
  KernelPlan plan =
      plan_backward_entries(spec, family, choices, kControl, kLeast, choices.take("streamed_tile"));
  plan.tensor_memory_columns = kTensorColumns;
  const bool gradients_first = choices.take("tensor_order") != 0;
  auto& backward = std::get<BackwardPlan>(plan.entries);
  backward.keys.roles = pair_roles("allocates tensor memory, LSE and delta of the queries");
  backward.keys.tensor_map =
      pair_tensor_map(plan, gradients_first, {{"KeyGrad", "key gradient"}, {"ValueGrad", "value gradient"}});
  backward.queries.roles = pair_roles("allocates tensor memory");
  backward.queries.tensor_map = pair_tensor_map(plan, gradients_first, {{"QueryGrad", "query gradient"}});
  plan.fragments = backward_fragments(spec, {"ptx/packed.cuh", "ptx/tcgen05.cuh"}, "sm100/descriptors.cuh");
  append(plan.fragments, {"sm100/product.cuh", "sm100/row.cuh", "sm100/operands.cuh", "sm100/backward.cuh",
                          "sm100/backward_keys.cu", "sm100/backward_queries.cu"});
  if (backward.broadcast) {
    EntryPlan& main = backward.broadcast->main;
    main.roles = one_pass_roles();
    main.tensor_map = one_pass_tensor_map(plan, gradients_first, backward.broadcast->query_tile);
    append(plan.fragments, {"sm100/fused.cuh"});
    append(plan.fragments, one_pass_fragments(backward));
    append(plan.fragments, {"sm100/backward_broadcast.cu"});
  } else if (backward.short_keys) {
    EntryPlan& main = backward.short_keys->main;
    main.roles = one_pass_roles();
    main.tensor_map = one_pass_tensor_map(plan, gradients_first, backward.chunk_rows);
    append(plan.fragments, {"sm100/fused.cuh"});
    append(plan.fragments, one_pass_fragments(backward));
    append(plan.fragments, {"sm100/backward_short.cu"});
  }
  plan_two_cta(family, choices, plan);
  if (backward.two_cta) {
    if (!backward.broadcast && !backward.short_keys) append(plan.fragments, {"sm100/fused.cuh"});
    append(plan.fragments, two_cta_fragments(spec, backward.broadcast.has_value()));
  }
  return plan;
}

}  // namespace

const TargetFamily& sm100_family() {
  static const TargetFamily family{"sm100",
                                   {232448, kTensorColumns, 65536, 1024},
                                   8192,
                                   128,
                                   kSm100Knobs,
                                   plan_forward_sm100,
                                   plan_backward_sm100};
  return family;
}

}  // namespace jfa
