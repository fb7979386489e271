// A forked child must not use its parent's devices: neither the driver nor the simulator's threads survive
// fork.
#pragma once

namespace jfa {

/// How many forks lie between this process and the first call of this function; costs one load. A device
/// remembers the generation it was opened in.
unsigned fork_generation();

}  // namespace jfa
