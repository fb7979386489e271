// The options that say which kernel: of one for `emit` and `cache explain`, of many for `precompile`.
#pragma once

#include <type_traits>

#include "tools/option_checks.h"
#include "tools/sweep.h"

namespace jfa::tools {

/// What --window says, of every command that has it.
inline constexpr std::string_view kWindowHelp =
    "which keys a query sees: none hides none, W keeps the pairs with |i - j| <= W, causal those with j <= "
    "i, "
    "L:R the L keys before i and R behind it (each a number or all); :bottom_right behind it lines up the "
    "sequences' ends, j with i + keys - queries";

/// Fields: KernelFields, or Sweep for options that take lists. --head-dim is required of one kernel.
template <class Fields>
void add_kernel_options(CLI::App& command, Fields& fields) {
  constexpr bool kMany = std::is_same_v<Fields, Sweep>;
  const auto add = [&](const char* names, auto& values, const char* description, std::string type) {
    CLI::Option* option = command.add_option(names, values, description)->type_name(type);
    return kMany ? list(option) : option;
  };
  std::string targets;
  for (const Target target : all_targets())
    targets += (targets.empty() ? "" : "|") + std::string(to_string(target));
  add("--target,--targets", fields.target, "what it is compiled for", targets)->capture_default_str();
  add("--pass", fields.pass, "of the attention", "forward|backward")->capture_default_str();
  whole<std::int64_t>(add("--head-dim", fields.head_dim, "a multiple of 8, 8 to 128", "D"))->required(!kMany);
  add("--dtype", fields.dtype, "of the tensors", "bf16|fp16")->capture_default_str();
  add("--window", fields.window, std::string(kWindowHelp).c_str(), "WINDOW")->capture_default_str();
  whole<std::int64_t>(add("--groups", fields.groups, "query heads per key head", "G"))->capture_default_str();
  command.add_flag_function(
      "--broadcast-q", [&fields](std::int64_t) { fields.broadcast_q = {true}; },
      "the query is one shared sequence");
}

}  // namespace jfa::tools
