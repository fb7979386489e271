// What a plan says for its readers: where things lie, and how long the tensor core takes.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "generator/plan.h"

namespace jfa {

/// Adds memory maps, products and the cycles they take to an entry's description; nothing of what it lacks.
void describe_layout(const EntryPlan& entry, Target target, nlohmann::ordered_json& json);

}  // namespace jfa
