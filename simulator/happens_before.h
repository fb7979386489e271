// Which events of a cluster happen before which, whatever order a schedule gave them: by program order,
// barriers, mbarriers and bar.warp.sync, down to single lanes.
//
// A warp is one strand, whose tick advances whenever some of its lanes publish what they did. Lanes of a warp
// are ordered with each other only by what synchronises them: `synced` is the tick up to which all of them
// are. A lane that arrives somewhere alone therefore publishes the warp up to `synced`, and itself, as a
// strand of its own, up to now.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "simulator/report.h"
#include "simulator/types.h"
#include "simulator/vector_clock.h"

namespace jfa::simulator {

/// The clocks of one warp.
class WarpClock {
 public:
  explicit WarpClock(Strand strand) : strand_(strand) {}

  Strand strand() const { return strand_; }
  /// The tick of what a lane does now.
  std::uint32_t now() const { return now_; }
  /// Lanes of the warp are ordered among each other up to here.
  std::uint32_t synced() const { return synced_; }
  /// What a lane knows; lane -1: all lanes together.
  const VectorClock& known(int lane) const {
    return lane >= 0 && lanes_[static_cast<std::size_t>(lane)] ? *lanes_[static_cast<std::size_t>(lane)]
                                                               : known_;
  }
  /// A generic write to shared memory: from this tick on the lane owes a proxy fence.
  void note_write(int lane) {
    std::uint32_t& since = unfenced_since_[static_cast<std::size_t>(lane)];
    if (since == 0) since = now_;
  }
  /// Whether the lane itself has fenced its write of that tick.
  bool has_fenced(int lane, std::uint32_t tick) const {
    const std::uint32_t since = unfenced_since_[static_cast<std::size_t>(lane)];
    return since == 0 || tick < since;
  }
  /// The tick up to which all lanes had fenced their writes when they last synchronised.
  std::uint32_t synced_fenced() const { return synced_fenced_; }

 private:
  friend class HappensBefore;
  std::uint32_t fenced_by(int lane) const {
    const std::uint32_t since = unfenced_since_[static_cast<std::size_t>(lane)];
    return since == 0 ? now_ : since - 1;
  }
  std::uint32_t fenced_by_all() const;

  Strand strand_;
  std::uint32_t now_ = 1;
  std::uint32_t synced_ = 0;
  std::uint32_t synced_fenced_ = 0;
  VectorClock known_;
  std::array<std::uint32_t, kWarpSize> unfenced_since_{};        // 0: nothing
  std::array<std::unique_ptr<VectorClock>, kWarpSize> lanes_{};  // of lanes that know more than their warp
  LaneMask apart_ = 0;                                           // those
  std::array<Strand, kWarpSize> lane_strands_{};                 // 0: not yet needed
};

class HappensBefore {
 public:
  HappensBefore();

  // --- Strands
  WarpClock& add_warp(const Cta& cta, int warp);
  /// `name`: for reports.
  Strand add_strand(std::string name);
  /// "warp 3 of CTA (0,0,0)", or its name.
  std::string describe(Strand strand) const;
  /// The warp behind a warp's strand, for reports: no instruction, no lane. Empty for others.
  ProgramPoint warp_of(Strand strand) const;

  // --- Events. `live`: the warp's lanes that have not exited.
  /// What the lanes have done and know is joined to `to`; what they do from now on is not.
  void release(WarpClock& clock, LaneMask lanes, LaneMask live, VectorClock& to);
  void acquire(WarpClock& clock, LaneMask lanes, LaneMask live, const VectorClock& from);
  /// The same for one event alone.
  void acquire(WarpClock& clock, LaneMask lanes, LaneMask live, const Epoch& event);
  /// bar.warp.sync among the lanes. Of a part of the warp it is taken for one of the whole.
  void sync_lanes(WarpClock& clock, LaneMask lanes, LaneMask live);
  /// fence.proxy.async: covers every generic write that happened before it, whoever made it.
  void fence_proxy(WarpClock& clock, LaneMask lanes, LaneMask live);

  // --- Questions
  /// Whether the event happened before what the lane does now; lane -1: what all of them do. `overwrites`: it
  /// is enough that it is over (VectorClock::settled).
  bool ordered(const Epoch& event, const WarpClock& clock, int lane, bool overwrites) const;
  /// Whether the generic write that was the event may be read by the asynchronous proxy: as ordered, and
  /// fenced before.
  bool fenced(const Epoch& event, const WarpClock& clock, int lane) const;

 private:
  struct Description {
    const Cta* cta = nullptr;  // null: named
    int warp = -1;
    std::string name;
    WarpClock* clock = nullptr;  // of warps
  };
  Strand lane_strand(WarpClock& clock, int lane);
  VectorClock& own(WarpClock& clock, int lane);

  std::deque<WarpClock> warps_;
  std::vector<Description> strands_;
};

}  // namespace jfa::simulator
