#include "simulator/async/mbarrier.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "simulator/checkers/race_shadow.h"
#include "simulator/machine/recorder.h"

namespace jfa::simulator {

timing::Recorder* Mbarrier::recorder() const {
  return owner_ != nullptr ? owner_->machine().recorder() : nullptr;
}

// PTX asks for one successful wait between two phases' arrivals; without one, nobody could tell the phases
// apart.
void Mbarrier::check_observed(const ProgramPoint& point) const {
  if (checks_ && observed_ < phase_ && pending_ == expected_)
    fail(ErrorKind::kBarrier, point,
         fmt::format("arrival for phase {} of {} before any thread has observed that phase {} completed",
                     phase_, where_, phase_ - 1),
         describe());
}

void Mbarrier::arrive(std::uint32_t count, const ProgramPoint& point, Arrive how) {
  if (count < 1 || count > kMaxCount)
    fail(ErrorKind::kBarrier, point, fmt::format("arrival count {} is not in 1..{}", count, kMaxCount));
  if (count > pending_)
    fail(ErrorKind::kBarrier, point,
         fmt::format("arrival of {} at {}, where {} of {} are pending", count, where_, pending_, expected_),
         describe());
  check_observed(point);
  if (checks_ && how == Arrive::kNoComplete && count == pending_ && transaction_bytes_ == 0)
    fail(ErrorKind::kBarrier, point,
         fmt::format("arrive.noComplete completes phase {} of {}", phase_, where_), describe());
  if (timing::Recorder* recorder = this->recorder())
    recorder->arrived(point, *owner_, static_cast<std::uint32_t>(offset_), phase_);
  pending_ -= count;
  if (how == Arrive::kDrop) expected_ -= count;
  // One line a warp and instruction: lanes arrive one after another.
  Arrival* last = arrivals_.empty() ? nullptr : &arrivals_.back();
  if (last && last->point.instruction == point.instruction && last->point.cta == point.cta &&
      last->point.warp == point.warp) {
    last->count += count;
    if (last->point.lane != point.lane) last->point.lane = -1;
  } else {
    arrivals_.push_back({point, count});
  }
  complete_phase_if_due(point);
}

void Mbarrier::expect_arrival(const ProgramPoint& point) {
  if (pending_ == kMaxCount)
    fail(ErrorKind::kBarrier, point, fmt::format("more than {} pending arrivals at {}", kMaxCount, where_),
         describe());
  check_observed(point);
  ++pending_;
}

void Mbarrier::expect_transaction(std::uint64_t bytes, const ProgramPoint& point) {
  if (transaction_bytes_ + static_cast<std::int64_t>(bytes) > kMaxTransactionBytes)
    fail(ErrorKind::kTransaction, point,
         fmt::format("expect_tx of {} bytes takes the count of {} to {}, beyond 2^20 - 1", bytes, where_,
                     transaction_bytes_ + static_cast<std::int64_t>(bytes)),
         describe());
  check_observed(point);
  transaction_bytes_ += static_cast<std::int64_t>(bytes);
  complete_phase_if_due(point);
}

void Mbarrier::complete_transaction(std::uint64_t bytes, const ProgramPoint& point) {
  const std::int64_t left = transaction_bytes_ - static_cast<std::int64_t>(bytes);
  if (left < -kMaxTransactionBytes)
    fail(ErrorKind::kTransaction, point,
         fmt::format("complete_tx of {} bytes takes the count of {} to {}, beyond -(2^20 - 1)", bytes, where_,
                     left),
         describe());
  transaction_bytes_ = left;
  complete_phase_if_due(point);
}

void Mbarrier::complete_phase_if_due(const ProgramPoint& point) {
  if (pending_ != 0) return;
  if (checks_ && transaction_bytes_ < 0)
    fail(ErrorKind::kTransaction, point,
         fmt::format(
             "{} bytes more than expected have arrived in phase {} of {}, and every arrival is in: it can "
             "never complete",
             -transaction_bytes_, phase_, where_),
         describe());
  if (transaction_bytes_ != 0) return;
  if (checks_ && !tracked_.empty())
    fail(
        ErrorKind::kTransaction, point,
        fmt::format("phase {} of {} completes while {} still owes it {} bytes: fewer were expected than were "
                    "issued",
                    phase_, where_, tracked_.front().what, tracked_.front().bytes),
        describe());
  ++phase_;
  pending_ = expected_;
  awaiting_observer_.insert(awaiting_observer_.end(), settling_.begin(), settling_.end());
  settling_.clear();
  arrivals_.clear();
  if (owner_ != nullptr && owner_->machine().trace() != nullptr) trace_phase();
  clock_.join(arriving_);
  clock_.see(event_.strand, event().tick);
  arriving_.clear();
}

// phase_ has just been completed.
void Mbarrier::trace_phase() {
  const std::uint64_t now = owner_->machine().clock();
  owner_->machine().trace()->add({TraceEvent::Kind::kPhase, owner_->index(), offset_, phase_since_, now,
                                  fmt::format("phase {} of {}", phase_ - 1, where_)});
  phase_since_ = now;
}

std::uint64_t Mbarrier::track(std::uint32_t bytes, const char* what, const ProgramPoint& point,
                              std::vector<FlightRef> flights) {
  if (timing::Recorder* recorder = this->recorder())
    recorder->copies_in(point, *owner_, static_cast<std::uint32_t>(offset_), phase_, bytes);
  tracked_.push_back({++last_tracked_, bytes, what, point, std::move(flights)});
  return last_tracked_;
}

void Mbarrier::settle(std::uint64_t tracked) {
  const auto found =
      std::find_if(tracked_.begin(), tracked_.end(), [&](const Tracked& t) { return t.id == tracked; });
  const Tracked settled = std::move(*found);
  tracked_.erase(found);
  release_on_observation(settled.flights);
  complete_transaction(settled.bytes, settled.point);
}

void Mbarrier::release_on_observation(const std::vector<FlightRef>& flights) {
  settling_.insert(settling_.end(), flights.begin(), flights.end());
}

bool Mbarrier::observe(bool done, std::uint64_t wanted, int warp, const ProgramPoint& point) {
  Watcher& watcher = watchers_[static_cast<std::size_t>(warp)];
  if (checks_ && wanted != 0 && phase_ > wanted)
    fail(
        ErrorKind::kBarrier, point,
        fmt::format("warp {} waits for phase {} of {} after phase {} has completed too: it is {} phases late",
                    warp, wanted - 1, where_, phase_ - 1, phase_ - wanted + 1),
        describe());
  if (!done) {
    watcher.awaited = phase_ + 1;
    return false;
  }
  watcher = {phase_, 0, true};
  if (timing::Recorder* recorder = phase_ != 0 ? this->recorder() : nullptr)
    recorder->waited(point, *owner_, static_cast<std::uint32_t>(offset_), phase_ - 1);
  observed_ = phase_;
  if (!awaiting_observer_.empty()) {
    for (const FlightRef& flight : awaiting_observer_) flight.end(event());
    awaiting_observer_.clear();
  }
  return true;
}

bool Mbarrier::test_parity(std::uint32_t parity, int warp, const ProgramPoint& point) {
  const Watcher& watcher = watchers_[static_cast<std::size_t>(warp)];
  // Which completion the warp must mean: the one it has been waiting for, or the one after its last. A wait
  // with the parity of its last is a second look, or deliberately skips a phase.
  std::uint64_t wanted = watcher.awaited;
  if (wanted != 0 && (wanted & 1) == (parity & 1)) wanted = 0;  // it gave up and asks for the other parity
  if (wanted == 0 && watcher.has_observed && ((watcher.observed + 1) & 1) != (parity & 1))
    wanted = watcher.observed + 1;
  return observe(parity_done(parity), wanted, warp, point);
}

bool Mbarrier::test_state(std::uint64_t token, int warp, const ProgramPoint& point) {
  return observe(state_done(token), (token >> 20) + 1, warp, point);
}

void Mbarrier::check_idle(const char* when, const ProgramPoint& point) const {
  if (!tracked_.empty())
    fail(ErrorKind::kInFlight, tracked_.front().point,
         fmt::format("{}, and {} still owes {} bytes to {}", when, tracked_.front().what,
                     tracked_.front().bytes, where_),
         describe());
  if (checks_ && transaction_bytes_ != 0)
    fail(ErrorKind::kTransaction, point,
         fmt::format("{}, and the transaction count of {} is {}", when, where_, transaction_bytes_),
         describe());
}

void Mbarrier::check_commits_observed() const {
  if (last_commit_.completed <= observed_) return;
  fail(
      ErrorKind::kInFlight, last_commit_.point,
      fmt::format("the CTA has exited, and no thread has waited for the arrival of this commit at {}: it may "
                  "come after the exit",
                  where_),
      describe());
}

std::string Mbarrier::describe() const {
  std::string text = fmt::format("{}: phase {} is open, {} of {} arrivals pending, {} bytes outstanding",
                                 where_, phase_, pending_, expected_, transaction_bytes_);
  for (const Arrival& arrival : arrivals_)
    text += fmt::format("\n  {} arrived: {}", arrival.count, arrival.point.describe());
  for (const Tracked& tracked : tracked_)
    text += fmt::format("\n  {} bytes owed by {}: {}", tracked.bytes, tracked.what, tracked.point.describe());
  return text;
}

// --- Mbarriers

Mbarrier* Mbarriers::find(std::uint32_t offset) const {
  const std::size_t slot = offset / 8;
  if (slot >= index_.size() || index_[slot] == 0) return nullptr;
  return barriers_[index_[slot] - 1u].get();
}

void Mbarriers::check_place(std::uint32_t offset, const ProgramPoint& point) const {
  if (offset % 8 != 0)
    fail_at(ErrorKind::kMisaligned, point, offset,
            fmt::format("mbarrier address: shared {:#x} is not 8-byte aligned", offset));
  if (offset < kReservedSharedBytes || !cta_.shared().in_bounds(offset, 8))
    fail_at(ErrorKind::kOutOfBounds, point, offset,
            fmt::format("mbarrier address: shared {:#x} is outside the CTA's shared memory of {} bytes",
                        offset, cta_.shared().size()));
}

void Mbarriers::init(std::uint32_t offset, std::uint32_t count, const ProgramPoint& point) {
  check_place(offset, point);
  if (count < 1 || count > Mbarrier::kMaxCount)
    fail(ErrorKind::kBarrier, point,
         fmt::format("mbarrier.init count {} is not in 1..{}", count, Mbarrier::kMaxCount));
  if (const Mbarrier* live = find(offset); live != nullptr && (cta_.shared().checks() || live->is_owed()))
    fail_at(
        ErrorKind::kBarrier, point, offset,
        fmt::format("mbarrier.init of {}, which is live: mbarrier.inval has to come first", live->where()),
        live->describe());
  SharedMemory& memory = cta_.shared();
  // An init is a generic write: it may not land in the middle of a copy.
  memory.check_write(offset, 8, point);
  memory.set_flags(offset, 8, SharedMemory::kBarrierObject);
  const std::size_t slot = offset / 8;
  if (slot >= index_.size()) index_.resize(slot + 1);
  if (index_[slot] == 0) {
    barriers_.emplace_back();
    index_[slot] = static_cast<std::uint16_t>(barriers_.size());
  }
  const std::string symbol = cta_.shared_symbol(offset);
  Mbarrier fresh(count,
                 fmt::format("mbarrier at shared {:#x}{}{}", offset, symbol.empty() ? "" : " ", symbol),
                 (cta_.threads() + kWarpSize - 1) / kWarpSize);
  std::unique_ptr<Mbarrier>& place = barriers_[index_[slot] - 1u];
  if (place == nullptr)
    place = std::make_unique<Mbarrier>(std::move(fresh));
  else
    *place = std::move(fresh);  // whoever holds it signals the new one
  Mbarrier& barrier = *place;
  barrier.set_owner(cta_, offset);
  if (!memory.checks()) return;
  Epoch& event = events_[offset];
  if (event.strand == 0) event.strand = cta_.cluster().order.add_strand(barrier.where());
  ++event.tick;
  barrier.set_event(event);
  const Warp& warp = cta_.warp(point.warp);
  if (warp.clock != nullptr) warp.clock->note_init(point.lane, event);
}

void Mbarriers::invalidate(std::uint32_t offset, const ProgramPoint& point) {
  const Mbarrier& barrier = at(offset, point);
  barrier.check_idle("mbarrier.inval", point);
  events_[offset].tick = barrier.event().tick;
  barriers_[index_[offset / 8] - 1u].reset();
  SharedMemory& memory = cta_.shared();
  memory.clear_flags(offset, 8, SharedMemory::kBarrierObject | SharedMemory::kInitialised);
}

Mbarrier& Mbarriers::at(std::uint32_t offset, const ProgramPoint& point) {
  check_place(offset, point);
  if (Mbarrier* barrier = find(offset)) {
    if (RaceShadow* races = shared_races(cta_.shared()))
      races->check_initialised(offset, barrier->init_event(), point);
    return *barrier;
  }
  fail_at(ErrorKind::kBarrier, point, offset,
          fmt::format("no mbarrier is initialised at shared {:#x} {}", offset, cta_.shared_symbol(offset)));
}

void Mbarriers::on_exit() {
  if (!cta_.shared().checks()) return;
  for (const auto& barrier : barriers_)
    if (barrier) barrier->check_idle("the CTA has exited", {nullptr, &cta_, -1, -1});
  // Who counts on commits to come in order leaves the earlier ones to the last.
  if (!cta_.machine().config().options.commit_waits) return;
  for (const auto& barrier : barriers_)
    if (barrier) barrier->check_commits_observed();
}

}  // namespace jfa::simulator
