#include "simulator/ptx/target.h"

#include <charconv>

namespace jfa::simulator {
std::optional<Target> parse_target(std::string_view name) {
  constexpr std::string_view kPrefix = "sm_";
  if (!name.starts_with(kPrefix)) return std::nullopt;
  name.remove_prefix(kPrefix.size());
  Target target;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), target.version);
  if (error != std::errc() || target.version <= 0) return std::nullopt;
  name.remove_prefix(static_cast<std::size_t>(end - name.data()));
  if (name == "a" || name == "f")
    target.suffix = name.front();
  else if (!name.empty())
    return std::nullopt;
  return target;
}

bool runs(const Target& device, const Target& ptx) {
  if (ptx.suffix == 'a') return ptx.version == device.version && device.suffix != 'f';
  if (ptx.suffix == 'f') return ptx.family() == device.family() && ptx.version <= device.version;
  return ptx.version <= device.version;
}

bool has(const Target& target, TargetNeed need) {
  const bool blackwell = (target.family() == 10 || target.family() == 11) && target.is_specific();
  switch (need) {
    case TargetNeed::kNothing:
      return true;
    case TargetNeed::kHopper:
      return target.version == 90 && target.suffix == 'a';
    case TargetNeed::kHopperOrBlackwell:
      return target.version >= 90 && target.is_specific();
    case TargetNeed::kBlackwell:
      return blackwell;
    case TargetNeed::kBlackwellExact:
      return blackwell && target.suffix == 'a';
    case TargetNeed::kVersion100:
      return target.version >= 100;
  }
  return false;
}

std::string_view name_of(TargetNeed need) {
  switch (need) {
    case TargetNeed::kNothing:
      return "nothing";
    case TargetNeed::kHopper:
      return "sm_90a";
    case TargetNeed::kHopperOrBlackwell:
      return "sm_90a, sm_100f or sm_100a";
    case TargetNeed::kBlackwell:
      return "sm_100f or sm_100a";
    case TargetNeed::kBlackwellExact:
      return "sm_100a";
    case TargetNeed::kVersion100:
      return "sm_100";
  }
  return "";
}

}  // namespace jfa::simulator
