#include "simulator/machine/happens_before.h"

#include <fmt/format.h>

#include "simulator/machine/machine.h"

namespace jfa::simulator {
namespace {

template <class Function>
void for_each(LaneMask lanes, Function function) {
  for (; lanes != 0; lanes &= lanes - 1) function(__builtin_ctz(lanes));
}

constexpr FencedSpace kFencedSpaces[] = {FencedSpace::kShared, FencedSpace::kGlobal};

}  // namespace

std::uint32_t WarpClock::fenced_by_all(FencedSpace space) const {
  std::uint32_t least = now_;
  const Unfenced& owed = unfenced_[static_cast<std::size_t>(space)];
  for_each(owed.lanes,
           [&](int lane) { least = std::min(least, owed.since[static_cast<std::size_t>(lane)] - 1); });
  return least;
}

// Strand 0 is nobody's, so that a zero means none.
HappensBefore::HappensBefore() : strands_(1) {}

Strand HappensBefore::add_strand(std::string name) {
  Description description;
  description.name = std::move(name);
  strands_.push_back(std::move(description));
  return static_cast<Strand>(strands_.size() - 1);
}

Strand HappensBefore::add_tensor_strand(std::string name) {
  return tensor_strands_.emplace_back(add_strand(std::move(name)));
}

WarpClock& HappensBefore::add_warp(const Cta& cta, int warp) {
  const Strand strand = add_strand({});
  WarpClock& clock = warps_.emplace_back(strand);
  strands_[strand].cta = &cta;
  strands_[strand].cta_index = cta.index();
  strands_[strand].warp = warp;
  strands_[strand].clock = &clock;
  return clock;
}

Strand HappensBefore::lane_strand(WarpClock& clock, int lane) {
  Strand& strand = clock.lane_strands_[static_cast<std::size_t>(lane)];
  if (strand == 0) strand = add_strand(fmt::format("lane {} of {}", lane, describe(clock.strand_)));
  return strand;
}

std::string HappensBefore::describe(Strand strand) const {
  const Description& d = strands_[strand];
  return d.cta == nullptr ? d.name : warp_of(strand).describe();
}

ProgramPoint HappensBefore::warp_of(Strand strand) const {
  return {nullptr, strands_[strand].cta, strands_[strand].warp, -1};
}

std::string HappensBefore::describe(const Epoch& event) const {
  const Description& d = strands_[event.strand];
  if (d.cta == nullptr) return d.name;
  const std::string warp =
      fmt::format("CTA ({},{},{}) warp {}", d.cta_index.x, d.cta_index.y, d.cta_index.z, d.warp);
  return event.lanes == 0 ? warp : fmt::format("{} lane {}", warp, __builtin_ctz(event.lanes));
}

bool HappensBefore::same_cta(Strand a, Strand b) const {
  return strands_[a].cta != nullptr && strands_[a].cta == strands_[b].cta;
}

// --- Events

void HappensBefore::release(WarpClock& clock, LaneMask lanes, LaneMask live, VectorClock& to) {
  clock.tell(lanes, to);
  const bool whole = (lanes & live) == live;
  to.see(clock.strand_, whole ? clock.now_ : clock.synced_);
  if (!whole) for_each(lanes, [&](int lane) { to.see(lane_strand(clock, lane), clock.now_); });
  for (const FencedSpace space : kFencedSpaces) {
    if (!clock.unfenced_[static_cast<std::size_t>(space)].ever_fenced) continue;
    to.fence(clock.strand_, space, whole ? clock.fenced_by_all(space) : clock.synced_fenced(space));
    if (!whole)
      for_each(lanes,
               [&](int lane) { to.fence(lane_strand(clock, lane), space, clock.fenced_by(lane, space)); });
  }
  ++clock.now_;
}

// The clock of one lane, which knows more than its warp from here on.
VectorClock& HappensBefore::own(WarpClock& clock, int lane) {
  auto& pointer = clock.lanes_[static_cast<std::size_t>(lane)];
  if (!pointer) pointer = std::make_unique<VectorClock>(clock.known_);
  clock.apart_ |= LaneMask{1} << lane;
  return *pointer;
}

// Applies the change to what the lanes know.
template <class Change>
void HappensBefore::change_known(WarpClock& clock, LaneMask lanes, LaneMask live, Change change) {
  const bool whole = (lanes & live) == live;
  if (whole) change(clock.known_);
  for_each(whole ? clock.apart_ : lanes, [&](int lane) { change(own(clock, lane)); });
}

void HappensBefore::acquire(WarpClock& clock, LaneMask lanes, LaneMask live, const VectorClock& from) {
  change_known(clock, lanes, live, [&](VectorClock& known) { known.join(from); });
}

void HappensBefore::acquire(WarpClock& clock, LaneMask lanes, LaneMask live, const Epoch& event) {
  change_known(clock, lanes, live, [&](VectorClock& known) { known.see(event.strand, event.tick); });
}

void HappensBefore::sync_lanes(WarpClock& clock, LaneMask lanes, LaneMask live) {
  const bool whole = (lanes & live) == live;
  VectorClock together = clock.known_;
  for_each(clock.apart_ & lanes,
           [&](int lane) { together.join(*clock.lanes_[static_cast<std::size_t>(lane)]); });
  if (whole) {
    clock.known_ = std::move(together);
    for_each(clock.apart_, [&](int lane) { clock.lanes_[static_cast<std::size_t>(lane)].reset(); });
    clock.apart_ = 0;
  } else if ((clock.apart_ & lanes) != 0) {
    for_each(lanes, [&](int lane) { own(clock, lane) = together; });
  }
  for (const FencedSpace space : kFencedSpaces)
    clock.synced_fenced_[static_cast<std::size_t>(space)] = clock.fenced_by_all(space);
  clock.synced_ = clock.now_++;
}

void HappensBefore::fence_proxy(WarpClock& clock, LaneMask lanes, LaneMask live, FencedSpace space) {
  WarpClock::Unfenced& owed = clock.unfenced_[static_cast<std::size_t>(space)];
  owed.lanes &= ~lanes;
  owed.ever_fenced = true;
  ++clock.now_;
  change_known(clock, lanes, live, [&](VectorClock& known) {
    known.fence_seen(space);
    known.fence(clock.strand_, space,
                clock.synced_);  // what the warp's other lanes wrote before they last met
  });
}

// --- Relaxed arrivals and waits

void HappensBefore::release_fenced(WarpClock& clock, LaneMask lanes, VectorClock& to) {
  for_each(lanes, [&](int lane) {
    const WarpClock::Published& released = clock.released(lane);
    if (released.narrow != nullptr)
      if (const VectorClock* own = released.narrow->of(cluster_)) to.join(*own);
    if (released.wide != nullptr) to.learn(released.wide);
    const VectorClock& known = clock.known(lane);
    for (const Strand strand : tensor_strands_)
      if (const std::uint32_t tick = known.seen(strand); tick != 0) to.see(strand, tick);
    const Epoch& issued = clock.tensor_issues_[static_cast<std::size_t>(lane)];
    if (issued.tick != 0) to.see(issued.strand, issued.tick);
  });
}

void HappensBefore::observe(WarpClock& clock, LaneMask lanes, const VectorClock& from) {
  auto own = std::make_shared<VectorClock>(from);
  const RemoteClock::Pointer others = own->take_remote();
  const RemoteClock::Pointer found = RemoteClock::with(others, cluster_, std::move(own));
  for_each(lanes, [&](int lane) {
    WarpClock::Published& observed = clock.observed(lane);
    observed.narrow = RemoteClock::join(observed.narrow, found);
    observed.wide = RemoteClock::join(observed.wide, others);
  });
}

void HappensBefore::fence_inits(WarpClock& clock, LaneMask lanes) {
  std::erase_if(clock.inits_, [&](const std::pair<int, Epoch>& made) {
    const auto& [lane, init] = made;
    if ((lanes >> lane & 1) == 0) return false;
    auto own = std::make_shared<VectorClock>();
    own->see(init.strand, init.tick);
    RemoteClock::Pointer& released = clock.released(lane).narrow;
    released = RemoteClock::with(released, cluster_, std::move(own));
    return true;
  });
}

void HappensBefore::fence_tensor(WarpClock& clock, LaneMask lanes, LaneMask live) {
  std::array<const VectorClock*, kWarpSize> observed{};
  bool any = false;
  for_each(lanes, [&](int lane) {
    const RemoteClock::Pointer& found = clock.observed(lane).narrow;
    if (found == nullptr) return;
    observed[static_cast<std::size_t>(lane)] = found->of(cluster_);
    any = true;
  });
  if (!any) return;
  for (const Strand strand : tensor_strands_) {
    const auto last = [&](int lane) {
      const VectorClock* const found = observed[static_cast<std::size_t>(lane)];
      return found == nullptr ? 0 : found->seen(strand);
    };
    // What every lane has observed the warp as a whole knows.
    std::uint32_t least = ~0u;
    for_each(lanes, [&](int lane) { least = std::min(least, last(lane)); });
    if ((lanes & live) == live && least > clock.known_.seen(strand))
      change_known(clock, lanes, live, [&](VectorClock& known) { known.see(strand, least); });
    for_each(lanes, [&](int lane) {
      if (last(lane) > clock.known(lane).seen(strand)) own(clock, lane).see(strand, last(lane));
    });
  }
}

Epoch HappensBefore::issue_tensor(WarpClock& clock, int lane) {
  Epoch& last = clock.tensor_issues_[static_cast<std::size_t>(lane)];
  if (last.strand == 0)
    last.strand =
        add_tensor_strand(fmt::format("tensor operations of lane {} of {}", lane, describe(clock.strand_)));
  ++last.tick;
  return last;
}

// --- By way of global memory

RemoteClock::Pointer HappensBefore::publish(WarpClock& clock, LaneMask lanes, LaneMask live) {
  auto own = std::make_shared<VectorClock>();
  release(clock, lanes, live, *own);
  const RemoteClock::Pointer others = own->take_remote();
  return RemoteClock::with(others, cluster_, std::move(own));
}

void HappensBefore::learn(WarpClock& clock, LaneMask lanes, LaneMask live, const RemoteClock::Pointer& from,
                          bool wide) {
  if (from == nullptr) return;
  const VectorClock* of_this = from->of(cluster_);
  change_known(clock, lanes, live, [&](VectorClock& known) {
    if (of_this != nullptr) known.join(*of_this);
    if (wide) known.learn(from);
  });
}

void HappensBefore::fence(WarpClock& clock, LaneMask lanes, LaneMask live, const MemoryOrder& order) {
  const bool wide = order.scope == MemoryScope::kGpu;
  for_each(lanes, [&](int lane) {
    const LaneMask bit = LaneMask{1} << lane;
    if (order.acquires) {
      WarpClock::Published& observed = clock.observed(lane);
      learn(clock, bit, live, std::exchange(observed.narrow, nullptr), false);
      if (wide) learn(clock, bit, live, std::exchange(observed.wide, nullptr), true);
    }
    if (!order.releases) return;
    WarpClock::Published& released = clock.released(lane);
    released.narrow = publish(clock, bit, live);
    if (wide) released.wide = released.narrow;
  });
}

// --- Questions

// Whether `last` of every one of the lanes' own strands has come to the event.
template <class Last>
bool HappensBefore::each_lane(const Epoch& event, LaneMask lanes, Last last) const {
  if (lanes == 0) return false;
  const WarpClock& warp = *strands_[event.strand].clock;
  for (; lanes != 0; lanes &= lanes - 1) {
    const Strand strand = warp.lane_strands_[static_cast<std::size_t>(__builtin_ctz(lanes))];
    if (strand == 0 || last(strand) < event.tick) return false;
  }
  return true;
}

bool HappensBefore::ordered(const Epoch& event, const WarpClock& clock, int lane, bool overwrites) const {
  LaneMask lanes = event.lanes;
  if (event.strand == clock.strand_) {
    if (event.tick <= clock.synced_ || lane < 0) return true;
    lanes &= ~(LaneMask{1} << lane);
    if (lanes == 0) return true;
  }
  const VectorClock& known = clock.known(lane);
  const auto last = [&](Strand strand) { return overwrites ? known.settled(strand) : known.seen(strand); };
  return last(event.strand) >= event.tick || each_lane(event, lanes, last);
}

bool HappensBefore::fenced(const Epoch& event, const WarpClock& clock, int lane, FencedSpace space) const {
  LaneMask lanes = event.lanes;
  if (event.strand == clock.strand_) {
    if (event.tick <= clock.synced_fenced(space)) return true;
    for (LaneMask rest = lanes; rest != 0; rest &= rest - 1) {
      const int writer = __builtin_ctz(rest);
      if ((writer == lane || lane < 0) && clock.has_fenced(writer, event.tick, space))
        lanes &= ~(LaneMask{1} << writer);
    }
    if (lanes == 0) return true;
  }
  const VectorClock& known = clock.known(lane);
  const auto last = [&](Strand strand) { return known.fenced(strand, space); };
  return last(event.strand) >= event.tick || each_lane(event, lanes, last);
}

bool HappensBefore::ordered(const Epoch& event, const VectorClock* known, bool overwrites) const {
  if (known == nullptr) return false;
  const auto last = [&](Strand strand) { return overwrites ? known->settled(strand) : known->seen(strand); };
  return last(event.strand) >= event.tick || each_lane(event, event.lanes, last);
}

bool HappensBefore::fenced(const Epoch& event, const VectorClock* known, FencedSpace space) const {
  if (known == nullptr) return false;
  const auto last = [&](Strand strand) { return known->fenced(strand, space); };
  return last(event.strand) >= event.tick || each_lane(event, event.lanes, last);
}

}  // namespace jfa::simulator
