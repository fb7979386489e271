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
#include <utility>
#include <vector>

#include "simulator/machine/memory_order.h"
#include "simulator/machine/report.h"
#include "simulator/machine/vector_clock.h"
#include "simulator/ptx/types.h"

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
  /// Joins what any of the lanes knows.
  void tell(LaneMask lanes, VectorClock& to) const {
    to.join(known_);
    for (lanes &= apart_; lanes != 0; lanes &= lanes - 1)
      to.join(*lanes_[static_cast<std::size_t>(__builtin_ctz(lanes))]);
  }
  /// A generic write: from this tick on the lane owes a proxy fence.
  void note_write(int lane, FencedSpace space = FencedSpace::kShared) {
    Unfenced& owed = unfenced_[static_cast<std::size_t>(space)];
    const LaneMask bit = LaneMask{1} << lane;
    if ((owed.lanes & bit) != 0) return;
    owed.lanes |= bit;
    owed.since[static_cast<std::size_t>(lane)] = now_;
  }
  /// Whether the lane itself has fenced its write of that tick.
  bool has_fenced(int lane, std::uint32_t tick, FencedSpace space) const {
    return tick <= fenced_by(lane, space);
  }
  /// The tick up to which all lanes had fenced their writes when they last synchronised.
  std::uint32_t synced_fenced(FencedSpace space) const {
    return synced_fenced_[static_cast<std::size_t>(space)];
  }

  /// What a lane has at hand for other threads by way of global memory. `wide`: for all of them; `narrow`:
  /// for those of its own cluster.
  struct Published {
    RemoteClock::Pointer wide, narrow;
  };
  /// By its last fence, for its strong writes to publish.
  Published& released(int lane) { return released_[static_cast<std::size_t>(lane)]; }
  /// By its strong reads and relaxed waits, for its next fence to acquire.
  Published& observed(int lane) { return observed_[static_cast<std::size_t>(lane)]; }

  /// The lane has initialised an mbarrier, which is the event: for its fence.mbarrier_init to release.
  void note_init(int lane, const Epoch& init) { inits_.emplace_back(lane, init); }

 private:
  friend class HappensBefore;
  struct Unfenced {
    std::array<std::uint32_t, kWarpSize> since{};
    LaneMask lanes = 0;  // that owe a fence
    bool ever_fenced = false;
  };
  std::uint32_t fenced_by(int lane, FencedSpace space) const {
    const Unfenced& owed = unfenced_[static_cast<std::size_t>(space)];
    return (owed.lanes >> lane & 1) == 0 ? now_ : owed.since[static_cast<std::size_t>(lane)] - 1;
  }
  std::uint32_t fenced_by_all(FencedSpace space) const;

  Strand strand_;
  std::uint32_t now_ = 1;
  std::uint32_t synced_ = 0;
  std::array<std::uint32_t, 2> synced_fenced_{};  // by space
  VectorClock known_;
  std::array<Unfenced, 2> unfenced_;                             // by space
  std::array<std::unique_ptr<VectorClock>, kWarpSize> lanes_{};  // of lanes that know more than their warp
  LaneMask apart_ = 0;                                           // those
  std::array<Strand, kWarpSize> lane_strands_{};                 // 0: not yet needed
  std::array<Published, kWarpSize> released_, observed_;
  std::vector<std::pair<int, Epoch>> inits_;      // by lane, of mbarriers
  std::array<Epoch, kWarpSize> tensor_issues_{};  // the lanes' last tensor operations
};

class HappensBefore {
 public:
  HappensBefore();
  /// Which cluster of the grid it is about.
  void set_cluster(ClusterId cluster) { cluster_ = cluster; }
  ClusterId cluster() const { return cluster_; }

  // --- Strands
  WarpClock& add_warp(const Cta& cta, int warp);
  /// `name`: for reports.
  Strand add_strand(std::string name);
  /// One whose events are of tensor memory: tcgen05.fence hands them on where nothing else is released.
  Strand add_tensor_strand(std::string name);
  /// "warp 3 of CTA (0,0,0)", or its name.
  std::string describe(Strand strand) const;
  /// The warp behind a warp's strand, for reports: no instruction, no lane. Empty for others.
  ProgramPoint warp_of(Strand strand) const;
  /// "CTA (0,0,0) warp 3 lane 5", or the strand's name: also when the CTAs are gone.
  std::string describe(const Epoch& event) const;
  /// Whether both are of warps of one CTA.
  bool same_cta(Strand a, Strand b) const;

