// A target is one folder of templates and one plan file; this is how the plan file is found.
#pragma once

#include <initializer_list>
#include <string_view>
#include <utility>
#include <vector>

#include "generator/plan.h"

namespace jfa {

using PlanFunction = KernelPlan (*)(const KernelSpec&);

KernelPlan plan_sm90(const KernelSpec& spec);   // compute capability 9.0
KernelPlan plan_sm100(const KernelSpec& spec);  // 10.0 and 10.3

// ---- What the plans share.

/// Regions of these names and sizes, one after the other.
std::vector<MemoryRegion> memory_map(std::initializer_list<std::pair<std::string_view, int>> regions);

/// Columns of a box and its swizzle: the widest that divides the padded row.
OperandPlan plan_operand(int padded_dim);

/// Fills the stages and the shared bytes of plan.main: a query ring, the output's staging tile, and as many
/// key/value tiles as fit beside `control_bytes` of barriers.
void plan_shared_memory(KernelPlan& plan, int control_bytes);

/// The templates of a forward up to the target's own: parameters, PTX wrappers, prepare and merge entries,
/// work queue, loading side. target_ptx: the target's PTX wrappers; descriptors: its matrix-descriptor mode.
std::vector<std::string_view> forward_fragments(const KernelSpec& spec,
                                                std::vector<std::string_view> target_ptx,
                                                std::string_view descriptors);

/// The same of a backward, with its sum entry if a query is shared.
std::vector<std::string_view> backward_fragments(const KernelSpec& spec,
                                                 std::vector<std::string_view> target_ptx,
                                                 std::string_view descriptors);

/// A backward's entries, with `threads` for each gradient entry; stages and shared memory: two pairs of
/// stationary tiles, and as many streamed pairs as fit.
KernelPlan plan_backward_entries(const KernelSpec& spec, int threads);

/// Adds the entry for short sequences to a backward without a shared query: two pairs of stationary tiles, an
/// output tile, score gradients, and as many streamed pairs as fit beside `control_bytes` of barriers.
void plan_short_entry(KernelPlan& plan, int threads, int control_bytes);

/// Its templates up to the target's own; they follow backward_fragments().
std::vector<std::string_view> short_fragments();

/// Adds the broadcast entries to a backward with a shared query: the query's tile, the output gradients,
/// score gradients, and as many pairs of tiles as fit beside `control_bytes` of barriers.
void plan_broadcast_entry(KernelPlan& plan, int threads, int control_bytes);

/// Their templates up to the target's own; they follow backward_fragments().
std::vector<std::string_view> broadcast_fragments();

}  // namespace jfa
