#include "generator/plan/common.h"

#include <algorithm>
#include <utility>

#include "generator/dtype.h"

namespace jfa {

int row_bytes(const KernelSpec& spec) { return spec.padded_dim * row_of(spec.dtype).bytes; }

void append(std::vector<Fragment>& fragments, const std::vector<Fragment>& more) {
  fragments.insert(fragments.end(), more.begin(), more.end());
}

OperandPlan operand_of(int columns, int element_bytes) {
  OperandPlan operand;
  operand.box_dim = columns % 64 == 0 ? 64 : columns % 32 == 0 ? 32 : 16;
  operand.swizzle_bytes = operand.box_dim * element_bytes;
  return operand;
}

OperandPlan plan_operand(const KernelSpec& spec) {
  return operand_of(spec.padded_dim, row_of(spec.dtype).bytes);
}

int stages_that_fit(const TargetFamily& family, int fixed_bytes, int stage_bytes) {
  constexpr int kMostStages = 8;
  return std::clamp((family.limits.shared_bytes - fixed_bytes) / stage_bytes, 0, kMostStages);
}

EntryPlan prepare_entry(const char* name, const char* config) {
  EntryPlan entry{name, config};
  entry.roles = {{"All", "checks the offsets and lists the work", 32}};
  return entry;
}

EntryPlan prepare_broadcast_entry() { return prepare_entry("jfa_prepare_broadcast", "PrepareBroadcast"); }

EntryPlan streaming_entry(const char* name, const char* config, const char* task) {
  EntryPlan entry{name, config, EntryPlan::Grid::kStreaming, 4};
  entry.roles = {{"All", task, 8}};
  return entry;
}

EntryPlan persistent_entry(const char* name, const char* config) {
  return {name, config, EntryPlan::Grid::kPersistent};
}

std::vector<Fragment> concatenate(std::initializer_list<std::vector<Fragment>> lists) {
  std::vector<Fragment> all;
  for (const std::vector<Fragment>& list : lists) append(all, list);
  return all;
}

std::vector<Fragment> shared_fragments(const KernelSpec& spec, std::vector<Fragment> parameters,
                                       std::vector<Fragment> target_ptx) {
  return concatenate(
      {std::move(parameters),
       {"ptx/thread.cuh", "ptx/mbarrier.cuh", "ptx/bulk_tensor.cuh", "ptx/grid_dependency.cuh"},
       std::move(target_ptx),
       {"attention/operand.cuh", "attention/interval.cuh",
        spec.visibility.full() ? "attention/interval_full.cuh" : "attention/interval_window.cuh",
        "attention/offsets.cuh", "attention/work_list.cuh", "attention/work_queue.cuh",
        "attention/softmax.cuh"}});
}

}  // namespace jfa
