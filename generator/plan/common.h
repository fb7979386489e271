// What the plans of both passes share.
#pragma once

#include <initializer_list>
#include <vector>

#include "generator/plan/family.h"

namespace jfa {

/// LSE and delta of a query.
inline constexpr int kQueryStatsBytes = 8;

/// Columns of a box and its swizzle: the widest that divides so many columns, or the padded row.
OperandPlan operand_of(int columns, int element_bytes);
OperandPlan plan_operand(const KernelSpec& spec);

/// Stages of `stage_bytes` that fit beside `fixed_bytes`, alignment included; more than 8 hide nothing.
int stages_that_fit(const TargetFamily& family, int fixed_bytes, int stage_bytes);

/// A CTA of 1,024 threads that lists the work; nobody else runs meanwhile.
EntryPlan prepare_entry(const char* name, const char* config);
/// The one that lists the key tiles of a shared query's batch.
EntryPlan prepare_broadcast_entry();
/// Small CTAs that stream through memory.
EntryPlan streaming_entry(const char* name, const char* config, const char* task);
/// One CTA a multiprocessor that draws work items.
EntryPlan persistent_entry(const char* name, const char* config);

/// What every kernel needs: wrappers, tiles, intervals, offsets, work order and queue.
std::vector<Fragment> shared_fragments(const KernelSpec& spec, std::vector<Fragment> parameters,
                                       std::vector<Fragment> target_ptx);
std::vector<Fragment> concatenate(std::initializer_list<std::vector<Fragment>> lists);

}  // namespace jfa
