// Global memory of the simulated device: allocations with red zones between them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <string>

#include "simulator/machine/grid_dependency.h"
#include "simulator/machine/report.h"

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
    WriteLog written;                   // by the running grid
    UnfinishedWrites unfinished;        // by those before it
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

  /// A grid begins. overlaps: with the one before it, whose writes it may touch only after
  /// griddepcontrol.wait.
  void begin_grid(bool overlaps);
  /// Something that is not a grid comes next in the stream: the grid after it overlaps with none.
  void forget_grid();
  void meet_grid_dependency(const Cta* cta) { dependency_.meet(cta); }
  void let_dependents_go(const Cta* cta) { dependency_.let_go(cta); }

  // --- Accesses of a running kernel: throw on anything outside a live allocation, or misaligned.
  /// Host pointer to the range; alignment in bytes (0 or 1: any).
  std::byte* access(std::uint64_t address, std::uint64_t bytes, std::uint64_t alignment, bool write,
                    const ProgramPoint& point) {
    if (last_ && address - last_->address < last_->size_bytes &&
        address - last_->address + bytes <= last_->size_bytes && (address & (alignment - 1)) == 0 &&
        !(write && last_->read_only)) {
      note_access(*last_, address - last_->address, bytes, write, point);
      return last_->data.get() + (address - last_->address);
    }
    return access_slow(address, bytes, alignment, write, point);
  }

 private:
  void note_access(Allocation& a, std::uint64_t offset, std::uint64_t bytes, bool write,
                   const ProgramPoint& point) {
    if (dependency_.overlaps() && !unfinished(a, point).empty())
      check_dependency(a, offset, bytes, write, point);
    if (write) a.written.mark(offset, bytes, a.size_bytes);
  }
  // What the CTA may not touch yet.
  const WriteLog& unfinished(const Allocation& a, const ProgramPoint& point) const {
    return dependency_.pending(point.cta) ? a.unfinished.until_wait : a.unfinished.after_wait;
  }
  void check_dependency(const Allocation& a, std::uint64_t offset, std::uint64_t bytes, bool write,
                        const ProgramPoint& point) const;
  void insert(std::uint64_t address, std::uint64_t size_bytes, std::string name);
  std::byte* access_slow(std::uint64_t address, std::uint64_t bytes, std::uint64_t alignment, bool write,
                         const ProgramPoint& point);
  std::string neighbours(std::uint64_t address) const;

  std::map<std::uint64_t, Allocation> live_;
  std::deque<Allocation> freed_;  // the last few, for use-after-free reports
  Allocation* last_ = nullptr;    // where the last access fell
  GridDependency dependency_;
  std::uint64_t next_address_ = 0x10'0000'0000;
  std::uint64_t allocated_bytes_ = 0;
  int count_ = 0;
};

}  // namespace jfa::simulator
