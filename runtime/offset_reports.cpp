#include "runtime/offset_reports.h"

#include <cstring>

namespace jfa {
namespace {

constexpr std::size_t kReports = OffsetReports::kStreams + 1;
}  // namespace

OffsetReports::OffsetReports(const DriverTable& driver, kernel::OffsetReport* host, CUdeviceptr device)
    : driver_(driver), host_(host), device_(device) {
  std::memset(static_cast<void*>(host), 0, kReports * sizeof *host);
}

OffsetReports::~OffsetReports() { (void)driver_.cuMemFreeHost(host_); }

CUresult OffsetReports::make(const DriverTable& driver, CUdevice device,
                             std::unique_ptr<OffsetReports>* reports) {
  int mapped = 0;
  CUresult result = driver.cuDeviceGetAttribute(&mapped, CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY, device);
  if (result != CUDA_SUCCESS || !mapped) return result;
  void* host = nullptr;
  result = driver.cuMemHostAlloc(&host, kReports * sizeof(kernel::OffsetReport), CU_MEMHOSTALLOC_DEVICEMAP);
  if (result != CUDA_SUCCESS) return result;
  CUdeviceptr address = 0;
  result = driver.cuMemHostGetDevicePointer(&address, host, 0);
  if (result != CUDA_SUCCESS) {
    (void)driver.cuMemFreeHost(host);
    return result;
  }
  reports->reset(new OffsetReports(driver, static_cast<kernel::OffsetReport*>(host), address));
  return CUDA_SUCCESS;
}

OffsetReports::Slot OffsetReports::slot_of(std::uint64_t stream_id) {
  std::size_t place = kStreams;
  for (std::size_t i = 0; i < kStreams; ++i) {
    const std::size_t tried = (stream_id + i) % kStreams;
    std::uint64_t owner = ids_[tried].load(std::memory_order_relaxed);
    if (owner == 0 && ids_[tried].compare_exchange_strong(owner, stream_id + 1, std::memory_order_relaxed))
      owner = stream_id + 1;
    if (owner != stream_id + 1) continue;
    place = tried;
    break;
  }
  const CUdeviceptr device = device_ + place * sizeof(kernel::OffsetReport);
  return {host_ + place, reinterpret_cast<kernel::OffsetReport*>(device), place == kStreams};
}

namespace {

using State = std::atomic_ref<kernel::u32>;

// Takes the report if it is there and `wanted` says so. Of several threads one gets it: the device writes
// nothing until the state is kNoReport again.
template <class Wanted>
BadOffset take_if(const OffsetReports::Slot& slot, Wanted wanted) {
  if (!slot.host) return {};
  State state(slot.host->state);
  if (state.load(std::memory_order_acquire) != kernel::kReported) return {};
  kernel::u32 there = kernel::kReported;
  if (!state.compare_exchange_strong(there, kernel::kReportTaken, std::memory_order_acquire)) return {};
  const BadOffset bad{slot.host->name, slot.host->index, slot.host->value};
  const bool take = wanted(bad);
  state.store(take ? kernel::kNoReport : kernel::kReported, std::memory_order_release);
  return take ? bad : BadOffset{};
}

}  // namespace

BadOffset OffsetReports::take(const Slot& slot) {
  return take_if(slot, [](const BadOffset&) { return true; });
}

void OffsetReports::forget(const Slot& slot, const BadOffset& bad) {
  (void)take_if(slot, [&](const BadOffset& found) { return found == bad; });
}

}  // namespace jfa
