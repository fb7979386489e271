// Compute capability 10.x: tcgen05, accumulators in tensor memory.
#include "generator/target_family.h"

namespace jfa {

namespace {

KernelPlan plan_forward(const KernelSpec& spec) {
  KernelPlan plan;
  plan.spec = spec;
  plan.operand = plan_operand(spec.padded_dim);
  plan.output_box_rows = plan.query_tile;
  plan.tensor_memory_columns = 512;
  plan.prepare = {"jfa_prepare", 1024, 0, EntryPlan::Grid::kOneCta};
  plan.main = {"jfa_forward", 256, 0, EntryPlan::Grid::kPersistent};
  plan.merge = {"jfa_merge", 256, 0, EntryPlan::Grid::kStreaming};
  plan_shared_memory(plan, 2048);
  plan.main.tensor_map = memory_map({{"scores", 2 * 128}, {"output", 128}, {"probabilities", 64}});
  plan.main.tile_products = {{"scores", plan.query_tile, plan.key_tile, spec.padded_dim},
                             {"output", plan.query_tile, spec.padded_dim, plan.key_tile}};
  plan.fragments = forward_fragments(spec, {"ptx/tcgen05.cuh"}, "sm100/descriptors.cuh");
  plan.fragments.insert(plan.fragments.end(), {"sm100/row.cuh", "sm100/forward.cu"});
  return plan;
}

// Tensor memory and products of the two entries that have one side in place each.
void lay_out_pair(const KernelPlan& plan, BackwardPlan& backward) {
  const int dim = plan.spec.padded_dim;
  const int streamed = backward.streamed_tile;
  const auto map = [](std::string_view gradient, std::string_view second) {
    return memory_map({{"scores", 64},
                       {"score gradients", 64},
                       {"probabilities", 32},
                       {"rounded score gradients", 32},
                       {"spare", 64},
                       {gradient, 128},
                       {second, 128}});
  };
  backward.keys.tensor_map = map("key gradient", "value gradient");
  backward.queries.tensor_map = map("query gradient", "spare");
  backward.keys.tile_products = {{"scores", plan.key_tile, streamed, dim},
                                 {"score gradients", plan.key_tile, streamed, dim},
                                 {"key gradient", plan.key_tile, dim, streamed},
                                 {"value gradient", plan.key_tile, dim, streamed}};
  backward.queries.tile_products = {{"scores", plan.query_tile, streamed, dim},
                                    {"score gradients", plan.query_tile, streamed, dim},
                                    {"query gradient", plan.query_tile, dim, streamed}};
}

std::vector<MemoryRegion> fused_tensor_map() {
  return memory_map({{"scores", 64},
                     {"score gradients, then probabilities", 64},
                     {"key gradient", 128},
                     {"value gradient", 128},
                     {"query gradient", 128}});
}

// Of a tile of keys and so many queries, in one pass; the query gradient's product comes last.
std::vector<TileProduct> fused_products(const KernelPlan& plan, int queries) {
  const int dim = plan.spec.padded_dim;
  return {{"scores", plan.key_tile, queries, dim},
          {"score gradients", plan.key_tile, queries, dim},
          {"key gradient", plan.key_tile, dim, queries},
          {"value gradient", plan.key_tile, dim, queries},
          {"query gradient", queries, dim, plan.key_tile}};
}

// The same of the entry that has a shared query in place, for a full tile of queries.
void lay_out_broadcast(const KernelPlan& plan, BroadcastPlan& broadcast) {
  broadcast.main.tensor_map = fused_tensor_map();
  broadcast.main.tile_products = fused_products(plan, broadcast.query_tile);
}

// The same of the entry for sequences whose keys fit one tile, for one streamed tile of queries.
void lay_out_short(const KernelPlan& plan, ShortPlan& entry) {
  entry.main.tensor_map = fused_tensor_map();
  entry.main.tile_products = fused_products(plan, plan.backward->streamed_tile);
}

KernelPlan plan_backward(const KernelSpec& spec) {
  constexpr int kPairThreads = 256, kFusedThreads = 416, kFusedControlBytes = 1024;
  KernelPlan plan = plan_backward_entries(spec, kPairThreads);
  BackwardPlan& backward = *plan.backward;
  lay_out_pair(plan, backward);
  plan.tensor_memory_columns = 512;
  plan.fragments = backward_fragments(spec, {"ptx/tcgen05.cuh"}, "sm100/descriptors.cuh");
  const auto add = [&](const std::vector<std::string_view>& fragments) {
    plan.fragments.insert(plan.fragments.end(), fragments.begin(), fragments.end());
  };
  add({"sm100/row.cuh", "sm100/backward.cuh", "sm100/backward_keys.cu", "sm100/backward_queries.cu",
       "sm100/fused.cuh"});
  if (spec.broadcast_q) {
    plan_broadcast_entry(plan, kFusedThreads, kFusedControlBytes);
    lay_out_broadcast(plan, *backward.broadcast);
    add(broadcast_fragments());
    add({"sm100/backward_broadcast.cu"});
  } else {
    plan_short_entry(plan, kFusedThreads, kFusedControlBytes);
    lay_out_short(plan, *backward.short_keys);
    add(short_fragments());
    add({"sm100/backward_short.cu"});
  }
  return plan;
}

}  // namespace

KernelPlan plan_sm100(const KernelSpec& spec) {
  return spec.pass == Pass::forward ? plan_forward(spec) : plan_backward(spec);
}

}  // namespace jfa
