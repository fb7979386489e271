#include "runtime/device.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <map>
#include <mutex>

#include "base/foreign_text.h"
#include "cache/log_record.h"
#include "runtime/call_stream.h"
#include "runtime/environment_switch.h"
#include "runtime/fork_guard.h"
#include "runtime/log.h"
#include "runtime/ranges.h"
#include "runtime/tuned.h"
#ifdef JFA_HAS_SIMULATOR
#include "simulator/driver/simulated_driver.h"
#endif

namespace jfa {
namespace {

constexpr std::string_view kCudaPrefix = "cuda:";
constexpr std::string_view kSimulatedPrefix = "sim:";
// Freed workspaces up to this size stay in the pool when a stream is synchronised.
constexpr cuuint64_t kPoolKeepsBytes = 256ull << 20;

Result<DeviceSource> cuda_source(std::string_view name) {
  const std::string_view digits = name.substr(kCudaPrefix.size());
  int ordinal = -1;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), ordinal);
  if (error != std::errc() || end != digits.data() + digits.size() || ordinal < 0)
    return Status::invalid_argument(
        fmt::format("device '{}': '{}' is not a device number", shown(name), shown(digits)));
  const Result<const DriverTable*> driver = open_cuda_driver();
  if (!driver) return driver.status();
  int count = 0;
  if (Status status = driver_status(**driver, (*driver)->cuDeviceGetCount(&count), "cuDeviceGetCount");
      !status.ok())
    return status;
  if (ordinal >= count)
    return Status::unavailable(fmt::format("device '{}': the driver has {} CUDA device{}", shown(name), count,
                                           count == 1 ? "" : "s"));
  return DeviceSource{fmt::format("cuda:{}", ordinal), *driver, ordinal, ImageKind::kCubin, {}};
}

#ifdef JFA_HAS_SIMULATOR
Result<DeviceSource> simulated_source(std::string_view name) {
  std::string error;
  const DriverTable* driver = simulator::open_simulated_driver(std::string(name), &error);
  if (!driver) return Status::invalid_argument(fmt::format("device '{}': {}", shown(name), error));
  if (Status status = driver_status(*driver, driver->cuInit(0), "cuInit"); !status.ok()) return status;
  return DeviceSource{std::string(name), driver, 0, ImageKind::kPtx,
                      [driver] { return simulator::last_report(driver); }};
}
#else
Result<DeviceSource> simulated_source(std::string_view name) {
  return Status::unsupported(fmt::format(
      "device '{}': this library was built without its simulator (JFA_BUILD_SIMULATOR=OFF)", shown(name)));
}
#endif

Result<DeviceSource> source_of(std::string_view name) {
  if (name.starts_with(kCudaPrefix)) return cuda_source(name);
  if (name.starts_with(kSimulatedPrefix)) return simulated_source(name);
  return Status::invalid_argument(
      fmt::format("device '{}' is neither a GPU such as 'cuda:0' nor a simulated one such as 'sim:sm_100a'",
                  shown(name)));
}

}  // namespace

Device::Impl::Impl(const DeviceSource& source)
    : name(source.name),
      driver(*source.driver),
      image_kind(source.image_kind),
      report(source.report),
      generation(fork_generation()) {}

Device::Impl::~Impl() {
  if (CUmemoryPool owned = pool.load()) (void)driver.cuMemPoolDestroy(owned);
  if (OffsetReports* owned = reports.load()) {
    const ContextGuard guard(driver, context);
    delete owned;
  }
  if (context) (void)driver.cuDevicePrimaryCtxRelease(device);
}

Result<std::shared_ptr<Device::Impl>> Device::Impl::attach(const DeviceSource& source) {
  if (Status status = read_log_environment(); !status.ok()) return status;
  open_ranges();
  auto impl = std::make_shared<Impl>(source);
  const Result<bool> check_offsets = environment_switch("JFA_CHECK_OFFSETS");
  if (!check_offsets) return check_offsets.status();
  impl->check_offsets = *check_offsets;
  const Result<bool> line_info = wants_line_info();
  if (!line_info) return line_info.status();
  impl->line_info = *line_info;
  const DriverTable& driver = impl->driver;
  int major = 0, minor = 0;
  char gpu_name[256] = {};
  CUresult result = driver.cuDeviceGet(&impl->device, source.ordinal);
  if (result == CUDA_SUCCESS) result = driver.cuDeviceGetCount(&impl->gpu_count);
  const auto read = [&](CUdevice_attribute attribute, int* value) {
    if (result == CUDA_SUCCESS) result = driver.cuDeviceGetAttribute(value, attribute, impl->device);
  };
  read(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, &major);
  read(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, &minor);
  read(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, &impl->sm_count);
  if (result == CUDA_SUCCESS) result = driver.cuDeviceGetName(gpu_name, sizeof gpu_name, impl->device);
  if (result != CUDA_SUCCESS) return impl->failure(result, "reading the device's attributes");
  impl->gpu_name = gpu_name;

  const Result<Target> target = target_for_device(major, minor);
  if (!target)
    return Status(target.status().kind(),
                  fmt::format("device '{}' ({}): {}", source.name, gpu_name, target.status().message()));
  impl->target = source.image_kind == ImageKind::kPtx ? virtual_target(*target) : *target;
  impl->target_name = to_string(impl->target);

  result = driver.cuDevicePrimaryCtxRetain(&impl->context, impl->device);
  if (result != CUDA_SUCCESS) return impl->failure(result, "retaining the primary context");
  if (log_wants(LogLevel::kInfo))
    log(LogLevel::kInfo, log_record({"device", impl->name, impl->gpu_name, impl->target_name,
                                     fmt::format("{}", impl->sm_count)}));
  use_environment_tuning(*impl);
  return impl;
}

