// What jfa bench says of a simulated device with timing=1: how long the timing model thinks a call takes.
#pragma once

#include <string>

#include "jfa/attention.h"
#include "tools/bench_shapes.h"

namespace jfa::tools {

/// Whether the device records its launches for the model.
bool times_launches(const Device& device);

/// Runs the call once and has the model play its launches. Text for people, every figure of it labelled as a
/// model's.
Result<std::string> model_shape(Device& device, const BenchProblem& problem, Pass pass);

}  // namespace jfa::tools
