// Targets: the device a PTX text is made for, and what instructions need of it.
#pragma once

#include <cstdint>
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

/// What an instruction may need of a target: a version, or what some devices alone have.
enum class TargetNeed : std::uint8_t {
  kNothing,
  kHopper,
  kHopperOrBlackwell,
  kBlackwell,
  kBlackwellExact,
  kVersion100
};
bool has(const Target& target, TargetNeed need);
/// The targets that have it: "sm_100f or sm_100a".
std::string_view name_of(TargetNeed need);

}  // namespace jfa::simulator
