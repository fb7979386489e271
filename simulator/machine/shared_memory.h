// The shared memory of one CTA: bytes, and a shadow byte of flags for each.
#pragma once

#include <cstdint>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "simulator/machine/memory_order.h"
#include "simulator/machine/observer.h"
#include "simulator/machine/report.h"
#include "simulator/ptx/types.h"

namespace jfa::simulator {

class SharedMemory final : public FlightOwner {
 public:
  /// One shadow byte for each byte. The generic proxy may read a byte whose shadow is exactly kInitialised,
  /// apart from kReadInFlight and kEngineRead; and write one that has neither kWriteInFlight, kReadInFlight
  /// nor kBarrierObject. Those of engines have to be ordered, which observers know.
  enum Flag : std::uint8_t {
    kInitialised = 1,
    kWriteInFlight = 2,   // destination of an asynchronous operation that nobody has waited for yet
    kReadInFlight = 4,    // source of one
    kBarrierObject = 8,   // part of a live mbarrier
    kPadding = 16,        // belongs to no variable: between the static ones and the dynamic arena
    kEngineRead = 32,     // an asynchronous operation has read it,
    kEngineWritten = 64,  // or written it, and no thread has written since
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
  void change_flags(std::uint32_t offset, std::uint32_t bytes, std::uint8_t clear, std::uint8_t set);
  /// Whether a byte in the range has one of the flags.
  bool any_flags(std::uint32_t offset, std::uint32_t bytes, std::uint8_t flags) const;
  /// The first byte in the range that lacks kInitialised, or -1.
  std::int64_t first_uninitialised(std::uint32_t offset, std::uint32_t bytes) const;

  // --- The generic proxy. The checks throw on bounds, alignment, initialisation, flight, barrier objects; an
  // access is `bytes` long (a power of two up to 32) and must be aligned to that. And they throw on races.
  void check_read(std::uint32_t offset, std::uint32_t bytes, const ProgramPoint& point,
                  const MemoryOrder& order = {}) {
    if (!quick_check(offset, bytes, kReadMask | kEngineWritten, kInitialised))
      examine_read(offset, bytes, point);
    for (const auto& observer : observers_) observer->read(offset, bytes, point, order);
  }
  /// Also records the bytes as initialised.
  void check_write(std::uint32_t offset, std::uint32_t bytes, const ProgramPoint& point,
                   const MemoryOrder& order = {}) {
    if (!quick_check(offset, bytes, kWriteMask | kEngineRead | kEngineWritten, 0))
      examine_write(offset, bytes, point, order);
    for (const auto& observer : observers_) observer->write(offset, bytes, point, order);
    if (checks_) note_initialised(offset, bytes);
  }

  // --- Engines, at the instruction that issues an operation. `what`: "TMA load", for reports.
  /// Puts the range in flight, for observers. Throws kOutOfBounds, and what they throw. `generic`: cp.async,
  /// which writes through the generic proxy.
  FlightRef issue(MemoryAccess access, std::uint32_t offset, std::uint32_t bytes, const char* what,
                  const ProgramPoint& point, bool generic = false);
  void end_flight(FlightId id, const Epoch& event) override;
  /// What SharedObserver says.
  void check_source(std::uint32_t offset, std::uint32_t bytes, const char* what,
                    const ProgramPoint& point) const;
  bool may_read(std::uint32_t offset, std::uint32_t bytes, const ProgramPoint& point) const;
  /// An engine wrote the range: the bytes are initialised.
  void note_async_write(std::uint32_t offset, std::uint32_t bytes) { set_flags(offset, bytes, kInitialised); }

  /// Who watches.
  const std::vector<std::unique_ptr<SharedObserver>>& observers() const { return observers_; }
  void observe(std::unique_ptr<SharedObserver> observer) { observers_.push_back(std::move(observer)); }

 private:
  static constexpr std::uint8_t kReadMask = kInitialised | kWriteInFlight | kBarrierObject | kPadding;
  static constexpr std::uint8_t kWriteMask = kWriteInFlight | kReadInFlight | kBarrierObject | kPadding;
  static constexpr std::uint32_t kFlagsOfWord = 8;
  static constexpr std::uint64_t kEveryFlag = 0x0101'0101'0101'0101;  // times a flag: that one of eight bytes
  void note_initialised(std::uint32_t offset, std::uint32_t bytes);
  bool quick_check(std::uint32_t offset, std::uint32_t bytes, std::uint8_t mask, std::uint8_t want) const;
  void examine_read(std::uint32_t offset, std::uint32_t bytes, const ProgramPoint& point);
  void examine_write(std::uint32_t offset, std::uint32_t bytes, const ProgramPoint& point,
                     const MemoryOrder& order);
  [[noreturn]] void refuse(std::uint32_t offset, std::uint32_t bytes, bool write,
                           const ProgramPoint& point) const;

  bool checks_;
  std::vector<std::byte> bytes_;
  std::vector<std::uint8_t> flags_;  // and a word more, so that words may be read from any of them
  std::vector<std::unique_ptr<SharedObserver>> observers_;
  FlightId last_flight_ = 0;
};

// --- inline: these run for every lane of every shared access.

inline bool SharedMemory::quick_check(std::uint32_t offset, std::uint32_t bytes, std::uint8_t mask,
                                      std::uint8_t want) const {
  if (offset + std::uint64_t{bytes} > bytes_.size() || (offset & (bytes - 1)) != 0) return false;
  if (offset < kReservedSharedBytes) return false;
  if (!checks_) return true;
  std::uint64_t wrong = 0, flags;
  const std::uint8_t* const first = &flags_[offset];
  if (bytes >= kFlagsOfWord) {
    for (std::uint32_t i = 0; i < bytes; i += kFlagsOfWord) {
      std::memcpy(&flags, first + i, kFlagsOfWord);
      wrong |= (flags & mask * kEveryFlag) ^ want * kEveryFlag;
    }
    return wrong == 0;
  }
  std::memcpy(&flags, first, kFlagsOfWord);
  wrong = (flags & mask * kEveryFlag) ^ want * kEveryFlag;
  return wrong << (kFlagsOfWord - bytes) * 8 == 0;
}

inline void SharedMemory::note_initialised(std::uint32_t offset, std::uint32_t bytes) {
  std::uint8_t* const first = &flags_[offset];
  for (std::uint32_t i = 0; i < bytes; i += kFlagsOfWord) {
    std::uint64_t flags;
    std::memcpy(&flags, first + i, kFlagsOfWord);
    flags |= kInitialised * (bytes < kFlagsOfWord ? kEveryFlag >> (kFlagsOfWord - bytes) * 8 : kEveryFlag);
    std::memcpy(first + i, &flags, kFlagsOfWord);
  }
}

}  // namespace jfa::simulator
