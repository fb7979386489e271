#include "simulator/checkers/attach.h"

#include "simulator/checkers/global_race_shadow.h"
#include "simulator/machine/machine.h"

namespace jfa::simulator {

void attach_checkers(Machine& machine) { machine.observe(std::make_unique<GlobalRaceShadow>(machine)); }

}  // namespace jfa::simulator
