// Where the CTAs of a cluster run.
#pragma once

#include <memory>
#include <vector>

#include "simulator/machine/machine.h"

namespace jfa::simulator {

/// An SM for each CTA of a cluster, by rank, of those with the fewest CTAs; each holds up to `capacity`. They
/// count as resident from here on. `in_pairs`: ranks 2i and 2i + 1 get two SMs side by side, 2k and 2k + 1,
/// as the two of a TPC are. Empty if there is no room.
std::vector<Sm*> place_cluster(const std::vector<std::unique_ptr<Sm>>& sms, int ctas, int capacity,
                               bool in_pairs);

}  // namespace jfa::simulator
