#include "simulator/async/mbarrier.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "simulator/machine/recorder.h"

namespace jfa::simulator {

timing::Recorder* Mbarrier::recorder() const {
  return owner_ != nullptr ? owner_->machine().recorder() : nullptr;
}

void Mbarrier::arrive(std::uint32_t count, const ProgramPoint& point, Arrive how) {
  if (count < 1 || count > kMaxCount)
    fail(ErrorKind::kBarrier, point, fmt::format("arrival count {} is not in 1..{}", count, kMaxCount));
  if (count > pending_)
    fail(ErrorKind::kBarrier, point,
         fmt::format("arrival of {} at {}, where {} of {} are pending", count, where_, pending_, expected_),
         describe());
  for (const auto& observer : observers_) observer->arrive(*this, count, how != Arrive::kNoComplete, point);
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
  for (const auto& observer : observers_) observer->expect(*this, point);
  ++pending_;
}

void Mbarrier::expect_transaction(std::uint64_t bytes, const ProgramPoint& point) {
  if (transaction_bytes_ + static_cast<std::int64_t>(bytes) > kMaxTransactionBytes)
    fail(ErrorKind::kTransaction, point,
         fmt::format("expect_tx of {} bytes takes the count of {} to {}, beyond 2^20 - 1", bytes, where_,
                     transaction_bytes_ + static_cast<std::int64_t>(bytes)),
         describe());
  for (const auto& observer : observers_) observer->expect(*this, point);
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
  for (const auto& observer : observers_) observer->arrivals_in(*this, point);
  if (transaction_bytes_ != 0) return;
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

bool Mbarrier::observe(bool done, const ProgramPoint& point) {
  if (!done) return false;
  if (timing::Recorder* recorder = phase_ != 0 ? this->recorder() : nullptr)
    recorder->waited(point, *owner_, static_cast<std::uint32_t>(offset_), phase_ - 1);
  if (!awaiting_observer_.empty()) {
    for (const FlightRef& flight : awaiting_observer_) flight.end(event());
    awaiting_observer_.clear();
  }
  return true;
}

bool Mbarrier::test_parity(std::uint32_t parity, int warp, const ProgramPoint& point) {
  for (const auto& observer : observers_) observer->await_parity(*this, parity, warp, point);
  return observe(parity_done(parity), point);
}

bool Mbarrier::test_state(std::uint64_t token, int warp, const ProgramPoint& point) {
  for (const auto& observer : observers_) observer->await_state(*this, token, warp, point);
  return observe(state_done(token), point);
}

void Mbarrier::note_commit(const ProgramPoint& point) const {
  for (const auto& observer : observers_) observer->commit(*this, point);
}

void Mbarrier::check_not_owed(const char* when) const {
  if (!tracked_.empty())
    fail(ErrorKind::kInFlight, tracked_.front().point,
         fmt::format("{}, and {} still owes {} bytes to {}", when, tracked_.front().what,
                     tracked_.front().bytes, where_),
         describe());
}

void Mbarrier::invalidate(const ProgramPoint& point) const {
  check_not_owed("mbarrier.inval");
  for (const auto& observer : observers_) observer->invalidate(*this, point);
}

void Mbarrier::exit() const {
  for (const auto& observer : observers_) observer->exit(*this);
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
                 fmt::format("mbarrier at shared {:#x}{}{}", offset, symbol.empty() ? "" : " ", symbol));
  std::unique_ptr<Mbarrier>& place = barriers_[index_[slot] - 1u];
  if (place == nullptr)
    place = std::make_unique<Mbarrier>(std::move(fresh));
  else
    *place = std::move(fresh);  // whoever holds it signals the new one
  Mbarrier& barrier = *place;
  barrier.set_owner(cta_, offset);
  for (const auto& observer : memory.observers())
    if (auto watch = observer->add_barrier((cta_.threads() + kWarpSize - 1) / kWarpSize))
      barrier.observe(std::move(watch));
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
  barrier.invalidate(point);
  events_[offset].tick = barrier.event().tick;
  barriers_[index_[offset / 8] - 1u].reset();
  SharedMemory& memory = cta_.shared();
  memory.clear_flags(offset, 8, SharedMemory::kBarrierObject | SharedMemory::kInitialised);
}

Mbarrier& Mbarriers::at(std::uint32_t offset, const ProgramPoint& point) {
  check_place(offset, point);
  if (Mbarrier* barrier = find(offset)) {
    for (const auto& observer : cta_.shared().observers())
      observer->use_barrier(offset, barrier->init_event(), point);
    return *barrier;
  }
  fail_at(ErrorKind::kBarrier, point, offset,
          fmt::format("no mbarrier is initialised at shared {:#x} {}", offset, cta_.shared_symbol(offset)));
}

void Mbarriers::on_exit() {
  for (const auto& barrier : barriers_)
    if (barrier) barrier->exit();
}

}  // namespace jfa::simulator
