// mbarrier objects: the 64 opaque bits in shared memory as the simulator keeps them, with what a report wants
// to know.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "simulator/machine/flight.h"
#include "simulator/machine/machine.h"

namespace jfa::simulator {

class Mbarrier {
 public:
  static constexpr std::uint32_t kMaxCount = (1u << 20) - 1;
  static constexpr std::int64_t kMaxTransactionBytes = (1 << 20) - 1;

  /// `where` names it in messages: "mbarrier at shared 0x408 full+8".
  Mbarrier(std::uint32_t count, std::string where)
      : expected_(count), pending_(count), where_(std::move(where)) {}

  /// Whose it is; null: nobody's, in tests.
  void set_owner(Cta& cta, std::uint32_t offset) { owner_ = &cta, offset_ = static_cast<int>(offset); }
  const Cta* owner() const { return owner_; }
  /// Who watches. By itself only what the object cannot do is an error: counts beyond its ranges, arrivals
  /// beyond those pending.
  void observe(std::unique_ptr<MbarrierObserver> observer) { observers_.push_back(std::move(observer)); }

  // --- What happened before what. The init and completed phases are events of a strand.
  void set_event(const Epoch& of_init) { event_ = of_init; }
  const Epoch& init_event() const { return event_; }
  /// The completion of the last complete phase.
  Epoch event() const { return {event_.strand, event_.tick + static_cast<std::uint32_t>(phase_)}; }
  /// What the arrivals of the current phase, before they are made, …
  VectorClock& arriving() { return arriving_; }
  /// … and those of completed phases have published.
  const VectorClock& clock() const { return clock_; }

  // --- State. A phase completes when nothing is pending and no bytes are outstanding.
  /// Phases completed since init: the number of the current, incomplete one.
  std::uint64_t phase() const { return phase_; }
  std::uint32_t expected() const { return expected_; }
  std::uint32_t pending() const { return pending_; }
  /// Bytes expected and not yet there; negative while bytes came before their expect_tx.
  std::int64_t transaction_bytes() const { return transaction_bytes_; }
  /// What mbarrier.arrive returns: the current phase above 20 bits of pending count.
  std::uint64_t state_token() const { return phase_ << 20 | pending_; }
  static std::uint32_t pending_count(std::uint64_t token) {
    return static_cast<std::uint32_t>(token & kMaxCount);
  }
  static std::uint64_t phase_of(std::uint64_t token) { return token >> 20; }

  // --- Arrive-on operations. They throw kBarrier or kTransaction about `point`, and what observers throw.
  enum class Arrive : std::uint8_t { kPlain, kNoComplete, kDrop };
  void arrive(std::uint32_t count, const ProgramPoint& point, Arrive how = Arrive::kPlain);
  /// One more arrival in the current phase: what cp.async.mbarrier.arrive adds, to take it off when the
  /// copies are done.
  void expect_arrival(const ProgramPoint& point);
  void expect_transaction(std::uint64_t bytes, const ProgramPoint& point);
  void complete_transaction(std::uint64_t bytes, const ProgramPoint& point);

  // --- Asynchronous operations that signal this barrier.
  /// An operation has been issued that will complete `bytes` here; `what` as in SharedObserver. Returns its
  /// number for settle().
  std::uint64_t track(std::uint32_t bytes, const char* what, const ProgramPoint& point,
                      std::vector<FlightRef> flights);
  /// The tracked operation has moved its bytes: complete_transaction of all of them.
  void settle(std::uint64_t tracked);
  /// Flights that end once the current phase's completion has been observed: what a tensor-core commit
  /// covers. Call before its arrive.
  void release_on_observation(const std::vector<FlightRef>& flights);

  // --- Waiting.
  /// Whether the phase before the current one has this parity; an observation if so: flights end.
  bool test_parity(std::uint32_t parity, int warp, const ProgramPoint& point);
  /// The same for a token of arrive.
  bool test_state(std::uint64_t token, int warp, const ProgramPoint& point);
  /// True if test_parity would be; observes nothing.
  bool parity_done(std::uint32_t parity) const { return (phase_ & 1) != (parity & 1); }
  bool state_done(std::uint64_t token) const { return phase_ != phase_of(token); }

  /// A commit of the tensor core is about to arrive.
  void note_commit(const ProgramPoint& point) const;
  /// mbarrier.inval: throws if operations are outstanding, which would signal an object that is gone.
  void invalidate(const ProgramPoint& point) const;
  /// Its CTA has exited.
  void exit() const;
  /// Operations that still owe it their bytes.
  bool is_owed() const { return !tracked_.empty(); }
  struct Owed {
    std::uint32_t bytes;
    const char* what;
  };
  Owed first_owed() const { return {tracked_.front().bytes, tracked_.front().what}; }
  /// Throws kInFlight if there are some. `when`: "the CTA has exited".
  void check_not_owed(const char* when) const;

  const std::string& where() const { return where_; }
  /// "mbarrier at shared 0x408: phase 3, 1 of 2 arrivals pending, 16384 bytes outstanding; arrived: …; owed
  /// by: …".
  std::string describe() const;

 private:
  struct Tracked {
    std::uint64_t id;
    std::uint32_t bytes;
    const char* what;
    ProgramPoint point;
    std::vector<FlightRef> flights;
  };
  struct Arrival {
    ProgramPoint point;
    std::uint32_t count;
  };
  void complete_phase_if_due(const ProgramPoint& point);
  void trace_phase();
  timing::Recorder* recorder() const;
  bool observe(bool done, const ProgramPoint& point);

  Cta* owner_ = nullptr;
  int offset_ = 0;                 // in its shared memory
  std::uint64_t phase_since_ = 0;  // warp instructions, for traces
  Epoch event_;
  VectorClock arriving_, clock_;
  std::uint64_t phase_ = 0;
  std::uint32_t expected_;
  std::uint32_t pending_;
  std::int64_t transaction_bytes_ = 0;
  std::string where_;

  std::uint64_t last_tracked_ = 0;
  std::vector<Tracked> tracked_;              // operations that still owe their bytes
  std::vector<FlightRef> settling_;           // flights of those that completed in the current phase
  std::vector<FlightRef> awaiting_observer_;  // and in completed phases
  std::vector<Arrival> arrivals_;             // of the current phase
  std::vector<std::unique_ptr<MbarrierObserver>> observers_;
};

/// The live mbarriers of a CTA.
class Mbarriers : public Extension {
 public:
  explicit Mbarriers(Cta& cta) : cta_(cta) {}

  void init(std::uint32_t offset, std::uint32_t count, const ProgramPoint& point);
  void invalidate(std::uint32_t offset, const ProgramPoint& point);
  /// Throws kBarrier if no barrier is live there, kMisaligned.
  Mbarrier& at(std::uint32_t offset, const ProgramPoint& point);
  /// Null if no barrier is live there.
  Mbarrier* find(std::uint32_t offset) const;
  void on_exit() override;

 private:
  void check_place(std::uint32_t offset, const ProgramPoint& point) const;

  Cta& cta_;
  // By offset / 8: index into barriers_ plus 1. Filled up to the highest barrier only.
  std::vector<std::uint16_t> index_;
  std::vector<std::unique_ptr<Mbarrier>> barriers_;  // null: invalidated
  std::map<std::uint32_t, Epoch> events_;            // by offset: the last of those that were there
};

}  // namespace jfa::simulator
