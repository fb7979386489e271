#include "simulator/ptx/target.h"

#include <charconv>

namespace jfa::simulator {
namespace {

bool has(std::string_view text, std::string_view part) { return text.find(part) != std::string_view::npos; }

}  // namespace

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

std::string_view missing_target(const Target& target, std::string_view opcode) {
  const bool hopper = target.version == 90 && target.suffix == 'a';
  const bool blackwell = (target.family() == 10 || target.family() == 11) && target.is_specific();
  if (opcode.starts_with("wgmma.")) return hopper ? "" : "sm_90a";
  if (has(opcode, ".kind::i8") || has(opcode, ".scale_vec::") || opcode.starts_with("tcgen05.shift.") ||
      (opcode.starts_with("tcgen05.mma.sp.") && has(opcode, ".kind::mxf4")))
    return blackwell && target.suffix == 'a' ? "" : "sm_100a";
  if (opcode.starts_with("tcgen05.")) return blackwell ? "" : "sm_100f or sm_100a";
  if (opcode.starts_with("cvt."))
    for (const std::string_view narrow : {".e2m1x2", ".e2m3x2", ".e3m2x2", ".ue8m0x2"})
      if (has(opcode, narrow)) return blackwell ? "" : "sm_100f or sm_100a";
  if (opcode.starts_with("tensormap.replace.") && has(opcode, ".swizzle_atomicity"))
    return blackwell ? "" : "sm_100f or sm_100a";
  if (opcode.starts_with("setmaxnreg.") || opcode.starts_with("tensormap.replace."))
    return target.version >= 90 && target.is_specific() ? "" : "sm_90a, sm_100f or sm_100a";
  if (opcode.starts_with("redux.") && opcode.ends_with(".f32")) return blackwell ? "" : "sm_100f or sm_100a";
  if (opcode.starts_with("cp.async.bulk.") && has(opcode, ".cta_group::"))
    return blackwell ? "" : "sm_100f or sm_100a";
  const bool wide = has(opcode, ".v8.") && (opcode.starts_with("ld.") || opcode.starts_with("st."));
  if (opcode.ends_with(".f32x2") || wide || opcode.starts_with("st.bulk.") ||
      opcode.starts_with("clusterlaunchcontrol."))
    return target.version >= 100 ? "" : "sm_100";
  return "";
}

}  // namespace jfa::simulator
