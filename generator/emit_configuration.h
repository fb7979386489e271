// A plan's numbers as the constants and types of the emitted source.
#pragma once

#include <string>

#include "generator/plan.h"

namespace jfa {

std::string configuration_block(const KernelPlan& plan);

}  // namespace jfa
