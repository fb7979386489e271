#include "simulator/timing/modelled_launch.h"

#include <fmt/format.h>

namespace jfa::simulator::timing {

Result<std::unique_ptr<ModelledLaunch>> model(std::string_view where, const machine_code::Cubin& cubin,
                                              const TimedLaunch& launch) {
  auto result = std::make_unique<ModelledLaunch>();
  auto machine = machine_entry(where, cubin, *launch.entry);
  if (!machine) return machine.status();
  result->machine = *std::move(machine);
  Matcher matcher(*launch.entry, result->machine);
  std::size_t warps = 0;
  for (const auto& [index, cta] : launch.ctas) warps += cta.warps.size();
  result->ways.reserve(warps);
  int sm = 0;
  for (const auto& [index, cta] : launch.ctas) {
    for (std::size_t w = 0; w < cta.warps.size(); ++w) {
      Result<Way> way = matcher.match(cta.warps[w], fmt::format("CTA {}, warp {}", index, w));
      if (!way) return way.status();
      result->segments += way->segments;
      result->ambiguous += way->ambiguous;
      result->ways.push_back(*std::move(way));
      result->work.push_back({{sm, static_cast<int>(w)}, &result->ways.back(), &cta.warps[w], index});
    }
    ++sm;
  }
  for (const ConstantSet set : kConstantSets) {
    auto played = play(*launch.entry, result->machine, result->work, constants(set));
    if (!played) return played.status();
    result->played[static_cast<std::size_t>(set)] = *std::move(played);
  }
  return result;
}

}  // namespace jfa::simulator::timing
