// tcgen05.commit as an asynchronous operation.
#pragma once

#include <vector>

#include "simulator/machine/machine.h"

namespace jfa::simulator {

/// Arrives on the mbarriers once all earlier operations of the thread are complete.
void issue_commit(Warp& warp, int thread, std::vector<SharedPlace> barriers, const ProgramPoint& point);

}  // namespace jfa::simulator
