#include "simulator/machine/observer.h"

namespace jfa::simulator {

FlightRef Observers::issue() {
  if (all_.empty()) return {};
  ++last_flight_;
  for (Observer* observer : all_) observer->issue(last_flight_);
  return {this, last_flight_};
}

void Observers::access(const FlightRef& operation, MemoryAccess access, std::uint64_t address,
                       std::uint32_t bytes, const char* what, const ProgramPoint& point, bool reduces) {
  for (Observer* observer : all_)
    observer->access(operation.id, access, address, bytes, what, point, reduces);
}

FlightRef Observers::issue(MemoryAccess access, std::uint64_t address, std::uint32_t bytes, const char* what,
                           const ProgramPoint& point, bool reduces) {
  const FlightRef operation = issue();
  this->access(operation, access, address, bytes, what, point, reduces);
  return operation;
}

void Observers::end_flight(FlightId id, const Epoch& event) {
  if (id == 0) return;
  for (Observer* observer : all_) observer->end_flight(id, event);
}

}  // namespace jfa::simulator
