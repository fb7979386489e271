// Rules of PTX that compilers and libraries break where devices happen to allow it: a run can leave them out,
// one by one or a set by its name.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "simulator/machine/launch.h"

namespace jfa::simulator {

struct PtxRule {
  std::string_view name;  // of the device option: "tensor_fences"
  bool RunOptions::*member;
  std::string_view without;  // what may be done if it is left out
};
std::span<const PtxRule> ptx_rules();

/// Leaves out the rules that somebody's proven kernels break: "cutlass", "triton". False if there is no such
/// set.
bool take_habits(std::string_view of, RunOptions& options);
/// "cutlass, triton".
std::string habit_names();

}  // namespace jfa::simulator
