// The shared memory of a CTA that asynchronous operations own: from the instruction that starts one until a
// thread has observed its completion, its destination may not be touched and its source not be overwritten.
// Being early is an error on every schedule, whether or not the operation has really moved the bytes by then.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "simulator/machine/machine.h"
#include "simulator/machine/vector_clock.h"

namespace jfa::simulator {

/// A memory whose places can be in flight: shared memory here, tensor memory elsewhere.
class FlightOwner {
 public:
  /// Names one place in flight; 0 is none. Never reused.
  using FlightId = std::uint64_t;

  /// Completion was observed, by way of the event. An id that has ended already, or 0, is fine: several
  /// barriers may tell of one operation.
  virtual void end(FlightId id, const Epoch& event) = 0;

 protected:
  ~FlightOwner() = default;
};

class AsyncShadow : public Extension, public FlightOwner {
 public:
  enum class Access : std::uint8_t { kRead, kWrite };
  using FlightOwner::FlightId;

  explicit AsyncShadow(Cta& cta);

  /// Puts [offset, offset + bytes) in flight. Throws kInFlight if a write meets anything in flight or a read
  /// meets a write, kBarrier if a write covers a live mbarrier, kOutOfBounds. A destination is poisoned and
  /// counts as uninitialised until the operation writes it, and throws kRace if somebody's access of it is
  /// not ordered before. what: "TMA load", for reports. `generic`: cp.async, which writes through the generic
  /// proxy. With checks off only bounds are checked.
  FlightId begin(Access access, std::uint32_t offset, std::uint32_t bytes, const char* what,
                 const ProgramPoint& point, bool generic = false);
  void end(FlightId id, const Epoch& event) override;

  /// What an engine may not read: bytes nobody wrote (kUninitialised), or whose writer is not ordered before
  /// (kRace), or a thread's generic write without fence.proxy.async behind it (kMissingFence). `what` reads
  /// them.
  void check_source(std::uint32_t offset, std::uint32_t bytes, const char* what,
                    const ProgramPoint& point) const;
  /// Whether it would throw nothing for any part of the bytes.
  bool may_read(std::uint32_t offset, std::uint32_t bytes, const ProgramPoint& point) const;

  /// "shared 0x400..0x43ff is being written by TMA load, issued at …" for each flight in the range.
  std::string explain(std::uint32_t offset, std::uint32_t bytes) const;

  /// A flight that nobody waited for when the CTA exits is an error.
  void on_exit() override;

 private:
  struct Flight {
    FlightId id;
    std::uint32_t begin, end;
    Access access;
    const char* what;
    ProgramPoint point;
    bool generic;
    bool overlaps(std::uint32_t first, std::uint32_t last) const { return begin < last && first < end; }
  };
  /// Whether one flight has all of the bytes.
  bool covered(std::uint32_t first, std::uint32_t last) const;
  std::string describe(const Flight& flight) const;

  Cta& cta_;
  SharedMemory& memory_;
  std::vector<Flight> flights_;  // some dozens at most
  FlightId last_id_ = 0;
};

/// A flight together with the memory that holds it: what an mbarrier or a bulk group ends on observation.
struct FlightRef {
  FlightOwner* shadow = nullptr;
  FlightOwner::FlightId id = 0;
  Epoch event{};  // its own completion, if it has one; else it is what it was observed by
  void end(const Epoch& observed) const {
    if (shadow) shadow->end(id, event.tick != 0 ? event : observed);
  }
};

}  // namespace jfa::simulator
