// The registers of a CTA, which setmaxnreg moves between its warps.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "simulator/machine/machine.h"

namespace jfa::simulator {

/// Registers of a thread when the kernel starts, as ptxas gives them to an entry with setmaxnreg: as many as
/// the threads of .maxntid can have, .minnctapersm CTAs at a time. 0 if the entry does not say both (nor
/// .maxnreg): ptxas then ignores setmaxnreg.
std::uint32_t registers_at_entry(const Entry& entry);

/// setmaxnreg in one CTA: the registers that its warps start with are all that there are.
class RegisterPool : public Extension {
 public:
  explicit RegisterPool(Cta& cta);

  /// setmaxnreg.inc or .dec to `count` registers a thread. An increase waits until the pool has them. Throws
  /// kInvalidOperand if count is on the wrong side of what the warp has, kDivergence if the warps of a
  /// warpgroup do not execute the same sequence of setmaxnreg, by direction and count.
  Step set(Warp& warp, const Instruction& instruction, bool increase, std::uint32_t count);

  void on_exit() override;

 private:
  struct WarpState {
    std::uint32_t registers = 0;  // a thread
    std::size_t executed = 0;     // setmaxnreg instructions
    std::uint32_t wanted = 0;     // a thread; 0: does not wait
  };
  class PoolWait;

  WarpState& state(const Warp& warp) { return warps_[static_cast<std::size_t>(warp.index())]; }
  void check_collective(Warp& warp, const Instruction& instruction);
  std::uint32_t missing(const WarpState& warp) const;  // registers that the pool must have for it
  bool may_grow() const;                               // whether some warp that can go on may give any back
  std::string describe(const Warp& warp) const;

  Cta& cta_;
  std::uint32_t at_entry_;
  std::uint32_t free_ = 0;
  std::vector<WarpState> warps_;
  std::vector<std::vector<const Instruction*>> executed_;  // by warpgroup, in order
};

}  // namespace jfa::simulator
