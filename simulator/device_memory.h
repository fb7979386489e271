// Global memory of the simulated device: allocations with red zones between them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <string>

#include "simulator/report.h"

namespace jfa::simulator {

/// Addresses are made up (deterministic, never reused), so a stray pointer of the host is never valid here.
/// Not thread-safe: the driver holds its lock.
class DeviceMemory {
 public:
  struct Allocation {
    std::uint64_t address = 0;
    std::uint64_t size_bytes = 0;
    std::string name;                   // for reports: "allocation 7" or a module's variable
    bool read_only = false;             // .const variables
    std::unique_ptr<std::byte[]> data;  // null once freed
  };

  DeviceMemory() = default;

  /// Fresh bytes are poisoned (0xff: a NaN in every float type). Size 0 gets a valid address of its own.
  /// alignment: a power of two; what the driver gives is 512.
  std::uint64_t allocate(std::uint64_t size_bytes, std::string name = {}, std::uint64_t alignment = 512);
  /// An allocation at an address that was given out before, by this memory or another. False if it or its red
  /// zones would meet a live one.
  bool place(std::uint64_t address, std::uint64_t size_bytes, std::string name);
  /// False if the address is not the start of a live allocation.
  bool free(std::uint64_t address);
  /// The live allocation that holds [address, address + bytes), or null.
  Allocation* find(std::uint64_t address, std::uint64_t bytes = 1);
  /// Host pointer to the range, or null if it is not wholly inside one live allocation.
  std::byte* host(std::uint64_t address, std::uint64_t bytes);
  std::uint64_t allocated_bytes() const { return allocated_bytes_; }

  // --- Accesses of a running kernel: throw on anything outside a live allocation, or misaligned.
  /// Host pointer to the range; alignment in bytes (0 or 1: any).
  std::byte* access(std::uint64_t address, std::uint64_t bytes, std::uint64_t alignment, bool write,
                    const ProgramPoint& point) {
    if (last_ && address - last_->address < last_->size_bytes &&
        address - last_->address + bytes <= last_->size_bytes && (address & (alignment - 1)) == 0 &&
        !(write && last_->read_only))
      return last_->data.get() + (address - last_->address);
    return access_slow(address, bytes, alignment, write, point);
  }

 private:
  void insert(std::uint64_t address, std::uint64_t size_bytes, std::string name);
  std::byte* access_slow(std::uint64_t address, std::uint64_t bytes, std::uint64_t alignment, bool write,
                         const ProgramPoint& point);
  std::string neighbours(std::uint64_t address) const;

  std::map<std::uint64_t, Allocation> live_;
  std::deque<Allocation> freed_;  // the last few, for use-after-free reports
  Allocation* last_ = nullptr;    // where the last access fell
  std::uint64_t next_address_ = 0x10'0000'0000;
  std::uint64_t allocated_bytes_ = 0;
  int count_ = 0;
};

}  // namespace jfa::simulator
