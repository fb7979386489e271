#include "simulator/machine/shared_memory.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "simulator/machine/machine.h"
#include "simulator/machine/vector_clones.h"

namespace jfa::simulator {

namespace {

JFA_VECTOR_CLONES void set_all(std::uint8_t* bytes, std::uint32_t count, std::uint8_t flags) {
  for (std::uint32_t i = 0; i < count; ++i) bytes[i] |= flags;
}
JFA_VECTOR_CLONES void change_all(std::uint8_t* bytes, std::uint32_t count, std::uint8_t keep,
                                  std::uint8_t set) {
  for (std::uint32_t i = 0; i < count; ++i) bytes[i] = static_cast<std::uint8_t>((bytes[i] & keep) | set);
}
JFA_VECTOR_CLONES std::uint8_t common(const std::uint8_t* bytes, std::uint32_t count) {
  std::uint8_t all = 0xff;
  for (std::uint32_t i = 0; i < count; ++i) all &= bytes[i];
  return all;
}
JFA_VECTOR_CLONES std::uint8_t any(const std::uint8_t* bytes, std::uint32_t count) {
  std::uint8_t any = 0;
  for (std::uint32_t i = 0; i < count; ++i) any |= bytes[i];
  return any;
}

}  // namespace

SharedMemory::SharedMemory(std::uint32_t size_bytes, bool checks)
    : checks_(checks), bytes_(size_bytes, std::byte{0xff}), flags_(size_bytes + kFlagsOfWord, 0) {}

void SharedMemory::set_flags(std::uint32_t offset, std::uint32_t bytes, std::uint8_t flags) {
  set_all(flags_.data() + offset, bytes, flags);
}

void SharedMemory::clear_flags(std::uint32_t offset, std::uint32_t bytes, std::uint8_t flags) {
  change_flags(offset, bytes, flags, 0);
}

void SharedMemory::change_flags(std::uint32_t offset, std::uint32_t bytes, std::uint8_t clear,
                                std::uint8_t set) {
  change_all(flags_.data() + offset, bytes, static_cast<std::uint8_t>(~clear), set);
}

bool SharedMemory::any_flags(std::uint32_t offset, std::uint32_t bytes, std::uint8_t flags) const {
  return (any(flags_.data() + offset, bytes) & flags) != 0;
}

std::int64_t SharedMemory::first_uninitialised(std::uint32_t offset, std::uint32_t bytes) const {
  const std::uint8_t* const f = flags_.data() + offset;
  if ((common(f, bytes) & kInitialised) != 0) return -1;
  std::uint32_t i = 0;
  while ((f[i] & kInitialised) != 0) ++i;
  return offset + i;
}

FlightRef SharedMemory::issue(MemoryAccess access, std::uint32_t offset, std::uint32_t bytes,
                              const char* what, const ProgramPoint& point, bool generic) {
  if (offset < kReservedSharedBytes || !in_bounds(offset, bytes))
    fail_at(ErrorKind::kOutOfBounds, point, offset,
            fmt::format("{} of {} bytes at shared {:#x} is outside the CTA's shared memory of {} bytes", what,
                        bytes, offset, size()));
  if (observers_.empty()) return {};
  ++last_flight_;
  for (const auto& observer : observers_)
    observer->issue(last_flight_, access, offset, bytes, what, point, generic);
  return {this, last_flight_};
}

void SharedMemory::end_flight(FlightId id, const Epoch& event) {
  if (id == 0) return;
  for (const auto& observer : observers_) observer->end_flight(id, event);
}

void SharedMemory::check_source(std::uint32_t offset, std::uint32_t bytes, const char* what,
                                const ProgramPoint& point) const {
  for (const auto& observer : observers_) observer->check_source(offset, bytes, what, point);
}

bool SharedMemory::may_read(std::uint32_t offset, std::uint32_t bytes, const ProgramPoint& point) const {
  return std::all_of(observers_.begin(), observers_.end(),
                     [&](const auto& observer) { return observer->may_read(offset, bytes, point); });
}

// Bytes that an engine has touched: all else must be right, and the engine be ordered before the thread.
void SharedMemory::examine_read(std::uint32_t offset, std::uint32_t bytes, const ProgramPoint& point) {
  if (!quick_check(offset, bytes, kReadMask, kInitialised)) refuse(offset, bytes, false, point);
  for (const auto& observer : observers_) observer->check_engines(MemoryAccess::kRead, offset, bytes, point);
}

void SharedMemory::examine_write(std::uint32_t offset, std::uint32_t bytes, const ProgramPoint& point,
                                 const MemoryOrder& order) {
  if (!quick_check(offset, bytes, kWriteMask, 0)) refuse(offset, bytes, true, point);
  for (const auto& observer : observers_) observer->check_engines(MemoryAccess::kWrite, offset, bytes, point);
  if (order.strong)
    for (const auto& observer : observers_)
      if (!observer->replaces_engines(offset, bytes, point)) return;
  clear_flags(offset, bytes, kEngineRead | kEngineWritten);
}

void SharedMemory::refuse(std::uint32_t offset, std::uint32_t bytes, bool write,
                          const ProgramPoint& point) const {
  const char* verb = write ? "write" : "read";
  const std::string symbol = point.cta != nullptr ? point.cta->shared_symbol(offset) : std::string();
  const std::string what = fmt::format("{} of {} bytes at shared {:#x}{}", verb, bytes, offset,
                                       symbol.empty() ? "" : " (" + symbol + ")");
  if (offset + std::uint64_t{bytes} > bytes_.size())
    fail_at(ErrorKind::kOutOfBounds, point, offset,
            fmt::format("{}: the CTA has shared memory up to {:#x}", what, bytes_.size()));
  if (offset < kReservedSharedBytes)
    fail_at(ErrorKind::kOutOfBounds, point, offset,
            fmt::format("{}: the first {} bytes belong to the system", what, kReservedSharedBytes));
  if ((offset & (bytes - 1)) != 0)
    fail_at(ErrorKind::kMisaligned, point, offset, fmt::format("{} is not aligned to {}", what, bytes));
  std::uint8_t any = 0;
  for (std::uint32_t i = 0; i < bytes; ++i) any |= flags_[offset + i];
  if ((any & kPadding) != 0)
    fail_at(ErrorKind::kOutOfBounds, point, offset, fmt::format("{}: no variable is there", what));
  if ((any & kBarrierObject) != 0)
    fail_at(ErrorKind::kBarrier, point, offset, fmt::format("{} touches a live mbarrier", what));
  if ((any & (kWriteInFlight | kReadInFlight)) != 0 && (write || (any & kWriteInFlight) != 0)) {
    const bool destination = (any & kWriteInFlight) != 0;
    std::string flights;
    for (const auto& observer : observers_) flights += observer->explain(offset, bytes);
    fail_at(ErrorKind::kInFlight, point, offset,
            fmt::format("{} touches the {} of an asynchronous operation in flight", what,
                        destination ? "destination" : "source"),
            flights);
  }
  fail_at(ErrorKind::kUninitialised, point, offset, fmt::format("{}: nothing has been written there", what));
}

}  // namespace jfa::simulator