Status Device::Impl::usable() const {
  if (generation == fork_generation()) return {};
  return Status::unavailable(fmt::format(
      "device '{}' was opened before fork() and cannot be used in the child; fork before the first use "
      "of a device, or start the child with exec",
      name));
}

Status Device::Impl::failure(CUresult result, std::string_view what) const {
  if (result == CUDA_SUCCESS) return {};
  const Status status = driver_status(driver, result, fmt::format("{} on {}", what, name));
  return Status(status.kind(), status.message(), report ? report() : std::string());
}

Status Device::Impl::make_pool() {
  if (pool.load(std::memory_order_relaxed)) return {};
  int supported = 0;
  CUresult result =
      driver.cuDeviceGetAttribute(&supported, CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED, device);
  if (result != CUDA_SUCCESS || !supported) return failure(result, "reading whether it has memory pools");
  const RelaxedCapture relaxed(driver);
  const ContextGuard guard(driver, context);
  CUmemPoolProps properties{};
  properties.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location = {CU_MEM_LOCATION_TYPE_DEVICE, {device}};
  CUmemoryPool made = nullptr;
  result = guard.result() == CUDA_SUCCESS ? driver.cuMemPoolCreate(&made, &properties) : guard.result();
  if (result != CUDA_SUCCESS) return failure(result, "making the workspace pool");
  cuuint64_t keeps = kPoolKeepsBytes;
  result = driver.cuMemPoolSetAttribute(made, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &keeps);
  if (result != CUDA_SUCCESS) {
    (void)driver.cuMemPoolDestroy(made);
    return failure(result, "setting up the workspace pool");
  }
  pool.store(made, std::memory_order_release);
  return {};
}

Status Device::Impl::make_reports() {
  if (reports.load(std::memory_order_relaxed)) return {};
  const RelaxedCapture relaxed(driver);
  const ContextGuard guard(driver, context);
  std::unique_ptr<OffsetReports> made;
  const CUresult result =
      guard.result() == CUDA_SUCCESS ? OffsetReports::make(driver, device, &made) : guard.result();
  if (result != CUDA_SUCCESS) return failure(result, "mapping host memory for what is found in offsets");
  reports.store(made.release(), std::memory_order_release);
  return {};
}

Result<Device> Device::open(std::string_view name) {
  // One device of a name for the process, so that its kernels are loaded once. Never destroyed: at exit the
  // driver may be gone before we are.
  static std::mutex mutex;
  static auto& devices = *new std::map<std::string, std::shared_ptr<Impl>, std::less<>>;
  const HeldLog held;  // a callback may open devices itself
  std::lock_guard lock(mutex);
  if (const auto found = devices.find(name); found != devices.end()) {
    if (Status status = found->second->usable(); !status.ok()) return status;
    return Device(found->second);
  }
  const Result<DeviceSource> source = source_of(name);
  if (!source) return source.status();
  std::shared_ptr<Impl>& device = devices[source->name];
  if (!device) {
    Result<std::shared_ptr<Impl>> attached = Impl::attach(*source);
    if (!attached) {
      devices.erase(source->name);
      return attached.status();
    }
    device = *attached;
  }
  return Device(device);
}

const std::string& Device::name() const { return impl_->name; }
const std::string& Device::target() const { return impl_->target_name; }
bool Device::simulated() const { return impl_->name.starts_with(kSimulatedPrefix); }

Status Device::use_tuning_database(const std::string& path) { return jfa::use_tuning_database(*impl_, path); }

Result<std::uint64_t> Device::allocate(std::uint64_t bytes) {
  CUdeviceptr address = 0;
  Status status = impl_->with_context(fmt::format("allocating {} bytes", bytes), [&] {
    return impl_->driver.cuMemAlloc(&address, std::max<std::uint64_t>(bytes, 1));  // the driver refuses 0
  });
  if (!status.ok()) return status;
  return static_cast<std::uint64_t>(address);
}

Status Device::free(std::uint64_t address) {
  if (address == 0) return {};
  return impl_->with_context("freeing memory", [&] { return impl_->driver.cuMemFree(address); });
}

Status Device::upload(std::uint64_t destination, const void* source, std::uint64_t bytes) {
  if (bytes == 0) return {};
  return impl_->with_context("copying to the device",
                             [&] { return impl_->driver.cuMemcpyHtoD(destination, source, bytes); });
}

Status Device::download(void* destination, std::uint64_t source, std::uint64_t bytes) {
  if (bytes == 0) return {};
  return impl_->with_context("copying from the device",
                             [&] { return impl_->driver.cuMemcpyDtoH(destination, source, bytes); });
}

Status Device::fill(std::uint64_t destination, std::uint8_t byte, std::uint64_t bytes) {
  if (bytes == 0) return {};
  return impl_->with_context("filling memory", [&] {
    const CUresult result = impl_->driver.cuMemsetD8Async(destination, byte, bytes, nullptr);
    return result == CUDA_SUCCESS ? impl_->driver.cuStreamSynchronize(nullptr) : result;
  });
}

Status Device::synchronize(Stream stream) {
  const CUstream cu_stream = static_cast<CUstream>(stream);
  Status waited = impl_->with_context("waiting for the stream",
                                      [&] { return impl_->driver.cuStreamSynchronize(cu_stream); });
  return waited.ok() ? earlier_bad_offset(*impl_, cu_stream) : waited;
}

}  // namespace jfa
