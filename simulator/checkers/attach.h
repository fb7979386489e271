// The checkers of a machine.
#pragma once

#include <memory>

#include "simulator/machine/observer.h"

namespace jfa::simulator {

class Machine;

/// What watches a grid for all that docs/simulator.md says is checked, where the machine can do what is
/// wrong. Every machine has its own, and must ask for checks in its options: that gives warps clocks.
std::unique_ptr<Observer> make_checkers(Machine& machine);

}  // namespace jfa::simulator
