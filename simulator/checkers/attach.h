// The checkers of a machine.
#pragma once

namespace jfa::simulator {

class Machine;

/// Before the machine runs, and only if its options ask for checks: races in shared and global memory are
/// watched.
void attach_checkers(Machine& machine);

}  // namespace jfa::simulator
