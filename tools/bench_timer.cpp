#include "tools/bench_timer.h"

#include <algorithm>
#include <utility>

namespace jfa::tools {
namespace {

constexpr int kWarmUps = 3;
constexpr std::uint64_t kLeastFlushBytes = std::uint64_t{96} << 20;
constexpr std::uint64_t kCopyBytes = std::uint64_t{1} << 30;
constexpr std::uint64_t kSimulatedCopyBytes = std::uint64_t{1} << 20;

int attribute(const Device& device, CUdevice_attribute which) {
  const Device::Impl& impl = device.impl();
  int value = 0;
  return impl.driver.cuDeviceGetAttribute(&value, which, impl.device) == CUDA_SUCCESS ? value : 0;
}

}  // namespace

BenchTimes::BenchTimes(std::vector<double> times_ms) : times_ms_(std::move(times_ms)) {
  std::sort(times_ms_.begin(), times_ms_.end());
}

double BenchTimes::quantile(double part) const {
  const double position = part * static_cast<double>(times_ms_.size() - 1);
  const auto below = static_cast<std::size_t>(position);
  const std::size_t above = std::min(below + 1, times_ms_.size() - 1);
  return times_ms_[below] + (position - static_cast<double>(below)) * (times_ms_[above] - times_ms_[below]);
}

Result<std::unique_ptr<BenchTimer>> BenchTimer::make(Device& device, int repeats) {
  std::unique_ptr<BenchTimer> timer(new BenchTimer(device, repeats));
  const DriverTable& driver = device.impl().driver;
  Status status = device.impl().with_context("making a stream and events", [&] {
    CUresult result = driver.cuStreamCreate(&timer->stream_, CU_STREAM_NON_BLOCKING);
    if (result == CUDA_SUCCESS) result = driver.cuEventCreate(&timer->start_, CU_EVENT_DEFAULT);
    if (result == CUDA_SUCCESS) result = driver.cuEventCreate(&timer->end_, CU_EVENT_DEFAULT);
    return result;
  });
  if (!status.ok()) return status;
  if (device.simulated()) return timer;  // has no cache to flush
  const auto cache_bytes = static_cast<std::uint64_t>(attribute(device, CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE));
  timer->flush_bytes_ = std::max(kLeastFlushBytes, cache_bytes + cache_bytes / 4);
  Result<DeviceBuffer> flush = DeviceBuffer::allocate(device, timer->flush_bytes_);
  if (!flush) return flush.status();
  timer->flush_ = std::move(*flush);
  return timer;
}

BenchTimer::~BenchTimer() {
  const DriverTable& driver = device_.impl().driver;
  // Nothing can be done about a failure here; an earlier call has reported it.
  (void)device_.impl().with_context("", [&] {
    if (start_) (void)driver.cuEventDestroy(start_);
    if (end_) (void)driver.cuEventDestroy(end_);
    return stream_ ? driver.cuStreamDestroy(stream_) : CUDA_SUCCESS;
  });
}

Result<double> BenchTimer::measure_once_ms(const std::function<Status()>& work) {
  const DriverTable& driver = device_.impl().driver;
  const auto call = [&](auto act) { return device_.impl().with_context("timing", act); };
  // The flush also keeps the device busy while the host enqueues the work.
  Status status = call([&] {
    CUresult result = CUDA_SUCCESS;
    if (flush_bytes_ > 0) result = driver.cuMemsetD8Async(flush_.address(), 0, flush_bytes_, stream_);
    return result == CUDA_SUCCESS ? driver.cuEventRecord(start_, stream_) : result;
  });
  if (status.ok()) status = work();
  float elapsed_ms = 0;
  if (status.ok()) {
    status = call([&] {
      CUresult result = driver.cuEventRecord(end_, stream_);
      if (result == CUDA_SUCCESS) result = driver.cuEventSynchronize(end_);
      return result == CUDA_SUCCESS ? driver.cuEventElapsedTime(&elapsed_ms, start_, end_) : result;
    });
  }
  if (!status.ok()) return status;
  return static_cast<double>(elapsed_ms);
}

Result<BenchTimes> BenchTimer::measure(const std::function<Status()>& work) {
  const int warm_ups = device_.simulated() ? 1 : kWarmUps;
  std::vector<double> times_ms;
  for (int i = 0; i < warm_ups + repeats_; ++i) {
    const Result<double> time_ms = measure_once_ms(work);
    if (!time_ms) return time_ms.status();
    if (i >= warm_ups) times_ms.push_back(*time_ms);
  }
  return BenchTimes(std::move(times_ms));
}

Result<double> BenchTimer::copy_bandwidth() {
  const std::uint64_t bytes = device_.simulated() ? kSimulatedCopyBytes : kCopyBytes;
  const Result<DeviceBuffer> source = DeviceBuffer::allocate(device_, bytes);
  if (!source) return source.status();
  const Result<DeviceBuffer> destination = DeviceBuffer::allocate(device_, bytes);
  if (!destination) return destination.status();
  if (Status status = device_.fill(source->address(), 1, bytes); !status.ok()) return status;
  const DriverTable& driver = device_.impl().driver;
  const Result<BenchTimes> times = measure([&] {
    return device_.impl().with_context("copying", [&] {
      return driver.cuMemcpyDtoDAsync(destination->address(), source->address(), bytes, stream_);
    });
  });
  if (!times) return times.status();
  return 2 * static_cast<double>(bytes) / times->median() / 1e6;
}

double matrix_peak_tflops(const Device& device) {
  // Operations of one multiprocessor in a clock, from the architectures' published figures.
  const bool hopper = attribute(device, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR) == 9;
  const double flops_per_clock = hopper ? 4096 : 8192;
  const double clock_hz = 1e3 * attribute(device, CU_DEVICE_ATTRIBUTE_CLOCK_RATE);
  return attribute(device, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT) * flops_per_clock * clock_hz / 1e12;
}

}  // namespace jfa::tools
