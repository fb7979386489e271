#include "conformance/test_kernel.h"

namespace jfa::conformance {

bool runs_on(Needs needs, std::string_view target) {
  switch (needs) {
    case Needs::kAny:
      return true;
    case Needs::kHopper:
      return target.starts_with("sm_90");
    case Needs::kBlackwell:
      return target.starts_with("sm_10");
  }
  return false;
}

const std::vector<TestCase>& instruction_cases() {
  static const std::vector<TestCase> cases = [] {
    std::vector<TestCase> all;
    add_arithmetic_cases(all);
    add_conversion_cases(all);
    add_warp_cases(all);
    add_matrix_cases(all);
    add_memory_cases(all);
    add_mbarrier_cases(all);
    add_tma_cases(all);
    add_tensormap_cases(all);
    add_wgmma_cases(all);
    return all;
  }();
  return cases;
}

}  // namespace jfa::conformance
