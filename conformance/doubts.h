// What public documents leave open about PTX on Blackwell and Hopper, what this project assumes, and the
// experiments that would show an assumption wrong.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "conformance/test_kernel.h"

namespace jfa::conformance {

struct Doubt {
  int number = 0;
  std::string_view open;        // what is not settled
  std::string_view assumption;  // ours
  /// The experiments' names begin with "doubt N:"; where there is none, why.
  std::string_view without_experiment;
};

/// By number, from 1 on.
std::span<const Doubt> doubts();

/// Kernels named "doubt N: …", in the group "doubt".
const std::vector<TestCase>& experiments();

// What they are made of.
void add_copy_experiments(std::vector<TestCase>& cases);    // TMA
void add_tensor_experiments(std::vector<TestCase>& cases);  // tcgen05
void add_layout_experiments(std::vector<TestCase>& cases);  // where copies and products put things
void add_pair_experiments(std::vector<TestCase>& cases);    // tcgen05.mma of two CTAs
void add_scale_experiments(std::vector<TestCase>& cases);   // block scales
void add_sparse_experiments(std::vector<TestCase>& cases);  // tcgen05.mma.sp

}  // namespace jfa::conformance
