// The specialisation key: which kernel, and nothing that a kernel can take as an argument.
#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <string>

#include "generator/target.h"
#include "generator/visibility.h"
#include "jfa/attention.h"

namespace jfa {

struct KernelSpec {
  Pass pass = Pass::forward;
  DType dtype = DType::bf16;
  int padded_dim = 128;  // 16, 32, 64, 96, 128: head_dims that share it share the kernel
  Visibility visibility;
  bool broadcast_q = false;
  int groups = 1;
  Target target = Target::sm_100f;

  auto operator<=>(const KernelSpec&) const = default;
};

/// The key of a configuration; kInvalidArgument or kUnsupported naming the field and its value.
Result<KernelSpec> specialize(const Configuration& configuration);
/// The same on a target that is known already; configuration.target is not read.
Result<KernelSpec> specialize(const Configuration& configuration, Target target);

/// The configuration of a call, its target left out; checks nothing that specialize() checks.
Configuration configuration_of(const AttentionCall& call);

/// Short and unique, for file names and messages: "forward-bf16-d128-w64-g4-sm_100f".
std::string name(const KernelSpec& spec);
/// The spec of that name; nullopt if no spec of this version has it.
std::optional<KernelSpec> spec_named(std::string_view name);

}  // namespace jfa
