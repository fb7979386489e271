// What the model has to know of a machine instruction, looked up once.
#pragma once

#include <cstdint>
#include <vector>

#include "simulator/timing/constants.h"
#include "simulator/timing/matcher.h"
#include "simulator/timing/sm_model.h"

namespace jfa::simulator::timing {

/// How the model treats an instruction.
enum class Treatment : std::uint8_t {
  plain,
  shared,  // LDS, STS
  global,  // LDG, STG, atomics, LDC
  tensor_load,
  tensor_store,
  tensor_store_wait,
  fence,
  product,
  commit,
  arrive,
  wait,
  barrier,
  cluster_arrive,
  cluster_wait,
  copy_in,
  copy_out,
  copy_commit,
  copy_wait,
};

struct MachineOp {
  Treatment treatment = Treatment::plain;
  machine_code::Pipe pipe = machine_code::Pipe::other;
  double pipe_cycles = 0;
  double latency = 0;               // until its scoreboard is released
  Cause cause = Cause::arithmetic;  // of waits for that
  std::uint32_t bytes = 0;          // of the warp
  bool reads_only = false;          // copy_wait: until sources have been read
  std::uint8_t groups_left = 0;     // copy_wait: that may be on their way
};

std::vector<MachineOp> machine_ops(const Entry& entry, const MachineEntry& machine,
                                   const Constants& constants);

}  // namespace jfa::simulator::timing
