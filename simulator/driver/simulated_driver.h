// The simulator as a CUDA driver: the front door for programs that call the driver API. The other one is
// machine/launch.h.
#pragma once

#include <cstdint>
#include <string>

#include "base/driver_table.h"

namespace jfa::simulator {

/// Makes the table of a simulated device. name: "sim:sm_100a", "sim:sm_100f" (which runs no image that only
/// 10.0 has) or "sim:sm_90a", options after '?', joined by '&':
///   sms=N                        streaming multiprocessors (default 2)
///   schedule=eager|lazy|random|reverse|starve|late|replay
///                                which legal order warps and asynchronous work take (default eager);
///                                schedule.h
///   seed=N                       for schedule=random, and who starves (default 0)
///   timing=0|1                   whether launches are recorded for the timing model, which needs the eager
///                                schedule and at most two SMs (default 0); timed_launch.h
///   choices=12:3,40:1            for schedule=replay: what jfa-sim prints
///   checks=0|1                   the checkers (default 1)
///   dynamic_alignment=N          least alignment of dynamic shared memory, 16 (default) to 1024
///   tensor_fences=0|1, load_waits=0|1, … constant_races=0|1
///                                whether a rule of PTX holds (default 1): habits.cpp lists them
///   habits=cutlass|triton        leaves out the rules that their kernels break; what stands behind it may
///   set
///                                some again
/// The table stays valid for the life of the process; the same name gives the same device. Its images are PTX
/// (cuLibraryLoadData with a NUL-terminated PTX text).
/// On failure returns nullptr and says why in `error`, naming the option and its value.
const DriverTable* open_simulated_driver(const std::string& name, std::string* error);

/// Why this device last failed a kernel or refused a call. Of a kernel: kind of bug, PTX and source line,
/// CTA, warp, address, who waits for what; its error is returned once, by the next call that synchronises
/// with the stream, and the device stays usable. Of a launch, an image or a tensor map: the argument and the
/// rule. Empty if there was none. Thread-safe.
std::string last_report(const DriverTable* table);

/// Warp instructions that this device's kernels have executed so far. Thread-safe.
std::uint64_t warp_instructions(const DriverTable* table);
/// CPU time that simulating this device's tcgen05.mma and wgmma has taken so far, from reading the operands
/// to writing the accumulators. Thread-safe.
double product_seconds(const DriverTable* table);

}  // namespace jfa::simulator
