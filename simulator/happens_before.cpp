#include "simulator/happens_before.h"

#include <fmt/format.h>

#include "simulator/machine.h"

namespace jfa::simulator {
namespace {

template <class Function>
void for_each(LaneMask lanes, Function function) {
  for (; lanes != 0; lanes &= lanes - 1) function(__builtin_ctz(lanes));
}

}  // namespace

std::uint32_t WarpClock::fenced_by_all() const {
  std::uint32_t least = now_;
  for (const std::uint32_t since : unfenced_since_)
    if (since != 0) least = std::min(least, since - 1);
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

WarpClock& HappensBefore::add_warp(const Cta& cta, int warp) {
  const Strand strand = add_strand({});
  WarpClock& clock = warps_.emplace_back(strand);
  strands_[strand].cta = &cta;
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

// --- Events

void HappensBefore::release(WarpClock& clock, LaneMask lanes, LaneMask live, VectorClock& to) {
  to.join(clock.known_);
  for_each(lanes & clock.apart_, [&](int lane) { to.join(*clock.lanes_[static_cast<std::size_t>(lane)]); });
  if ((lanes & live) == live) {
    to.see(clock.strand_, clock.now_);
    to.fence(clock.strand_, clock.fenced_by_all());
  } else {
    to.see(clock.strand_, clock.synced_);
    to.fence(clock.strand_, clock.synced_fenced_);
    for_each(lanes, [&](int lane) {
      const Strand strand = lane_strand(clock, lane);
      to.see(strand, clock.now_);
      to.fence(strand, clock.fenced_by(lane));
    });
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

void HappensBefore::acquire(WarpClock& clock, LaneMask lanes, LaneMask live, const VectorClock& from) {
  if ((lanes & live) == live) {
    clock.known_.join(from);
    for_each(clock.apart_, [&](int lane) { own(clock, lane).join(from); });
  } else {
    for_each(lanes, [&](int lane) { own(clock, lane).join(from); });
  }
}

void HappensBefore::acquire(WarpClock& clock, LaneMask lanes, LaneMask live, const Epoch& event) {
  if ((lanes & live) == live) {
    clock.known_.see(event.strand, event.tick);
    for_each(clock.apart_, [&](int lane) { own(clock, lane).see(event.strand, event.tick); });
  } else {
    for_each(lanes, [&](int lane) { own(clock, lane).see(event.strand, event.tick); });
  }
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
  clock.synced_fenced_ = clock.fenced_by_all();
  clock.synced_ = clock.now_++;
}

void HappensBefore::fence_proxy(WarpClock& clock, LaneMask lanes, LaneMask live) {
  for_each(lanes, [&](int lane) { clock.unfenced_since_[static_cast<std::size_t>(lane)] = 0; });
  ++clock.now_;
  const auto fence = [&](VectorClock& known) {
    known.fence_seen();
    known.fence(clock.strand_, clock.synced_);  // what the warp's other lanes wrote before they last met
  };
  if ((lanes & live) == live) {
    fence(clock.known_);
    for_each(clock.apart_, [&](int lane) { fence(own(clock, lane)); });
  } else {
    for_each(lanes, [&](int lane) { fence(own(clock, lane)); });
  }
}

// --- Questions

bool HappensBefore::ordered(const Epoch& event, const WarpClock& clock, int lane, bool overwrites) const {
  LaneMask lanes = event.lanes;
  if (event.strand == clock.strand_) {
    if (event.tick <= clock.synced_ || lane < 0) return true;
    lanes &= ~(LaneMask{1} << lane);
    if (lanes == 0) return true;
  }
  const VectorClock& known = clock.known(lane);
  const auto last = [&](Strand strand) { return overwrites ? known.settled(strand) : known.seen(strand); };
  if (last(event.strand) >= event.tick) return true;
  if (lanes == 0) return false;
  const WarpClock& other = *strands_[event.strand].clock;
  for (; lanes != 0; lanes &= lanes - 1) {
    const Strand strand = other.lane_strands_[static_cast<std::size_t>(__builtin_ctz(lanes))];
    if (strand == 0 || last(strand) < event.tick) return false;
  }
  return true;
}

bool HappensBefore::fenced(const Epoch& event, const WarpClock& clock, int lane) const {
  LaneMask lanes = event.lanes;
  if (event.strand == clock.strand_) {
    if (event.tick <= clock.synced_fenced_) return true;
    for (LaneMask rest = lanes; rest != 0; rest &= rest - 1) {
      const int writer = __builtin_ctz(rest);
      if ((writer == lane || lane < 0) && clock.has_fenced(writer, event.tick))
        lanes &= ~(LaneMask{1} << writer);
    }
    if (lanes == 0) return true;
  }
  const VectorClock& known = clock.known(lane);
  if (known.fenced(event.strand) >= event.tick) return true;
  if (lanes == 0) return false;
  const WarpClock& other = *strands_[event.strand].clock;
  for (; lanes != 0; lanes &= lanes - 1) {
    const Strand strand = other.lane_strands_[static_cast<std::size_t>(__builtin_ctz(lanes))];
    if (strand == 0 || known.fenced(strand) < event.tick) return false;
  }
  return true;
}

}  // namespace jfa::simulator
