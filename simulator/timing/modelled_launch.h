// How long a recorded launch would have taken: a model.
#pragma once

#include <array>
#include <memory>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "machine_code/cubin.h"
#include "simulator/driver/timed_launch.h"
#include "simulator/timing/matcher.h"
#include "simulator/timing/sm_model.h"

namespace jfa::simulator::timing {

/// A recorded launch played on the model, with every constant set.
struct ModelledLaunch {
  MachineEntry machine;
  std::vector<Way> ways;       // of the warps, CTA by CTA
  std::vector<WarpWork> work;  // refers to `ways` and to the launch
  std::size_t segments = 0, ambiguous = 0;
  std::array<Played, std::size(kConstantSets)> played;

  const Played& nominal() const { return played[1]; }
};

/// `cubin`: of the compilation whose PTX ran, with line information; `where` names it in errors. Not copied:
/// both outlive the result.
Result<std::unique_ptr<ModelledLaunch>> model(std::string_view where, const machine_code::Cubin& cubin,
                                              const TimedLaunch& launch);

}  // namespace jfa::simulator::timing
