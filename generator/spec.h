// The specialisation key: which kernel, and nothing that a kernel can take as an argument.
#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "jfa/attention.h"

namespace jfa {

/// What NVRTC is asked for. A real architecture has machine code: sm_100f runs on 10.0 and 10.3; the `a`
/// targets on one device generation each. A virtual one has PTX alone, which is what simulated devices run.
enum class Target : std::uint8_t {
  sm_100f,
  sm_100a,
  sm_103a,
  sm_90a,
  compute_100f,
  compute_100a,
  compute_103a,
  compute_90a,
};

std::string_view to_string(Target target);
/// Every target, the default one first, real ones before virtual ones.
std::vector<Target> all_targets();
/// The target of that name, or kInvalidArgument naming it.
Result<Target> parse_target(std::string_view name);
/// The default target of a device of compute capability major.minor; kUnsupported by name for others.
Result<Target> target_for_device(int major, int minor);
bool is_virtual(Target target);
/// The virtual architecture whose PTX becomes the target's machine code; a virtual one is its own.
Target virtual_target(Target target);
/// Whether the target's tensor core is that of 9.0.
bool is_hopper(Target target);

struct KernelSpec {
  Pass pass = Pass::forward;
  DType dtype = DType::bf16;
  int padded_dim = 128;                // 16, 32, 64, 96, 128: head_dims that share it share the kernel
  std::optional<std::int32_t> window;  // nullopt also for windows wider than any sequence
  bool broadcast_q = false;
  int groups = 1;
  Target target = Target::sm_100f;

  auto operator<=>(const KernelSpec&) const = default;
};

/// The key of a configuration; kInvalidArgument or kUnsupported naming the field and its value.
Result<KernelSpec> specialize(const Configuration& configuration);

/// The configuration of a call on a target; checks nothing that specialize() checks.
Configuration configuration_of(const AttentionCall& call, std::string_view target);

/// Short and unique, for file names and messages: "forward-bf16-d128-w64-g4-sm_100f".
std::string name(const KernelSpec& spec);
/// The spec of that name; nullopt if no spec of this version has it.
std::optional<KernelSpec> spec_named(std::string_view name);

}  // namespace jfa
