// What jfa bench says of a simulated device with timing=1: how long the timing model thinks a call takes.
#pragma once

#include <string>

#include "jfa/attention.h"
#include "tools/bench_shapes.h"

namespace jfa::tools {

/// Whether the device records its launches for the model.
bool times_launches(const Device& device);

/// Runs sequences of the shape's lengths on the device's SMs, a few of each class of lengths, has the model
/// play what they did, and adds up how long the whole shape would take on a B200. Text for people, every
/// figure of it labelled as a model's. `details`: also what the warps of each entry waited for.
Result<std::string> model_shape(Device& device, const BenchProblem& problem, Pass pass, bool details);

}  // namespace jfa::tools
