// mbarrier objects: the 64 opaque bits in shared memory as the simulator keeps them, with what a report wants
// to know.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "simulator/checkers/async_shadow.h"
#include "simulator/machine/machine.h"

namespace jfa::simulator {

class Mbarrier {
 public:
  static constexpr std::uint32_t kMaxCount = (1u << 20) - 1;
  static constexpr std::int64_t kMaxTransactionBytes = (1 << 20) - 1;

  /// `where` names it in messages: "mbarrier at shared 0x408 full+8".
  Mbarrier(std::uint32_t count, std::string where, int warps)
      : expected_(count),
        pending_(count),
        where_(std::move(where)),
        watchers_(static_cast<std::size_t>(warps)) {}

  /// Whose it is; null: nobody's, in tests. With the CTA's checks off only what the object cannot do is an
  /// error: counts beyond its ranges, arrivals beyond those pending.
  void set_owner(Cta& cta, std::uint32_t offset) {
    owner_ = &cta, offset_ = static_cast<int>(offset);
    checks_ = cta.shared().checks();
  }

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

  // --- Arrive-on operations. They throw kBarrier or kTransaction about `point`.
  enum class Arrive : std::uint8_t { kPlain, kNoComplete, kDrop };
  void arrive(std::uint32_t count, const ProgramPoint& point, Arrive how = Arrive::kPlain);
  /// One more arrival in the current phase: what cp.async.mbarrier.arrive adds, to take it off when the
  /// copies are done.
  void expect_arrival(const ProgramPoint& point);
  void expect_transaction(std::uint64_t bytes, const ProgramPoint& point);
  void complete_transaction(std::uint64_t bytes, const ProgramPoint& point);

  // --- Asynchronous operations that signal this barrier.
  /// An operation has been issued that will complete `bytes` here; `what` as in AsyncShadow. A phase that
  /// completes before it has is an error. Returns its number for settle().
  std::uint64_t track(std::uint32_t bytes, const char* what, const ProgramPoint& point,
                      std::vector<FlightRef> flights);
  /// The tracked operation has moved its bytes: complete_transaction of all of them.
  void settle(std::uint64_t tracked);
  /// Flights that end once the current phase's completion has been observed: what a tensor-core commit
  /// covers. Call before its arrive.
  void release_on_observation(const std::vector<FlightRef>& flights);

  // --- Waiting.
  /// Whether the phase before the current one has this parity; an observation if so: flights end. Throws if
  /// the warp, as far as it can be told, waits for a phase whose successor has completed too: parities cannot
  /// tell those apart.
  bool test_parity(std::uint32_t parity, int warp, const ProgramPoint& point);
  /// The same for a token of arrive.
  bool test_state(std::uint64_t token, int warp, const ProgramPoint& point);
  /// True if test_parity would be; observes nothing.
  bool parity_done(std::uint32_t parity) const { return (phase_ & 1) != (parity & 1); }
  bool state_done(std::uint64_t token) const { return phase_ != token >> 20; }

  /// A commit of the tensor core is about to arrive.
  void note_commit(const ProgramPoint& point) { last_commit_ = {point, phase_ + 1}; }
  /// Throws if bytes or operations are outstanding: called at the CTA's exit and before inval. With checks
  /// off only operations count, which would signal an object that is gone.
  void check_idle(const char* when, const ProgramPoint& point) const;
  /// Operations that still owe it their bytes.
  bool is_owed() const { return !tracked_.empty(); }
  /// Throws if nobody has waited for the last commit's arrival: the CTA exits, and it may yet be to come.
  void check_commits_observed() const;

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
  struct Watcher {               // what one warp knows
    std::uint64_t observed = 0;  // completed phases at its last successful wait
    std::uint64_t awaited = 0;   // completed phases its unsuccessful wait is for; 0 none
    bool has_observed = false;
  };
  void check_observed(const ProgramPoint& point) const;
  void complete_phase_if_due(const ProgramPoint& point);
  void trace_phase();
  timing::Recorder* recorder() const;
  bool observe(bool done, std::uint64_t wanted, int warp, const ProgramPoint& point);

  struct Commit {
    ProgramPoint point;
    std::uint64_t completed = 0;  // phases, when the one in which it arrived is; 0: there was none
  };

  Cta* owner_ = nullptr;
  int offset_ = 0;  // in its shared memory
  bool checks_ = true;
  Commit last_commit_;
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
  std::uint64_t observed_ = 0;                // completed phases that some warp has observed
  std::vector<Arrival> arrivals_;             // of the current phase
  std::vector<Watcher> watchers_;             // by warp
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
