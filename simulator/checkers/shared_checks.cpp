#include "simulator/checkers/shared_checks.h"

#include <fmt/format.h>

#include "simulator/checkers/mbarrier_checks.h"

namespace jfa::simulator {

SharedChecks::SharedChecks(Cta& cta)
    : cta_(cta), races_(cta, cta.cluster().order, cta.shared().size()), flights_(cta, races_) {}

void SharedChecks::read(std::uint32_t offset, std::uint32_t bytes, const ProgramPoint& point,
                        const MemoryOrder& order) {
  races_.read(offset, bytes, point, order);
}

void SharedChecks::write(std::uint32_t offset, std::uint32_t bytes, const ProgramPoint& point,
                         const MemoryOrder& order) {
  races_.write(offset, bytes, point, order);
}

void SharedChecks::check_engines(MemoryAccess access, std::uint32_t offset, std::uint32_t bytes,
                                 const ProgramPoint& point) {
  races_.check_engines(access, offset, bytes, point);
}

bool SharedChecks::replaces_engines(std::uint32_t offset, std::uint32_t bytes,
                                    const ProgramPoint& point) const {
  return races_.replaces_engines(offset, bytes, point);
}

void SharedChecks::issue(FlightId id, MemoryAccess access, std::uint32_t offset, std::uint32_t bytes,
                         const char* what, const ProgramPoint& point, bool generic) {
  flights_.begin(id, access, offset, bytes, what, point, generic);
}

void SharedChecks::end_flight(FlightId id, const Epoch& event) { flights_.end(id, event); }

void SharedChecks::check_source(std::uint32_t offset, std::uint32_t bytes, const char* what,
                                const ProgramPoint& point) const {
  flights_.check_source(offset, bytes, what, point);
}

bool SharedChecks::may_read(std::uint32_t offset, std::uint32_t bytes, const ProgramPoint& point) const {
  return flights_.may_read(offset, bytes, point);
}

void SharedChecks::issue_reduction(std::uint32_t offset, std::uint32_t bytes, const char* what,
                                   const ProgramPoint& point) {
  races_.check_reduction(offset, bytes, what, point);
}

void SharedChecks::reduce(std::uint32_t offset, std::uint32_t bytes, const char* what,
                          const ProgramPoint& point, const Epoch& event) {
  SharedMemory& memory = cta_.shared();
  if (memory.first_uninitialised(offset, bytes) >= 0)
    fail_at(ErrorKind::kUninitialised, point, offset,
            fmt::format("{} of shared {:#x}, which nothing has written", what, offset));
  races_.note_reduction(offset, bytes, point, event);
  memory.clear_flags(offset, bytes, SharedMemory::kEngineRead | SharedMemory::kEngineWritten);
}

std::string SharedChecks::explain(std::uint32_t offset, std::uint32_t bytes) const {
  return flights_.explain(offset, bytes);
}

std::unique_ptr<MbarrierObserver> SharedChecks::add_barrier(int warps) {
  return std::make_unique<MbarrierChecks>(warps, cta_.machine().config().options);
}

void SharedChecks::use_barrier(std::uint32_t offset, const Epoch& init, const ProgramPoint& point) const {
  races_.check_initialised(offset, init, point);
}

void SharedChecks::exit() { flights_.exit(); }

}  // namespace jfa::simulator
