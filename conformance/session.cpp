#include "conformance/session.h"

#include <fmt/format.h>

#include <charconv>
#include <cstring>

#include "runtime/driver.h"
#include "simulator/driver/simulated_driver.h"

namespace jfa::conformance {
namespace {

constexpr std::string_view kCuda = "cuda:", kSimulated = "sim:";
constexpr int kDefaultSharedBytes = 48 * 1024;
constexpr unsigned char kUntouched = 0xcd;
constexpr std::size_t kLogBytes = 8192;
constexpr std::size_t kGuardBytes = 256;

}  // namespace

std::string module_text(const TestKernel& kernel, const std::string& target) {
  return fmt::format(".version 8.8\n.target {}\n.address_size 64\n{}", target, kernel.ptx);
}

Status Session::check(CUresult result, const std::string& what) const {
  if (result == CUDA_SUCCESS) return {};
  const Status status = driver_status(*driver_, result, what);
  if (!simulated_) return status;
  return Status(status.kind(), status.message(), simulator::last_report(driver_));
}

Result<std::unique_ptr<Session>> Session::open(const std::string& device) {
  std::unique_ptr<Session> session(new Session);
  int ordinal = 0;
  if (device.starts_with(kSimulated)) {
    std::string error;
    session->driver_ = simulator::open_simulated_driver(device, &error);
    if (session->driver_ == nullptr) return Status::invalid_argument(error);
    session->simulated_ = true;
  } else if (device.starts_with(kCuda)) {
    const char* const end = device.data() + device.size();
    const auto [rest, error] = std::from_chars(device.data() + kCuda.size(), end, ordinal);
    if (error != std::errc() || rest != end)
      return Status::invalid_argument(fmt::format("device {}: not cuda:N", device));
    const Result<const DriverTable*> driver = open_cuda_driver();
    if (!driver) return driver.status();
    session->driver_ = *driver;
  } else {
    return Status::invalid_argument(fmt::format("device {}: neither cuda:N nor sim:…", device));
  }
  const DriverTable& driver = *session->driver_;
  const auto check = [&](CUresult result, const char* what) {
    return session->check(result, fmt::format("device {}: {}", device, what));
  };
  int major = 0, minor = 0, version = 0;
  char name[128] = {};
  if (Status s = check(driver.cuInit(0), "cuInit"); !s.ok()) return s;
  if (Status s = check(driver.cuDeviceGet(&session->device_, ordinal), "cuDeviceGet"); !s.ok()) return s;
  if (Status s = check(driver.cuDeviceGetName(name, sizeof name, session->device_), "cuDeviceGetName");
      !s.ok())
    return s;
  for (const auto& [attribute, value] : {std::pair{CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, &major},
                                         {CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, &minor}})
    if (Status s =
            check(driver.cuDeviceGetAttribute(value, attribute, session->device_), "cuDeviceGetAttribute");
        !s.ok())
      return s;
  if (Status s = check(driver.cuDriverGetVersion(&version), "cuDriverGetVersion"); !s.ok()) return s;
  if (major == 10)
    session->facts_.target = minor == 0 ? "sm_100a" : fmt::format("sm_10{}a", minor);
  else if (major == 9 && minor == 0)
    session->facts_.target = "sm_90a";
  else
    return Status::unsupported(
        fmt::format("device {}: compute capability {}.{}, tests are for 9.0 and 10.x", device, major, minor));
  session->facts_.name = name;
  session->facts_.driver_version =
      session->simulated_ ? "simulator" : fmt::format("{}.{}", version / 1000, version % 1000 / 10);
  if (Status s =
          check(driver.cuDevicePrimaryCtxRetain(&session->context_, session->device_), "making a context");
      !s.ok())
    return s;
  if (Status s = check(driver.cuCtxSetCurrent(session->context_), "cuCtxSetCurrent"); !s.ok()) return s;
  return session;
}

Session::~Session() {
  if (context_ != nullptr) (void)driver_->cuDevicePrimaryCtxRelease(device_);
}

Result<std::vector<std::byte>> Session::run(const TestKernel& kernel) {
  const std::string ptx = module_text(kernel, facts_.target);
  std::string log(kLogBytes, '\0');
  CUjit_option options[] = {CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
  void* values[] = {log.data(), reinterpret_cast<void*>(log.size())};
  CUlibrary library = nullptr;
  const CUresult loaded =
      driver_->cuLibraryLoadData(&library, ptx.c_str(), options, values, 2, nullptr, nullptr, 0);
  if (loaded != CUDA_SUCCESS)
    return Status(ErrorKind::kInvalidArgument,
                  fmt::format("the PTX does not load: {}", describe(*driver_, loaded)), log.c_str());
  std::vector<CUdeviceptr> owned;
  CUkernel function = nullptr;
  Result<std::vector<std::byte>> output = Status::device("not launched");
  if (Status s = check(driver_->cuLibraryGetKernel(&function, library, "test"), "cuLibraryGetKernel");
      !s.ok())
    output = s;
  else
    output = launch(kernel, function, owned);
  for (const CUdeviceptr address : owned) (void)driver_->cuMemFree(address);
  (void)driver_->cuLibraryUnload(library);
  return output;
}

Result<std::vector<std::byte>> Session::launch(const TestKernel& kernel, CUkernel function,
                                               std::vector<CUdeviceptr>& owned) {
  std::vector<std::vector<std::byte>> arguments;
  const auto pass = [&](const void* value, std::size_t bytes) {
    const auto* first = static_cast<const std::byte*>(value);
    arguments.emplace_back(first, first + bytes);
  };
  const auto upload = [&](const std::vector<std::byte>& bytes) {
    CUdeviceptr address = 0;
    Status status = check(driver_->cuMemAlloc(&address, bytes.size() + kGuardBytes), "cuMemAlloc");
    if (!status.ok()) return status;
    owned.push_back(address);
    pass(&address, sizeof address);
    return check(driver_->cuMemcpyHtoD(address, bytes.data(), bytes.size()), "cuMemcpyHtoD");
  };
  std::vector<std::byte> output(kernel.output_bytes, std::byte{kUntouched});
  if (Status s = upload(output); !s.ok()) return s;
  for (const std::vector<std::byte>& input : kernel.inputs)
    if (Status s = upload(input); !s.ok()) return s;
  for (const TensorMap& map : kernel.maps) {
    CUtensorMap encoded;
    const CUdeviceptr base = owned[map.input == kOutput ? 0 : map.input + 1];
    const std::vector<cuuint64_t> extents(map.extents.begin(), map.extents.end());
    std::vector<cuuint64_t> strides(map.strides_bytes.begin(), map.strides_bytes.end());
    strides.push_back(0);  // never read, but a null pointer is refused for rank 1, too
    const std::vector<cuuint32_t> ones(map.extents.size(), 1);
    const CUresult result = driver_->cuTensorMapEncodeTiled(
        &encoded, map.type, static_cast<cuuint32_t>(extents.size()), reinterpret_cast<void*>(base),
        extents.data(), strides.data(), map.box.data(), ones.data(), CU_TENSOR_MAP_INTERLEAVE_NONE,
        map.swizzle, CU_TENSOR_MAP_L2_PROMOTION_NONE, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
    if (Status s = check(result, "cuTensorMapEncodeTiled"); !s.ok()) return s;
    pass(&encoded, sizeof encoded);
  }
  std::vector<void*> pointers;
  for (std::vector<std::byte>& argument : arguments) pointers.push_back(argument.data());

  if (kernel.dynamic_shared_bytes > kDefaultSharedBytes)
    if (Status s = check(
            driver_->cuKernelSetAttribute(CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
                                          static_cast<int>(kernel.dynamic_shared_bytes), function, device_),
            "cuKernelSetAttribute");
        !s.ok())
      return s;
  CUlaunchAttribute cluster{};
  cluster.id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION;
  cluster.value.clusterDim.x = kernel.cluster.x;
  cluster.value.clusterDim.y = kernel.cluster.y;
  cluster.value.clusterDim.z = kernel.cluster.z;
  CUlaunchConfig config{};
  config.gridDimX = kernel.grid.x, config.gridDimY = kernel.grid.y, config.gridDimZ = kernel.grid.z;
  config.blockDimX = kernel.block.x, config.blockDimY = kernel.block.y, config.blockDimZ = kernel.block.z;
  config.sharedMemBytes = kernel.dynamic_shared_bytes;
  config.attrs = &cluster;
  config.numAttrs = kernel.cluster.x * kernel.cluster.y * kernel.cluster.z > 1 ? 1 : 0;
  if (Status s = check(driver_->cuLaunchKernelEx(&config, reinterpret_cast<CUfunction>(function),
                                                 pointers.data(), nullptr),
                       "cuLaunchKernelEx");
      !s.ok())
    return s;
  if (Status s = check(driver_->cuCtxSynchronize(), "the kernel"); !s.ok()) return s;
  if (Status s = check(driver_->cuMemcpyDtoH(output.data(), owned[0], output.size()), "cuMemcpyDtoH");
      !s.ok())
    return s;
  return output;
}

}  // namespace jfa::conformance
