#include "simulator/machine/device_memory.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <new>
#include <utility>

namespace jfa::simulator {
namespace {

constexpr std::uint64_t kRedZoneBytes = 4096;
constexpr std::size_t kRememberedFrees = 1024;

}  // namespace

std::uint64_t DeviceMemory::allocate(std::uint64_t size_bytes, std::string name, std::uint64_t alignment) {
  // Aligned to what was asked for, and to no more.
  std::uint64_t address = (next_address_ + alignment - 1) / alignment * alignment;
  if ((address / alignment & 1) == 0) address += alignment;
  insert(address, size_bytes, std::move(name));
  return address;
}

bool DeviceMemory::place(std::uint64_t address, std::uint64_t size_bytes, std::string name) {
  const auto after = live_.lower_bound(address);
  if (after != live_.end() && after->first < address + size_bytes + kRedZoneBytes) return false;
  if (after != live_.begin()) {
    const Allocation& before = std::prev(after)->second;
    if (address < before.address + before.size_bytes + kRedZoneBytes) return false;
  }
  insert(address, size_bytes, std::move(name));
  return true;
}

void DeviceMemory::insert(std::uint64_t address, std::uint64_t size_bytes, std::string name) {
  Allocation a;
  a.address = address;
  a.size_bytes = size_bytes;
  a.name = name.empty() ? fmt::format("allocation {}", count_) : std::move(name);
  a.data.reset(new std::byte[size_bytes == 0 ? 1 : size_bytes]);
  std::memset(a.data.get(), 0xff, size_bytes);
  ++count_;
  next_address_ = std::max(next_address_, address + size_bytes + kRedZoneBytes);
  allocated_bytes_ += size_bytes;
  live_.emplace(address, std::move(a));
}

bool DeviceMemory::free(std::uint64_t address) {
  const auto it = live_.find(address);
  if (it == live_.end()) return false;
  if (last_ == &it->second) last_ = nullptr;
  allocated_bytes_ -= it->second.size_bytes;
  it->second.data.reset();
  freed_.push_back(std::move(it->second));
  if (freed_.size() > kRememberedFrees) freed_.pop_front();
  live_.erase(it);
  return true;
}

DeviceMemory::Allocation* DeviceMemory::find(std::uint64_t address, std::uint64_t bytes) {
  auto it = live_.upper_bound(address);
  if (it == live_.begin()) return nullptr;
  --it;
  Allocation& a = it->second;
  const std::uint64_t offset = address - a.address;
  return offset <= a.size_bytes && bytes <= a.size_bytes - offset ? &a : nullptr;
}

std::byte* DeviceMemory::host(std::uint64_t address, std::uint64_t bytes) {
  Allocation* a = find(address, bytes);
  return a == nullptr ? nullptr : a->data.get() + (address - a->address);
}

std::byte* DeviceMemory::access_slow(std::uint64_t address, std::uint64_t bytes, std::uint64_t alignment,
                                     bool write, const ProgramPoint& point) {
  const std::string what =
      fmt::format("{} of {} bytes at global {:#x}", write ? "write" : "read", bytes, address);
  Allocation* a = find(address, bytes);
  if (a == nullptr) {
    for (const Allocation& f : freed_)
      if (address - f.address < f.size_bytes)
        fail_at(ErrorKind::kUseAfterFree, point, address,
                fmt::format("{}: {} bytes into {} ({} bytes), which has been freed", what,
                            address - f.address, f.name, f.size_bytes));
    fail_at(ErrorKind::kOutOfBounds, point, address, fmt::format("{}: {}", what, neighbours(address)));
  }
  if ((address & (alignment - 1)) != 0)
    fail_at(ErrorKind::kMisaligned, point, address,
            fmt::format("{} ({} bytes into {}) is not aligned to {}", what, address - a->address, a->name,
                        alignment));
  if (write && a->read_only)
    fail_at(ErrorKind::kOutOfBounds, point, address, fmt::format("{}: {} is constant", what, a->name));
  last_ = a;
  note_access(*a, address - a->address, bytes, write, point);
  return a->data.get() + (address - a->address);
}

void DeviceMemory::begin_grid(bool overlaps) {
  const bool waited = dependency_.waited();
  const bool waited_before_letting_go = dependency_.waited_before_letting_go();
  dependency_.begin_grid(overlaps);
  for (auto& [address, allocation] : live_) {
    const UnfinishedWrites before = std::exchange(allocation.unfinished, {});
    const WriteLog written = std::exchange(allocation.written, {});
    if (!overlaps) continue;
    allocation.unfinished.after_wait = waited ? before.after_wait : before.until_wait;
    allocation.unfinished.until_wait = waited_before_letting_go ? before.after_wait : before.until_wait;
    allocation.unfinished.until_wait.add(written);
  }
}

void DeviceMemory::forget_grid() {
  dependency_.begin_grid(/*overlaps=*/false);
  for (auto& [address, allocation] : live_) {
    allocation.written.clear();
    allocation.unfinished = {};
  }
}

void DeviceMemory::check_dependency(const Allocation& a, std::uint64_t offset, std::uint64_t bytes,
                                    bool write, const ProgramPoint& point) const {
  if (!unfinished(a, point).contains(offset, bytes)) return;
  const bool waited = !dependency_.pending(point.cta);
  fail_at(
      ErrorKind::kInFlight, point, a.address + offset,
      fmt::format("{} of {} bytes at global {:#x} ({} bytes into {}), which {}", write ? "write" : "read",
                  bytes, a.address + offset, offset, a.name,
                  waited ? "an earlier grid may still be writing: the one before this one, which overlaps "
                           "with it, has never executed griddepcontrol.wait"
                         : "a grid before this one writes: this one overlaps with it and has not executed "
                           "griddepcontrol.wait"));
}

std::string DeviceMemory::neighbours(std::uint64_t address) const {
  auto after = live_.upper_bound(address);
  std::string text = "no allocation is there";
  if (after != live_.begin()) {
    const Allocation& before = std::prev(after)->second;
    const std::uint64_t offset = address - before.address;
    if (offset < before.size_bytes)
      return fmt::format("it begins {} bytes into {} ({} bytes) and runs past its end", offset, before.name,
                         before.size_bytes);
    text = fmt::format("{} bytes past the end of {} ({} bytes)", offset - before.size_bytes, before.name,
                       before.size_bytes);
  }
  if (after != live_.end())
    text += fmt::format(", {} bytes before {} ({} bytes)", after->second.address - address,
                        after->second.name, after->second.size_bytes);
  return text;
}

}  // namespace jfa::simulator
