#include "simulator/machine/cluster_placement.h"

namespace jfa::simulator {
namespace {

// Of the groups of `width` SMs side by side, the one with the fewest CTAs that has room for one more on each;
// the index of its first. The number of SMs if there is none.
std::size_t emptiest(const std::vector<std::unique_ptr<Sm>>& sms, std::size_t width, int capacity) {
  std::size_t best = sms.size();
  int fewest = 0;
  for (std::size_t first = 0; first + width <= sms.size(); first += width) {
    int resident = 0;
    bool room = true;
    for (std::size_t i = first; i < first + width; ++i) {
      resident += sms[i]->resident_ctas;
      room = room && sms[i]->resident_ctas < capacity;
    }
    if (!room || (best != sms.size() && resident >= fewest)) continue;
    best = first;
    fewest = resident;
  }
  return best;
}

}  // namespace

std::vector<Sm*> place_cluster(const std::vector<std::unique_ptr<Sm>>& sms, int ctas, int capacity,
                               bool in_pairs) {
  std::vector<Sm*> places;
  while (static_cast<int>(places.size()) < ctas) {
    const std::size_t width = in_pairs && ctas - static_cast<int>(places.size()) > 1 ? 2 : 1;
    const std::size_t first = emptiest(sms, width, capacity);
    if (first == sms.size()) {
      for (Sm* sm : places) --sm->resident_ctas;
      return {};
    }
    for (std::size_t i = first; i < first + width; ++i) {
      ++sms[i]->resident_ctas;
      places.push_back(sms[i].get());
    }
  }
  return places;
}

}  // namespace jfa::simulator
