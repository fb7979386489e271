// Compute capability 9.0: wgmma, accumulators in registers.
#include "generator/plan/knobs.h"

namespace jfa {
namespace {

using enum Knob::Scope;

constexpr int kConsumers = 2;      // warpgroups
constexpr int kConsumerRows = 64;  // what a warpgroup's products have, and what it stores
constexpr int kWarpgroupWarps = 4;

// Where the consumers take every other key tile, each keeps values while it waits for its next keys, and the
// other one's key and value tile lie between.
constexpr int kSm90LeastStages = 2 * kConsumers;
// A consumer keeps a streamed pair while it waits for its next one, and the other one's lies between.
constexpr BackwardLeast kSm90BackwardLeast{.streamed = kConsumers + 1, .short_stages = 1, .pairs = 1};

constexpr auto kSm90Knobs =
    all_knobs(kSm90LeastStages, kSm90BackwardLeast,
              {{kForward, "producer_registers", 24, 40, 8, 24, "of a thread that loads or draws"},
               {kForward, "consumer_registers", 224, 240, 8, 240, "of a thread that computes"},
               {kBackward, "producer_registers", 40, 56, 8, 40, "of a thread that loads, draws or stores"},
               {kBackward, "consumer_registers", 216, 232, 8, 232, "of a thread that computes"}});

// Warpgroup 0 is filled up with a role that only gives its registers back.
std::vector<WarpRole> with_consumers(std::vector<WarpRole> producers, Choices& choices) {
  const int registers = choices.take("producer_registers");
  const int idle = kWarpgroupWarps - static_cast<int>(producers.size());
  if (idle > 0) producers.push_back({"Idle", "nothing", idle});
  for (WarpRole& role : producers) role.registers = registers;
  producers.push_back({"Consume", "products, softmax or gradients, store: 64 rows a warpgroup",
                       kConsumers * kWarpgroupWarps, choices.take("consumer_registers")});
  return producers;
}

KernelPlan plan_forward_sm90(const TargetFamily& family, const KernelSpec& spec, Choices& choices) {
  constexpr int kControlBytes = 2048;
  KernelPlan plan = plan_forward_entries(spec, family, choices, kControlBytes, kSm90LeastStages);
  plan.output_box_rows = kConsumerRows;
  EntryPlan& main = std::get<ForwardPlan>(plan.entries).main;
  main.roles =
      with_consumers({{"Load", "loads queries, keys and values"}, {"Draw", "draws work items"}}, choices);
  plan.fragments = forward_fragments(
      spec,
      {"ptx/wgmma.cuh", Fragment("ptx/wgmma_ss", plan.key_tile), Fragment("ptx/wgmma_rs", spec.padded_dim)},
      "sm90/descriptors.cuh");
  append(plan.fragments, {"sm90/product.cuh", "sm90/fragment.cuh", "sm90/softmax_fragment.cuh",
                          "sm90/forward_consumers.cuh", "sm90/forward.cu"});
  return plan;
}

KernelPlan plan_backward_sm90(const TargetFamily& family, const KernelSpec& spec, Choices& choices) {
  constexpr ControlBytes kControl{.pair = 512, .one_pass = 1024};
  KernelPlan plan = plan_backward_entries(spec, family, choices, kControl, kSm90BackwardLeast, kConsumerRows);
  auto& backward = std::get<BackwardPlan>(plan.entries);
  backward.keys.roles = with_consumers(
      {{"Load", "loads tiles"}, {"Draw", "draws work items"}, {"Stats", "LSE and delta of the queries"}},
      choices);
  backward.queries.roles = with_consumers({{"Load", "loads tiles"}, {"Draw", "draws work items"}}, choices);
  const std::vector<WarpRole> one_pass_roles = with_consumers({{"Load", "loads tiles"},
                                                               {"Draw", "draws work items"},
                                                               {"Stats", "LSE and delta of the queries"},
                                                               {"Store", "stores gradients"}},
                                                              choices);
  std::vector<Fragment> products{"ptx/wgmma.cuh", Fragment("ptx/wgmma_ss", backward.streamed_tile),
                                 Fragment("ptx/wgmma_rs", spec.padded_dim)};
  // Columns of the query gradient's product, in one pass: all of them, or a column block.
  const int query_grad_columns = spec.broadcast_q ? spec.padded_dim : plan.operand.box_dim;
  if (query_grad_columns != backward.streamed_tile) products.emplace_back("ptx/wgmma_ss", query_grad_columns);
  plan.fragments = backward_fragments(spec, products, "sm90/descriptors.cuh");
  append(plan.fragments, {"sm90/product.cuh", "sm90/fragment.cuh", "sm90/backward.cuh",
                          "sm90/backward_keys.cu", "sm90/backward_queries.cu"});
  append(plan.fragments, one_pass_fragments(backward));
  if (backward.broadcast) {
    backward.broadcast->main.roles = one_pass_roles;
    append(plan.fragments, {"sm90/backward_broadcast.cu"});
  } else if (backward.short_keys) {
    backward.short_keys->main.roles = one_pass_roles;
    append(plan.fragments, {"sm90/backward_short.cu"});
  }
  return plan;
}

}  // namespace

const TargetFamily& sm90_family() {
  static const TargetFamily family{
      "sm90", {232448, 0, 65536, 1024}, 4096, 64, kSm90Knobs, plan_forward_sm90, plan_backward_sm90};
  return family;
}

}  // namespace jfa
