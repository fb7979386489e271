// The SM: warps that issue machine code on four quarters, and the engines beside them, in cycles. A model.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "simulator/machine/program.h"
#include "simulator/machine/recorder.h"
#include "simulator/timing/constants.h"
#include "simulator/timing/matcher.h"

namespace jfa::simulator::timing {

/// What an instruction, or an engine, had to wait for before it could go on.
enum class Cause : std::uint8_t {
  start,
  issue,          // the stall counts that the compiler wrote, and the warp's own order
  slot,           // the quarter issued another warp's instruction
  fma,            // the pipe was busy …
  alu,            //
  mufu,           //
  arithmetic,     // the result of MUFU, conversions, votes, the uniform datapath
  shared,         // shared memory, by threads
  tensor_memory,  // tcgen05.ld and .st
  global,         // global memory, by threads; constants
  sync,           // an arrival until somebody who waits goes on; barriers, fences
  tensor,         // products
  copy,           // the TMA: its latency
  bandwidth,      // the TMA: its bytes
};
inline constexpr std::size_t kCauseCount = 14;
std::string_view to_string(Cause cause);

/// Who does something: a warp, or an engine of an SM.
struct Actor {
  static constexpr int kTensorCore = -1, kCopies = -2;
  int sm = 0;
  int warp = 0;  // or one of the engines

  auto operator<=>(const Actor&) const = default;
};

/// Something that happened at a time, because of what happened before it.
struct Happening {
  static constexpr std::uint32_t kNone = 0xffffffffu;
  double time = 0;  // when
  double end = 0;   // of an engine's work
  Actor actor;
  Cause cause = Cause::start;
  std::uint32_t because = kNone;      // of the happenings
  std::uint32_t instruction = kNone;  // of the machine code: what was issued, or what started the engine
};

struct WarpWork {
  Actor actor;
  const Way* way = nullptr;
  const RecordedWarp* recorded = nullptr;
  std::uint32_t cta = 0;  // linear
};

struct Played {
  double cycles = 0;                  // until the last warp has left
  std::vector<Happening> happenings;  // in the order in which the model took them
  std::map<Actor, std::vector<std::uint32_t>> by_actor;
  /// The sum over SMs of when their last warp left.
  double cycles_of_all_sms() const;
  bool has_products() const;
  std::map<int, double> tensor_busy, shared_busy, copy_busy;  // cycles, by SM
};

/// Plays the warps of one SM, or of a cluster on so many SMs. kInternal: nobody can go on.
Result<Played> play(const Entry& entry, const MachineEntry& machine, const std::vector<WarpWork>& work,
                    const Constants& constants);

}  // namespace jfa::simulator::timing
