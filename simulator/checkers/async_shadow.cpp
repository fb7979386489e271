#include "simulator/checkers/async_shadow.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

namespace jfa::simulator {

void AsyncShadow::begin(FlightId id, Access access, std::uint32_t offset, std::uint32_t bytes,
                        const char* what, const ProgramPoint& point, bool generic) {
  const std::uint32_t last = offset + bytes;
  for (const Flight& flight : flights_) {
    if (!flight.overlaps(offset, last)) continue;
    if (access == Access::kRead && flight.access == Access::kRead) continue;
    fail_at(ErrorKind::kInFlight, point, std::max(offset, flight.begin),
            fmt::format("{} {} shared {:#x} while {} is still in flight there", what,
                        access == Access::kRead ? "reads" : "writes", std::max(offset, flight.begin),
                        flight.what),
            describe(flight));
  }
  if (access == Access::kWrite) {
    races_.check_engine(Access::kWrite, offset, bytes, what, point);
    if (memory_.any_flags(offset, bytes, SharedMemory::kBarrierObject)) {
      const std::uint8_t* flags = memory_.flags(offset);
      const std::uint8_t* object =
          std::find_if(flags, flags + bytes, [](std::uint8_t f) { return f & SharedMemory::kBarrierObject; });
      const auto at = offset + static_cast<std::uint32_t>(object - flags);
      fail_at(ErrorKind::kBarrier, point, at,
              fmt::format("{} overwrites the live mbarrier at shared {:#x} {}", what, at,
                          cta_.shared_symbol(at)));
    }
    std::memset(memory_.data(offset), 0xff, bytes);
    memory_.change_flags(
        offset, bytes, SharedMemory::kInitialised | SharedMemory::kEngineRead | SharedMemory::kEngineWritten,
        SharedMemory::kWriteInFlight);
  } else if (!covered(offset, last)) {
    memory_.set_flags(offset, bytes, SharedMemory::kReadInFlight);
  }
  flights_.push_back({id, offset, last, access, what, point, generic});
}

void AsyncShadow::end(FlightId id, const Epoch& event) {
  const auto found =
      std::find_if(flights_.begin(), flights_.end(), [&](const Flight& f) { return f.id == id; });
  if (found == flights_.end()) return;
  const Flight ended = *found;
  flights_.erase(found);
  const std::uint32_t bytes = ended.end - ended.begin;
  const bool reads = ended.access == Access::kRead;
  races_.note_engine(ended.access, ended.begin, bytes, ended.what, ended.point, event, ended.generic);
  // Others still read the same bytes: the last of them leaves the flags.
  if (reads && covered(ended.begin, ended.end)) return;
  const std::uint8_t left = bytes < RaceShadow::kLeastInterval ? 0
                            : reads                            ? SharedMemory::kEngineRead
                                                               : SharedMemory::kEngineWritten;
  memory_.change_flags(ended.begin, bytes, reads ? SharedMemory::kReadInFlight : SharedMemory::kWriteInFlight,
                       left);
  if (!reads) return;
  for (const Flight& flight : flights_) {
    if (!flight.overlaps(ended.begin, ended.end)) continue;
    const std::uint32_t first = std::max(flight.begin, ended.begin);
    memory_.set_flags(first, std::min(flight.end, ended.end) - first, SharedMemory::kReadInFlight);
  }
}

bool AsyncShadow::covered(std::uint32_t first, std::uint32_t last) const {
  return std::any_of(flights_.begin(), flights_.end(),
                     [&](const Flight& f) { return f.begin <= first && last <= f.end; });
}

void AsyncShadow::check_source(std::uint32_t offset, std::uint32_t bytes, const char* what,
                               const ProgramPoint& point) const {
  const std::int64_t bare = memory_.first_uninitialised(offset, bytes);
  if (bare >= 0)
    fail_at(ErrorKind::kUninitialised, point, static_cast<std::uint64_t>(bare),
            fmt::format("{} reads shared {:#x} {}, which nothing has written", what, bare,
                        cta_.shared_symbol(static_cast<std::uint32_t>(bare))));
  races_.check_engine(Access::kRead, offset, bytes, what, point);
}

bool AsyncShadow::may_read(std::uint32_t offset, std::uint32_t bytes, const ProgramPoint& point) const {
  return memory_.first_uninitialised(offset, bytes) < 0 && races_.engine_may_read(offset, bytes, point);
}

std::string AsyncShadow::describe(const Flight& flight) const {
  return fmt::format("shared {:#x}..{:#x} {} is being {} by {}, issued at {}", flight.begin, flight.end - 1,
                     cta_.shared_symbol(flight.begin), flight.access == Access::kRead ? "read" : "written",
                     flight.what, flight.point.describe());
}

std::string AsyncShadow::explain(std::uint32_t offset, std::uint32_t bytes) const {
  std::string text;
  for (const Flight& flight : flights_)
    if (flight.overlaps(offset, offset + bytes))
      text += fmt::format("{}{}", text.empty() ? "" : "\n", describe(flight));
  return text;
}

void AsyncShadow::exit() const {
  if (flights_.empty()) return;
  const Flight& flight = flights_.front();
  fail_at(
      ErrorKind::kInFlight, flight.point, flight.begin,
      fmt::format(
          "the CTA has exited, and no thread waited for the end of {}, which {} its shared {:#x}..{:#x}",
          flight.what, flight.access == Access::kRead ? "reads" : "writes", flight.begin, flight.end - 1));
}

}  // namespace jfa::simulator
