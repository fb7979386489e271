// Targets: the device a PTX text is made for, and what instructions need of it.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace jfa::simulator {

/// "sm_100f": version 100, suffix 'f'.
struct Target {
  int version = 0;
  char suffix = '\0';  // 'a': this device only; 'f': its family; none: all later ones

  int family() const { return version / 10; }
  bool is_specific() const { return suffix != '\0'; }
};

/// Empty if the name is not sm_<number>[a|f].
std::optional<Target> parse_target(std::string_view name);

/// Whether a device runs PTX made for `ptx`. The device's suffix 'f' stands for any device of the family: it
/// runs nothing that only one of them has.
bool runs(const Target& device, const Target& ptx);

/// What an instruction, its modifiers in the instruction table's order, needs that `target` lacks ("sm_90a");
/// empty if it lacks nothing.
std::string_view missing_target(const Target& target, std::string_view opcode);

}  // namespace jfa::simulator
