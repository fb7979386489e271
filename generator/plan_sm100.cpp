// Compute capability 10.x: tcgen05, accumulators in tensor memory.
#include "generator/target_family.h"

namespace jfa {

namespace {

KernelPlan plan_forward(const KernelSpec& spec) {
  KernelPlan plan;
  plan.spec = spec;
  plan.operand = plan_operand(spec.padded_dim);
  plan.output_box_rows = plan.query_tile;
  // Two score buffers of 128 columns, the output's 128, probabilities' 64.
  plan.tensor_memory_columns = 512;
  plan.prepare = {"jfa_prepare", 1024, 0, EntryPlan::Grid::kOneCta};
  plan.main = {"jfa_forward", 256, 0, EntryPlan::Grid::kPersistent};
  plan.merge = {"jfa_merge", 256, 0, EntryPlan::Grid::kStreaming};
  plan_shared_memory(plan, 2048);
  plan.fragments = forward_fragments(spec, {"ptx/tcgen05.cuh"}, "sm100/descriptors.cuh");
  plan.fragments.insert(plan.fragments.end(), {"sm100/row.cuh", "sm100/forward.cu"});
  return plan;
}

KernelPlan plan_backward(const KernelSpec& spec) {
  KernelPlan plan = plan_backward_entries(spec, 256);
  // Scores and their gradients of 64 columns, both operands' 32, two accumulators of 128.
  plan.tensor_memory_columns = 512;
  plan.fragments = backward_fragments(spec, {"ptx/tcgen05.cuh"}, "sm100/descriptors.cuh");
  plan.fragments.insert(plan.fragments.end(), {"sm100/row.cuh", "sm100/backward.cuh",
                                               "sm100/backward_keys.cu", "sm100/backward_queries.cu"});
  return plan;
}

}  // namespace

KernelPlan plan_sm100(const KernelSpec& spec) {
  return spec.pass == Pass::forward ? plan_forward(spec) : plan_backward(spec);
}

}  // namespace jfa
