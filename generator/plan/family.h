// What a plan file says of its target, and what plan files share.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "generator/plan.h"
#include "generator/target.h"
#include "generator/tuning.h"

namespace jfa {

/// What one CTA, and one multiprocessor, has.
struct DeviceLimits {
  int shared_bytes = 0;    // of a CTA
  int tensor_columns = 0;  // of a multiprocessor's tensor memory; 0: it has none
  int registers = 0;       // of a CTA
  int threads = 0;         // of a CTA
};

/// Targets that share kernels: one folder of templates and one plan file.
struct TargetFamily {
  std::string_view folder;  // of templates
  DeviceLimits limits;
  int flops_per_cycle = 0;     // of a multiprocessor's tensor core, 16-bit elements
  int least_product_rows = 0;  // a product of fewer takes no less time
  std::span<const Knob> knobs;
  KernelPlan (*forward)(const TargetFamily& family, const KernelSpec& spec, Choices& choices) = nullptr;
  KernelPlan (*backward)(const TargetFamily& family, const KernelSpec& spec, Choices& choices) = nullptr;
};

// ---- What the plan files share. Shared memory is cut so that the rings that are asked for as many as fit
// fill it.

/// Bytes beside the tiles for barriers, the item queue and the like.
struct ControlBytes {
  int forward = 0, pair = 0, one_pass = 0;
};

/// Of a tile's row on chip.
int row_bytes(const KernelSpec& spec);

/// A forward without what its target adds: roles and tensor memory of main.
KernelPlan plan_forward_entries(const KernelSpec& spec, const TargetFamily& family, Choices& choices,
                                int control_bytes, int least_key_value_stages);
/// Its templates up to the target's own: parameters, PTX wrappers, prepare and merge entries, work queue,
/// loading side. target_ptx: the target's PTX wrappers; descriptors: its matrix-descriptor mode.
std::vector<Fragment> forward_fragments(const KernelSpec& spec, std::vector<Fragment> target_ptx,
                                        Fragment descriptors);

/// What a target decides of a backward's rings: with fewer stages its roles would wait for ever.
struct BackwardLeast {
  int streamed = 2, short_stages = 2, pairs = 2;
};

/// A backward with all its entries, without what its target adds: roles and tensor memory of keys, queries
/// and of the entries in one pass.
KernelPlan plan_backward_entries(const KernelSpec& spec, const TargetFamily& family, Choices& choices,
                                 const ControlBytes& control, const BackwardLeast& least, int streamed_tile);
/// Its templates up to the target's own, with its sum entry if a query is shared.
std::vector<Fragment> backward_fragments(const KernelSpec& spec, std::vector<Fragment> target_ptx,
                                         Fragment descriptors);
/// Those of the entries in one pass; they follow backward_fragments().
std::vector<Fragment> one_pass_fragments(const BackwardPlan& backward);

void append(std::vector<Fragment>& fragments, const std::vector<Fragment>& more);

/// Calls act(entry) for all entries, in the order of their launch.
template <class Plan, class Act>
void for_each_entry(Plan& plan, Act act) {
  if (auto* forward = std::get_if<ForwardPlan>(&plan.entries)) {
    act(forward->prepare);
    act(forward->main);
    act(forward->merge);
    return;
  }
  auto& backward = std::get<BackwardPlan>(plan.entries);
  act(backward.prepare);
  act(backward.delta);
  act(backward.keys);
  act(backward.queries);
  if (plan.spec.broadcast_q) act(backward.sum);
  if (backward.short_keys) act(backward.short_keys->main);
  if (backward.prepare_broadcast) act(*backward.prepare_broadcast);
  if (backward.broadcast) act(backward.broadcast->main);
  if (backward.two_cta) act(backward.two_cta->main);
}

}  // namespace jfa
