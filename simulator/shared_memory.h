// The shared memory of one CTA: bytes, and a shadow byte of flags for each.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "simulator/report.h"
#include "simulator/types.h"

namespace jfa::simulator {

class SharedMemory {
 public:
  /// One shadow byte for each byte. The generic proxy may read a byte whose shadow is exactly kInitialised,
  /// apart from kReadInFlight; and write one that has neither kWriteInFlight, kReadInFlight nor
  /// kBarrierObject.
  enum Flag : std::uint8_t {
    kInitialised = 1,
    kWriteInFlight = 2,  // destination of an asynchronous operation that nobody has waited for yet
    kReadInFlight = 4,   // source of one
    kBarrierObject = 8,  // part of a live mbarrier
    kPadding = 16,       // belongs to no variable: between the static ones and the dynamic arena
  };

  /// checks = false turns all but the bounds and alignment checks off.
  SharedMemory(std::uint32_t size_bytes, bool checks);

  std::uint32_t size() const { return static_cast<std::uint32_t>(bytes_.size()); }
  bool checks() const { return checks_; }

  // --- Raw access, for engines. Offsets are CTA-relative; bounds are the caller's duty (in_bounds).
  bool in_bounds(std::uint32_t offset, std::uint64_t bytes) const { return offset + bytes <= bytes_.size(); }
  std::byte* data(std::uint32_t offset = 0) { return bytes_.data() + offset; }
  const std::byte* data(std::uint32_t offset = 0) const { return bytes_.data() + offset; }
  std::uint8_t* flags(std::uint32_t offset = 0) { return flags_.data() + offset; }
  const std::uint8_t* flags(std::uint32_t offset = 0) const { return flags_.data() + offset; }
  void set_flags(std::uint32_t offset, std::uint32_t bytes, std::uint8_t flags);
  void clear_flags(std::uint32_t offset, std::uint32_t bytes, std::uint8_t flags);
  /// The first byte in the range that lacks kInitialised, or -1.
  std::int64_t first_uninitialised(std::uint32_t offset, std::uint32_t bytes) const;

  // --- The generic proxy. The checks throw on bounds, alignment, initialisation, flight, barrier objects; an
  // access is `bytes` long (a power of two up to 32) and must be aligned to that.
  void check_read(std::uint32_t offset, std::uint32_t bytes, const ProgramPoint& point) const {
    if (!quick_check(offset, bytes, kInitialised | kWriteInFlight | kBarrierObject | kPadding, kInitialised))
      refuse(offset, bytes, false, point);
  }
  /// Also records the bytes as initialised and written by `thread` (index in the CTA).
  void check_write(std::uint32_t offset, std::uint32_t bytes, int thread, const ProgramPoint& point) {
    if (!quick_check(offset, bytes, kWriteInFlight | kReadInFlight | kBarrierObject | kPadding, 0))
      refuse(offset, bytes, true, point);
    note_write(offset, bytes, thread);
  }

  // --- Proxy fences. A generic write is unfenced until its thread executes fence.proxy.async.
  void fence_proxy_async(int thread) { ++fence_epoch_[static_cast<std::size_t>(thread)]; }
  /// The thread of the CTA with an unfenced generic write in the range (the last writer of each 16 bytes
  /// counts), or -1. `where`, if given, gets the offset.
  int unfenced_writer(std::uint32_t offset, std::uint32_t bytes, std::uint32_t* where = nullptr) const;
  /// An engine wrote the range: no generic write is left to fence there, and the bytes are initialised.
  void note_async_write(std::uint32_t offset, std::uint32_t bytes);

  /// Says which operation has a byte in flight and where it was issued; set by the shadow of in-flight
  /// intervals.
  std::function<std::string(std::uint32_t offset, std::uint32_t bytes)> explain_in_flight;

 private:
  bool quick_check(std::uint32_t offset, std::uint32_t bytes, std::uint8_t mask, std::uint8_t want) const;
  void note_write(std::uint32_t offset, std::uint32_t bytes, int thread);
  [[noreturn]] void refuse(std::uint32_t offset, std::uint32_t bytes, bool write,
                           const ProgramPoint& point) const;

  bool checks_;
  std::vector<std::byte> bytes_;
  std::vector<std::uint8_t> flags_;
  std::vector<std::uint32_t>
      writer_;  // per 16 bytes: thread in bits 10:0 plus 1, its fence epoch above; 0 none
  std::vector<std::uint32_t> fence_epoch_;  // per thread
};

// --- inline: these run for every lane of every shared access.

inline bool SharedMemory::quick_check(std::uint32_t offset, std::uint32_t bytes, std::uint8_t mask,
                                      std::uint8_t want) const {
  if (offset + std::uint64_t{bytes} > bytes_.size() || (offset & (bytes - 1)) != 0) return false;
  if (offset < kReservedSharedBytes) return false;
  if (!checks_) return true;
  std::uint8_t wrong = 0;
  for (std::uint32_t i = 0; i < bytes; ++i)
    wrong |= static_cast<std::uint8_t>((flags_[offset + i] & mask) ^ want);
  return wrong == 0;
}

inline void SharedMemory::note_write(std::uint32_t offset, std::uint32_t bytes, int thread) {
  if (!checks_) return;
  for (std::uint32_t i = 0; i < bytes; ++i) flags_[offset + i] |= kInitialised;
  const auto t = static_cast<std::uint32_t>(thread);
  const std::uint32_t record = (t + 1) | fence_epoch_[t] << 11;
  for (std::uint32_t granule = offset >> 4; granule <= (offset + bytes - 1) >> 4; ++granule)
    writer_[granule] = record;
}

}  // namespace jfa::simulator
