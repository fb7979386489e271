// Places in flight: what an asynchronous operation accesses, from the instruction that issues it until
// somebody has observed its completion.
#pragma once

#include <cstdint>

#include "simulator/machine/vector_clock.h"

namespace jfa::simulator {

/// Names one place in flight of a memory; 0 is none. Never reused.
using FlightId = std::uint64_t;

/// A memory whose places can be in flight: shared memory, tensor memory, global memory. Its observers are
/// told.
class FlightOwner {
 public:
  /// Completion was observed, by way of the event. An id that has ended already, or 0, is fine: several
  /// barriers may tell of one operation.
  virtual void end_flight(FlightId id, const Epoch& event) = 0;

 protected:
  ~FlightOwner() = default;
};

/// A flight together with the memory that holds it: what an mbarrier or a bulk group ends on observation.
struct FlightRef {
  FlightOwner* owner = nullptr;
  FlightId id = 0;
  Epoch event{};  // its own completion, if it has one; else it is what it was observed by
  void end(const Epoch& observed) const {
    if (owner != nullptr) owner->end_flight(id, event.tick != 0 ? event : observed);
  }
};

}  // namespace jfa::simulator
