// The shared memory of a CTA that asynchronous operations own: from the instruction that starts one until a
// thread has observed its completion, its destination may not be touched and its source not be overwritten.
// Being early is an error on every schedule, whether or not the operation has really moved the bytes by then.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "simulator/checkers/race_shadow.h"
#include "simulator/machine/flight.h"
#include "simulator/machine/machine.h"

namespace jfa::simulator {

class AsyncShadow {
 public:
  using Access = MemoryAccess;

  AsyncShadow(Cta& cta, RaceShadow& races) : cta_(cta), memory_(cta.shared()), races_(races) {}

  /// Puts [offset, offset + bytes) in flight. Throws kInFlight if a write meets anything in flight or a read
  /// meets a write, kBarrier if a write covers a live mbarrier. A destination is poisoned and counts as
  /// uninitialised until the operation writes it, and throws kRace if somebody's access of it is not ordered
  /// before. what: "TMA load", for reports. `generic`: cp.async, which writes through the generic proxy.
  void begin(FlightId id, Access access, std::uint32_t offset, std::uint32_t bytes, const char* what,
             const ProgramPoint& point, bool generic);
  void end(FlightId id, const Epoch& event);

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
  void exit() const;

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
  RaceShadow& races_;
  std::vector<Flight> flights_;  // some dozens at most
};

}  // namespace jfa::simulator
