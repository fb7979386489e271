// Plans with the entry of CTA pairs, whatever their knob says; nothing is compiled from them.
#pragma once

#include "generator/plan.h"

namespace jfa::test {

/// `plan`, a backward's, with such an entry for the calls of `calls`; none if they are off.
inline KernelPlan with_two_cta(KernelPlan plan, TwoCta calls) {
  auto& backward = std::get<BackwardPlan>(plan.entries);
  backward.two_cta_calls = calls;
  backward.two_cta.reset();
  if (calls == TwoCta::kOff) return plan;
  EntryPlan& main = backward.two_cta.emplace().main;
  main.name = "jfa_backward_two_cta";
  main.config = "TwoCta";
  main.grid = EntryPlan::Grid::kPersistent;
  main.cluster = 2;
  main.threads = 384;
  main.shared_bytes = 200'000;
  backward.two_cta->columns = {32, 64};
  return plan;
}

}  // namespace jfa::test
