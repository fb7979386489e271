// Compute capability 10.x: a backward by clusters of two CTAs.
#pragma once

#include "generator/plan/family.h"

namespace jfa {

/// Adds BackwardPlan::two_cta, unless the knob two_cta says off. The plan has its other entries.
void plan_two_cta(const TargetFamily& family, Choices& choices, KernelPlan& plan);
/// Its templates; they follow those of the other entries. has_runs: those of a shared query are there.
std::vector<Fragment> two_cta_fragments(const KernelSpec& spec, bool has_runs);

}  // namespace jfa
