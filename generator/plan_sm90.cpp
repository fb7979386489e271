// Compute capability 9.0: wgmma, accumulators in registers.
#include "generator/target_family.h"

namespace jfa {
namespace {

// The product of probabilities and values has an instruction of its own for every width.
std::string_view value_product(int padded_dim) {
  switch (padded_dim) {
    case 16:
      return "ptx/wgmma_rs_n16.cuh";
    case 32:
      return "ptx/wgmma_rs_n32.cuh";
    case 64:
      return "ptx/wgmma_rs_n64.cuh";
    case 96:
      return "ptx/wgmma_rs_n96.cuh";
    default:
      return "ptx/wgmma_rs_n128.cuh";
  }
}

// So have products of two operands in shared memory.
std::string_view shared_product(int columns) {
  switch (columns) {
    case 16:
      return "ptx/wgmma_ss_n16.cuh";
    case 32:
      return "ptx/wgmma_ss_n32.cuh";
    case 64:
      return "ptx/wgmma_ss_n64.cuh";
    case 96:
      return "ptx/wgmma_ss_n96.cuh";
    default:
      return "ptx/wgmma_ss_n128.cuh";
  }
}

KernelPlan plan_backward_sm90(const KernelSpec& spec) {
  KernelPlan plan = plan_backward_entries(spec, 384);
  plan.fragments = backward_fragments(
      spec, {"ptx/wgmma.cuh", shared_product(plan.backward->streamed_tile), value_product(spec.padded_dim)},
      "sm90/descriptors.cuh");
  plan.fragments.insert(plan.fragments.end(), {"sm90/fragment.cuh", "sm90/backward.cuh",
                                               "sm90/backward_keys.cu", "sm90/backward_queries.cu"});
  const auto add = [&](const std::vector<std::string_view>& fragments) {
    plan.fragments.insert(plan.fragments.end(), fragments.begin(), fragments.end());
  };
  const int query_grad_columns = spec.broadcast_q ? spec.padded_dim : plan.operand.box_dim;
  if (query_grad_columns != plan.backward->streamed_tile) add({shared_product(query_grad_columns)});
  if (spec.broadcast_q) {
    plan_broadcast_entry(plan, 384, 1024);
    add(broadcast_fragments());
    add({"sm90/backward_broadcast.cu"});
  } else {
    plan_short_entry(plan, 384, 1024);
    add(short_fragments());
    add({"sm90/backward_short.cu"});
  }
  return plan;
}

KernelPlan plan_forward_sm90(const KernelSpec& spec) {
  KernelPlan plan;
  plan.spec = spec;
  plan.operand = plan_operand(spec.padded_dim);
  plan.output_box_rows = 64;  // what one consumer warpgroup stores
  plan.prepare = {"jfa_prepare", 1024, 0, EntryPlan::Grid::kOneCta};
  plan.main = {"jfa_forward", 384, 0, EntryPlan::Grid::kPersistent};
  plan.merge = {"jfa_merge", 256, 0, EntryPlan::Grid::kStreaming};
  plan_shared_memory(plan, 2048);
  plan.fragments = forward_fragments(
      spec, {"ptx/wgmma.cuh", shared_product(plan.key_tile), value_product(spec.padded_dim)},
      "sm90/descriptors.cuh");
  plan.fragments.insert(plan.fragments.end(),
                        {"sm90/fragment.cuh", "sm90/softmax_fragment.cuh", "sm90/forward.cu"});
  return plan;
}

}  // namespace

KernelPlan plan_sm90(const KernelSpec& spec) {
  return spec.pass == Pass::forward ? plan_forward_sm90(spec) : plan_backward_sm90(spec);
}

}  // namespace jfa