  // --- Events. `live`: the warp's lanes that have not exited.
  /// What the lanes have done and know is joined to `to`; what they do from now on is not.
  void release(WarpClock& clock, LaneMask lanes, LaneMask live, VectorClock& to);
  void acquire(WarpClock& clock, LaneMask lanes, LaneMask live, const VectorClock& from);
  /// The same for one event alone.
  void acquire(WarpClock& clock, LaneMask lanes, LaneMask live, const Epoch& event);
  /// bar.warp.sync among the lanes. Of a part of the warp it is taken for one of the whole.
  void sync_lanes(WarpClock& clock, LaneMask lanes, LaneMask live);
  /// fence.proxy.async: covers every generic write to the space that happened before it, whoever made it.
  void fence_proxy(WarpClock& clock, LaneMask lanes, LaneMask live, FencedSpace space);

  // --- Relaxed arrivals and waits, which order nothing but what fences around them do.
  /// Joins to `to` what the lanes' fences have released, and what they know of tensor operations:
  /// TensorObserver sees to their tcgen05.fence.
  void release_fenced(WarpClock& clock, LaneMask lanes, VectorClock& to);
  /// What others have published is there for the lanes' next fence to acquire.
  void observe(WarpClock& clock, LaneMask lanes, const VectorClock& from);
  /// fence.mbarrier_init: releases what the lanes have initialised, and nothing else.
  void fence_inits(WarpClock& clock, LaneMask lanes);
  /// tcgen05.fence::after_thread_sync: acquires of what the lanes have observed what is of tensor memory.
  void fence_tensor(WarpClock& clock, LaneMask lanes, LaneMask live);
  /// The lane issues a tensor operation, which it knows of.
  Epoch issue_tensor(WarpClock& clock, int lane);

  // --- By way of global memory.
  /// What the lanes have done and know, for others to learn.
  RemoteClock::Pointer publish(WarpClock& clock, LaneMask lanes, LaneMask live);
  /// `wide`: of all clusters; else what concerns this one alone.
  void learn(WarpClock& clock, LaneMask lanes, LaneMask live, const RemoteClock::Pointer& from, bool wide);
  /// fence, membar: one that acquires does so for what the lanes have read; one that releases gives each lane
  /// what it did itself, or knows of, for its strong writes to publish.
  void fence(WarpClock& clock, LaneMask lanes, LaneMask live, const MemoryOrder& order);

  // --- Questions
  /// Whether the event happened before what the lane does now; lane -1: what all of them do. `overwrites`: it
  /// is enough that it is over (VectorClock::settled).
  bool ordered(const Epoch& event, const WarpClock& clock, int lane, bool overwrites) const;
  /// Whether the generic write that was the event may be read by the asynchronous proxy: as ordered, and
  /// fenced before.
  bool fenced(const Epoch& event, const WarpClock& clock, int lane, FencedSpace space) const;
  /// The same two for somebody who knows that of this cluster, like one of another (null: nothing).
  bool ordered(const Epoch& event, const VectorClock* known, bool overwrites = false) const;
  bool fenced(const Epoch& event, const VectorClock* known, FencedSpace space) const;

 private:
  struct Description {
    const Cta* cta = nullptr;  // null: named
    Dim3 cta_index;
    int warp = -1;
    std::string name;
    WarpClock* clock = nullptr;  // of warps
  };
  Strand lane_strand(WarpClock& clock, int lane);
  VectorClock& own(WarpClock& clock, int lane);
  template <class Change>
  void change_known(WarpClock& clock, LaneMask lanes, LaneMask live, Change change);
  template <class Last>
  bool each_lane(const Epoch& event, LaneMask lanes, Last last) const;

  ClusterId cluster_ = 0;
  std::deque<WarpClock> warps_;
  std::vector<Description> strands_;
  std::vector<Strand> tensor_strands_;
};

}  // namespace jfa::simulator
