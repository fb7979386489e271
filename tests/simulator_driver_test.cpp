// The simulated device's driver table: the driver API's contracts, and kernels run through it.
#include <doctest/doctest.h>

#include <array>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "simulator/driver_table.h"

using namespace jfa;

namespace {

// out[i] = a[i] + b[i] for i < n.
constexpr const char* kVectorAdd = R"(
.version 9.0
.target sm_100f
.address_size 64
.visible .entry vector_add(.param .u64 .ptr .align 1 out, .param .u64 .ptr .align 1 a,
                           .param .u64 .ptr .align 1 b, .param .u32 n)
{
  .reg .pred %p<2>;
  .reg .b32 %r<8>;
  .reg .b64 %rd<8>;
  ld.param.b64 %rd1, [out];
  ld.param.b64 %rd2, [a];
  ld.param.b64 %rd3, [b];
  ld.param.b32 %r1, [n];
  mov.u32 %r2, %ctaid.x;
  mov.u32 %r3, %ntid.x;
  mov.u32 %r4, %tid.x;
  mad.lo.s32 %r5, %r2, %r3, %r4;
  setp.ge.s32 %p1, %r5, %r1;
  @%p1 bra DONE;
  mul.wide.s32 %rd4, %r5, 4;
  add.s64 %rd5, %rd2, %rd4;
  ld.global.b32 %r6, [%rd5];
  add.s64 %rd5, %rd3, %rd4;
  ld.global.b32 %r7, [%rd5];
  add.s32 %r6, %r6, %r7;
  add.s64 %rd5, %rd1, %rd4;
  st.global.b32 [%rd5], %r6;
DONE:
  ret;
}
.visible .entry clustered()
.reqnctapercluster 2, 1, 1
.maxntid 64
{
  .shared .align 16 .b8 scratch[2048];
  .reg .b32 %t;
  .reg .pred %first;
  mov.u32 %t, %tid.x;
  setp.eq.u32 %first, %t, 0;
  @%first st.shared.b32 [scratch+16], 0;
  ret;
}
)";

const DriverTable& table(const std::string& name = "sim:sm_100a") {
  std::string error;
  const DriverTable* driver = simulator::open_simulated_driver(name, &error);
  REQUIRE_MESSAGE(driver != nullptr, error);
  return *driver;
}

// The device's primary context, current on this thread.
class Context {
 public:
  explicit Context(const DriverTable& driver) : driver_(driver) {
    REQUIRE(driver.cuInit(0) == CUDA_SUCCESS);
    REQUIRE(driver.cuDevicePrimaryCtxRetain(&context_, 0) == CUDA_SUCCESS);
    REQUIRE(driver.cuCtxPushCurrent(context_) == CUDA_SUCCESS);
  }
  ~Context() {
    driver_.cuCtxPopCurrent(nullptr);
    driver_.cuDevicePrimaryCtxRelease(0);
  }
  CUcontext get() const { return context_; }

 private:
  const DriverTable& driver_;
  CUcontext context_ = nullptr;
};

CUlibrary load(const DriverTable& driver, const char* ptx) {
  CUlibrary library = nullptr;
  const CUresult result = driver.cuLibraryLoadData(&library, ptx, nullptr, nullptr, 0, nullptr, nullptr, 0);
  REQUIRE_MESSAGE(result == CUDA_SUCCESS, simulator::last_report(&driver));
  return library;
}

CUkernel kernel_of(const DriverTable& driver, CUlibrary library, const char* name) {
  CUkernel kernel = nullptr;
  REQUIRE(driver.cuLibraryGetKernel(&kernel, library, name) == CUDA_SUCCESS);
  return kernel;
}

CUlaunchConfig config_of(unsigned int grid, unsigned int block, CUstream stream = nullptr) {
  CUlaunchConfig config{};
  config.gridDimX = grid;
  config.gridDimY = config.gridDimZ = 1;
  config.blockDimX = block;
  config.blockDimY = config.blockDimZ = 1;
  config.hStream = stream;
  return config;
}

bool reported(const DriverTable& driver, const char* part) {
  const std::string report = simulator::last_report(&driver);
  const bool found = report.find(part) != std::string::npos;
  if (!found) MESSAGE(report);
  return found;
}

}  // namespace

TEST_CASE("the name of a simulated device, and what is wrong with it") {
  const auto error_of = [](const char* name) {
    std::string error;
    CHECK(simulator::open_simulated_driver(name, &error) == nullptr);
    return error;
  };
  const auto has = [](const std::string& text, const char* part) {
    return text.find(part) != std::string::npos;
  };
  CHECK(has(error_of("cuda:0"), "cuda:0"));
  CHECK(has(error_of("sim:sm_80"), "sm_80"));
  CHECK(has(error_of("sim:sm_90"), "sm_90a"));
  CHECK(has(error_of("sim:sm_100a?sms=0"), "sms=0"));
  CHECK(has(error_of("sim:sm_100a?sms=two"), "sms=two"));
  CHECK(has(error_of("sim:sm_100a?schedule=fast"), "schedule=fast"));
  CHECK(has(error_of("sim:sm_100a?seed=-1"), "seed=-1"));
  CHECK(has(error_of("sim:sm_100a?checks=yes"), "checks=yes"));
  CHECK(has(error_of("sim:sm_100a?sms=2&color=red"), "color=red"));
  CHECK(has(error_of("sim:sm_100a?"), "option=value"));
  CHECK(simulator::open_simulated_driver("sim:sm_80", nullptr) == nullptr);

  CHECK(&table("sim:sm_100a?sms=3") == &table("sim:sm_100a?sms=3"));
  CHECK(&table("sim:sm_100a?sms=3") != &table("sim:sm_100a"));
  CHECK(&table("sim:sm_100f?sms=5&schedule=random&seed=18446744073709551615&checks=0") != nullptr);
}

TEST_CASE("before cuInit, and without a context") {
  const DriverTable& driver = table("sim:sm_100a?sms=7");
  int count = 0;
  CHECK(driver.cuDeviceGetCount(&count) == CUDA_ERROR_NOT_INITIALIZED);
  CUcontext context = nullptr;
  CHECK(driver.cuDevicePrimaryCtxRetain(&context, 0) == CUDA_ERROR_NOT_INITIALIZED);
  CHECK(driver.cuDriverGetVersion(&count) == CUDA_SUCCESS);
  CHECK(count == 13000);
  CHECK(driver.cuInit(1) == CUDA_ERROR_INVALID_VALUE);
  CHECK(driver.cuInit(0) == CUDA_SUCCESS);
  CHECK(driver.cuDeviceGetCount(&count) == CUDA_SUCCESS);
  CHECK(count == 1);
  CUdevice device = -1;
  CHECK(driver.cuDeviceGet(&device, 1) == CUDA_ERROR_INVALID_DEVICE);
  CHECK(driver.cuDeviceGet(nullptr, 0) == CUDA_ERROR_INVALID_VALUE);
  CHECK(driver.cuDeviceGet(&device, 0) == CUDA_SUCCESS);
  CHECK(device == 0);

  CUdeviceptr address = 0;
  CHECK(driver.cuMemAlloc(&address, 16) == CUDA_ERROR_INVALID_CONTEXT);
  CHECK(driver.cuCtxSynchronize() == CUDA_ERROR_INVALID_CONTEXT);
  CHECK(driver.cuCtxPopCurrent(&context) == CUDA_ERROR_INVALID_CONTEXT);
  CHECK(driver.cuDevicePrimaryCtxRelease(0) == CUDA_ERROR_INVALID_CONTEXT);
  {
    const Context current(driver);
    CHECK(driver.cuCtxGetCurrent(&context) == CUDA_SUCCESS);
    CHECK(context == current.get());
    CHECK(driver.cuCtxGetDevice(&device) == CUDA_SUCCESS);
    CHECK(driver.cuMemAlloc(&address, 16) == CUDA_SUCCESS);
    std::thread([&] {
      CUcontext other = current.get();
      CHECK(driver.cuCtxGetCurrent(&other) == CUDA_SUCCESS);
      CHECK(other == nullptr);  // current is a matter of the thread
      CHECK(driver.cuCtxSynchronize() == CUDA_ERROR_INVALID_CONTEXT);
      CHECK(driver.cuCtxSetCurrent(current.get()) == CUDA_SUCCESS);
      CHECK(driver.cuCtxSynchronize() == CUDA_SUCCESS);
    }).join();
    CHECK(driver.cuCtxSetCurrent(nullptr) == CUDA_SUCCESS);
    CHECK(driver.cuCtxGetCurrent(&context) == CUDA_SUCCESS);
    CHECK(context == nullptr);
    CHECK(driver.cuCtxPushCurrent(reinterpret_cast<CUcontext>(&device)) == CUDA_ERROR_INVALID_CONTEXT);
    CHECK(driver.cuCtxPushCurrent(current.get()) == CUDA_SUCCESS);
  }
  CHECK(driver.cuCtxPushCurrent(context) == CUDA_ERROR_INVALID_CONTEXT);
  const Context again(driver);
  CHECK(driver.cuMemFree(address) == CUDA_ERROR_INVALID_VALUE);  // went with the first context
}

TEST_CASE("what the device says about itself") {
  const DriverTable& driver = table("sim:sm_100a?sms=3");
  REQUIRE(driver.cuInit(0) == CUDA_SUCCESS);
  const auto attribute = [&](CUdevice_attribute which) {
    int value = -1;
    CHECK(driver.cuDeviceGetAttribute(&value, which, 0) == CUDA_SUCCESS);
    return value;
  };
  CHECK(attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR) == 10);
  CHECK(attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR) == 0);
  CHECK(attribute(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT) == 3);
  CHECK(attribute(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN) == 232448);
  CHECK(attribute(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR) == 233472);
  CHECK(attribute(CU_DEVICE_ATTRIBUTE_WARP_SIZE) == 32);
  int value = 0;
  CHECK(driver.cuDeviceGetAttribute(&value, CU_DEVICE_ATTRIBUTE_MAX, 0) == CUDA_ERROR_INVALID_VALUE);
  CHECK(driver.cuDeviceGetAttribute(&value, CU_DEVICE_ATTRIBUTE_WARP_SIZE, 1) == CUDA_ERROR_INVALID_DEVICE);
  char name[64];
  CHECK(driver.cuDeviceGetName(name, sizeof(name), 0) == CUDA_SUCCESS);
  CHECK(std::string(name) == "Simulated Blackwell (sim:sm_100a?sms=3)");
  CHECK(driver.cuDeviceGetName(name, 10, 0) == CUDA_SUCCESS);
  CHECK(std::string(name) == "Simulated");
  size_t bytes = 0;
  CHECK(driver.cuDeviceTotalMem(&bytes, 0) == CUDA_SUCCESS);
  CHECK(bytes == size_t{16} << 30);
  const char* text = nullptr;
  CHECK(driver.cuGetErrorName(CUDA_ERROR_INVALID_PTX, &text) == CUDA_SUCCESS);
  CHECK(std::string(text) == "CUDA_ERROR_INVALID_PTX");
  CHECK(driver.cuGetErrorString(CUDA_ERROR_OUT_OF_MEMORY, &text) == CUDA_SUCCESS);
  CHECK(std::string(text) == "out of memory");
  CHECK(driver.cuGetErrorName(static_cast<CUresult>(12345), &text) == CUDA_ERROR_INVALID_VALUE);
  CHECK(text == nullptr);
}

TEST_CASE("memory: allocations, copies and fills stay inside live allocations") {
  const DriverTable& driver = table();
  const Context context(driver);
  CUdeviceptr a = 0;
  CHECK(driver.cuMemAlloc(nullptr, 16) == CUDA_ERROR_INVALID_VALUE);
  CHECK(driver.cuMemAlloc(&a, 0) == CUDA_ERROR_INVALID_VALUE);
  CHECK(driver.cuMemAlloc(&a, size_t{17} << 30) == CUDA_ERROR_OUT_OF_MEMORY);
  CHECK(driver.cuMemAlloc(&a, ~size_t{0}) == CUDA_ERROR_OUT_OF_MEMORY);
  REQUIRE(driver.cuMemAlloc(&a, 64) == CUDA_SUCCESS);
  CHECK(a % 256 == 0);

  std::array<std::uint32_t, 16> host{};
  for (std::uint32_t i = 0; i < 16; ++i) host[i] = i;
  CHECK(driver.cuMemcpyHtoD(a, host.data(), 64) == CUDA_SUCCESS);
  CHECK(driver.cuMemcpyHtoD(a, host.data(), 65) == CUDA_ERROR_INVALID_VALUE);
  CHECK(driver.cuMemcpyHtoD(a + 4, host.data(), 64) == CUDA_ERROR_INVALID_VALUE);
  CHECK(driver.cuMemcpyHtoD(a, nullptr, 4) == CUDA_ERROR_INVALID_VALUE);
  CHECK(driver.cuMemcpyHtoD(0, nullptr, 0) == CUDA_SUCCESS);
  CHECK(driver.cuMemsetD32Async(a + 8, 0xabcdef01, 2, nullptr) == CUDA_SUCCESS);
  CHECK(driver.cuMemsetD32Async(a + 2, 0, 1, nullptr) == CUDA_ERROR_INVALID_VALUE);
  CHECK(driver.cuMemsetD32Async(a, 0, ~size_t{0} / 4 + 2, nullptr) == CUDA_ERROR_INVALID_VALUE);
  CHECK(driver.cuMemsetD8Async(a + 63, 7, 1, nullptr) == CUDA_SUCCESS);
  CHECK(driver.cuMemsetD8Async(a + 63, 7, 2, nullptr) == CUDA_ERROR_INVALID_VALUE);
  CHECK(driver.cuMemcpyDtoDAsync(a + 32, a, 16, nullptr) == CUDA_SUCCESS);
  std::array<std::uint32_t, 16> back{};
  CHECK(driver.cuMemcpyDtoH(back.data(), a, 64) == CUDA_SUCCESS);
  CHECK(back == std::array<std::uint32_t, 16>{0, 1, 0xabcdef01, 0xabcdef01, 4, 5, 6, 7, 0, 1, 0xabcdef01,
                                              0xabcdef01, 12, 13, 14, 0x0700000f});

  unsigned int type = 0;
  CHECK(driver.cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, a + 63) == CUDA_SUCCESS);
  CHECK(type == CU_MEMORYTYPE_DEVICE);
  CUdeviceptr start = 0;
  CHECK(driver.cuPointerGetAttribute(&start, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, a + 9) == CUDA_SUCCESS);
  CHECK(start == a);
  size_t size = 0;
  CHECK(driver.cuPointerGetAttribute(&size, CU_POINTER_ATTRIBUTE_RANGE_SIZE, a) == CUDA_SUCCESS);
  CHECK(size == 64);
  CHECK(driver.cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
                                     reinterpret_cast<CUdeviceptr>(host.data())) == CUDA_ERROR_INVALID_VALUE);

  CHECK(driver.cuMemFree(a + 4) == CUDA_ERROR_INVALID_VALUE);
  CHECK(driver.cuMemFree(a) == CUDA_SUCCESS);
  CHECK(driver.cuMemFree(a) == CUDA_ERROR_INVALID_VALUE);
  CHECK(driver.cuMemFree(0) == CUDA_SUCCESS);
  CHECK(driver.cuMemcpyDtoH(back.data(), a, 4) == CUDA_ERROR_INVALID_VALUE);
}

TEST_CASE("memory pools") {
  const DriverTable& driver = table();
  const Context context(driver);
  CUmemPoolProps properties{};
  properties.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  CUmemoryPool pool = nullptr;
  properties.location.id = 1;
  CHECK(driver.cuMemPoolCreate(&pool, &properties) == CUDA_ERROR_INVALID_VALUE);
  properties.location.id = 0;
  REQUIRE(driver.cuMemPoolCreate(&pool, &properties) == CUDA_SUCCESS);
  cuuint64_t threshold = ~cuuint64_t{0};
  CHECK(driver.cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &threshold) == CUDA_SUCCESS);
  CHECK(driver.cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &threshold) ==
        CUDA_ERROR_INVALID_VALUE);
  CUdeviceptr address = 0;
  CHECK(driver.cuMemAllocFromPoolAsync(&address, 100, pool, nullptr) == CUDA_SUCCESS);
  CHECK(driver.cuMemFreeAsync(address, nullptr) == CUDA_SUCCESS);
  CHECK(driver.cuMemFreeAsync(address, nullptr) == CUDA_ERROR_INVALID_VALUE);
  CHECK(driver.cuMemAllocAsync(&address, 100, reinterpret_cast<CUstream>(&pool)) ==
        CUDA_ERROR_INVALID_HANDLE);
  CHECK(driver.cuMemPoolDestroy(pool) == CUDA_SUCCESS);
  CHECK(driver.cuMemPoolDestroy(pool) == CUDA_ERROR_INVALID_VALUE);
}

TEST_CASE("streams and events") {
  const DriverTable& driver = table();
  const Context context(driver);
  CUstream stream = nullptr;
  CHECK(driver.cuStreamCreate(&stream, 2) == CUDA_ERROR_INVALID_VALUE);
  REQUIRE(driver.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING) == CUDA_SUCCESS);
  CUcontext owner = nullptr;
  CHECK(driver.cuStreamGetCtx(stream, &owner) == CUDA_SUCCESS);
  CHECK(owner == context.get());
  CHECK(driver.cuStreamGetCtx(nullptr, &owner) == CUDA_SUCCESS);
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_ACTIVE;
  CHECK(driver.cuStreamIsCapturing(stream, &status) == CUDA_SUCCESS);
  CHECK(status == CU_STREAM_CAPTURE_STATUS_NONE);
  CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
  CHECK(driver.cuThreadExchangeStreamCaptureMode(&mode) == CUDA_SUCCESS);
  CHECK(mode == CU_STREAM_CAPTURE_MODE_GLOBAL);
  CHECK(driver.cuThreadExchangeStreamCaptureMode(&mode) == CUDA_SUCCESS);
  CHECK(mode == CU_STREAM_CAPTURE_MODE_RELAXED);

  CUevent start = nullptr;
  CUevent end = nullptr;
  REQUIRE(driver.cuEventCreate(&start, CU_EVENT_DEFAULT) == CUDA_SUCCESS);
  REQUIRE(driver.cuEventCreate(&end, CU_EVENT_DEFAULT) == CUDA_SUCCESS);
  float milliseconds = -1;
  CHECK(driver.cuEventElapsedTime(&milliseconds, start, end) == CUDA_ERROR_INVALID_HANDLE);
  CHECK(driver.cuEventRecord(start, stream) == CUDA_SUCCESS);
  CHECK(driver.cuEventRecord(end, stream) == CUDA_SUCCESS);
  CHECK(driver.cuEventSynchronize(end) == CUDA_SUCCESS);
  CHECK(driver.cuEventElapsedTime(&milliseconds, start, end) == CUDA_SUCCESS);
  CHECK(milliseconds >= 0);
  CHECK(driver.cuEventDestroy(end) == CUDA_SUCCESS);
  CHECK(driver.cuEventDestroy(end) == CUDA_ERROR_INVALID_HANDLE);
  CHECK(driver.cuEventRecord(end, stream) == CUDA_ERROR_INVALID_HANDLE);
  CHECK(driver.cuStreamDestroy(stream) == CUDA_SUCCESS);
  CHECK(driver.cuStreamSynchronize(stream) == CUDA_ERROR_INVALID_HANDLE);
  CHECK(driver.cuStreamDestroy(stream) == CUDA_ERROR_INVALID_HANDLE);
  CHECK(driver.cuStreamDestroy(nullptr) == CUDA_ERROR_INVALID_HANDLE);
}

TEST_CASE("libraries: PTX only, of this family, with every instruction known") {
  const DriverTable& driver = table();
  const Context context(driver);
  CUlibrary library = nullptr;
  const auto load_error = [&](const DriverTable& on, const std::string& image) {
    return on.cuLibraryLoadData(&library, image.c_str(), nullptr, nullptr, 0, nullptr, nullptr, 0);
  };
  CHECK(load_error(driver,
                   "\x7f"
                   "ELF\x02\x01") == CUDA_ERROR_NO_BINARY_FOR_GPU);
  CHECK(reported(driver, "PTX text only"));
  CHECK(load_error(driver, "") == CUDA_ERROR_INVALID_IMAGE);
  CHECK(load_error(driver, "hello") == CUDA_ERROR_INVALID_IMAGE);
  std::string ptx = kVectorAdd;
  CHECK(load_error(driver, ptx.replace(ptx.find("sm_100f"), 7, "sm_90a ")) == CUDA_ERROR_NO_BINARY_FOR_GPU);
  CHECK(reported(driver, "sm_90a"));
  ptx = kVectorAdd;
  ptx.replace(ptx.find("sm_100f"), 7, "sm_100a");
  CHECK(load_error(driver, ptx) == CUDA_SUCCESS);
  const DriverTable& family = table("sim:sm_100f");
  REQUIRE(family.cuInit(0) == CUDA_SUCCESS);
  CHECK(load_error(family, ptx) == CUDA_ERROR_NO_BINARY_FOR_GPU);
  CHECK(load_error(family, kVectorAdd) == CUDA_SUCCESS);

  ptx = kVectorAdd;
  ptx.replace(ptx.find("add.s32"), 7, "adx.s32");
  std::array<char, 256> log{};
  CUjit_option options[] = {CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
  void* values[] = {log.data(), reinterpret_cast<void*>(log.size())};
  CHECK(driver.cuLibraryLoadData(&library, ptx.c_str(), options, values, 2, nullptr, nullptr, 0) ==
        CUDA_ERROR_INVALID_PTX);
  CHECK(std::string(log.data()).find("adx.s32") != std::string::npos);
  CHECK(reinterpret_cast<std::size_t>(values[1]) == std::strlen(log.data()));
  CHECK(reported(driver, "adx.s32"));

  library = load(driver, kVectorAdd);
  CUkernel kernel = nullptr;
  CHECK(driver.cuLibraryGetKernel(&kernel, library, "vector_sub") == CUDA_ERROR_NOT_FOUND);
  CHECK(driver.cuLibraryGetKernel(nullptr, library, "vector_add") == CUDA_ERROR_INVALID_VALUE);
  kernel = kernel_of(driver, library, "vector_add");
  CHECK(kernel_of(driver, library, "vector_add") == kernel);
  CHECK(driver.cuLibraryUnload(library) == CUDA_SUCCESS);
  CHECK(driver.cuLibraryUnload(library) == CUDA_ERROR_INVALID_HANDLE);
  int value = 0;
  CHECK(driver.cuKernelGetAttribute(&value, CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES, kernel, 0) ==
        CUDA_ERROR_INVALID_HANDLE);
}

TEST_CASE("kernel attributes, dynamic shared memory and occupancy") {
  const DriverTable& driver = table();
  const Context context(driver);
  const CUlibrary library = load(driver, kVectorAdd);
  const CUkernel kernel = kernel_of(driver, library, "clustered");
  const auto attribute = [&](CUfunction_attribute which) {
    int value = -1;
    CHECK(driver.cuKernelGetAttribute(&value, which, kernel, 0) == CUDA_SUCCESS);
    return value;
  };
  CHECK(attribute(CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK) == 64);
  CHECK(attribute(CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES) == 2048);
  CHECK(attribute(CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH) == 2);
  CHECK(attribute(CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES) == 49152 - 2048);
  const auto set = [&](CUfunction_attribute which, int value) {
    return driver.cuKernelSetAttribute(which, value, kernel, 0);
  };
  CHECK(set(CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 232448) == CUDA_ERROR_INVALID_VALUE);
  CHECK(reported(driver, "232448"));
  CHECK(set(CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, -1) == CUDA_ERROR_INVALID_VALUE);
  CHECK(set(CU_FUNC_ATTRIBUTE_NUM_REGS, 64) == CUDA_ERROR_INVALID_VALUE);

  const auto function = reinterpret_cast<CUfunction>(kernel);
  CUlaunchConfig config = config_of(4, 64);
  config.sharedMemBytes = 100000;
  CHECK(driver.cuLaunchKernelEx(&config, function, nullptr, nullptr) == CUDA_ERROR_INVALID_VALUE);
  CHECK(reported(driver, "MAX_DYNAMIC_SHARED_SIZE_BYTES"));
  CHECK(set(CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 232448 - 2048) == CUDA_SUCCESS);
  CHECK(driver.cuLaunchKernelEx(&config, function, nullptr, nullptr) == CUDA_SUCCESS);
  CHECK(driver.cuStreamSynchronize(nullptr) == CUDA_SUCCESS);

  int blocks = -1;
  CHECK(driver.cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, function, 64, 0) == CUDA_SUCCESS);
  CHECK(blocks == 32);
  CHECK(driver.cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, function, 64, 100000) == CUDA_SUCCESS);
  CHECK(blocks == 2);
  CHECK(driver.cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, function, 64, 232448) == CUDA_SUCCESS);
  CHECK(blocks == 0);
  CHECK(driver.cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, function, 0, 0) ==
        CUDA_ERROR_INVALID_VALUE);
  int clusters = -1;
  CHECK(driver.cuOccupancyMaxActiveClusters(&clusters, function, &config) == CUDA_SUCCESS);
  CHECK(clusters == 2);  // two CTAs on each of two SMs, two to a cluster
}

TEST_CASE("what a launch refuses") {
  const DriverTable& driver = table();
  const Context context(driver);
  const CUlibrary library = load(driver, kVectorAdd);
  const auto add = reinterpret_cast<CUfunction>(kernel_of(driver, library, "vector_add"));
  const auto clustered = reinterpret_cast<CUfunction>(kernel_of(driver, library, "clustered"));
  CUdeviceptr address = 0;
  std::uint32_t n = 0;
  void* parameters[] = {&address, &address, &address, &n};
  const auto launch = [&](CUlaunchConfig config, CUfunction function) {
    return driver.cuLaunchKernelEx(&config, function, parameters, nullptr);
  };
  CHECK(launch(config_of(0, 32), add) == CUDA_ERROR_INVALID_VALUE);
  CHECK(launch(config_of(1, 0), add) == CUDA_ERROR_INVALID_VALUE);
  CHECK(launch(config_of(1, 1025), add) == CUDA_ERROR_INVALID_VALUE);
  CHECK(launch(config_of(2, 65), clustered) == CUDA_ERROR_INVALID_VALUE);
  CHECK(launch(config_of(1, 32), reinterpret_cast<CUfunction>(&n)) == CUDA_ERROR_INVALID_HANDLE);
  CHECK(launch(config_of(1, 32, reinterpret_cast<CUstream>(&n)), add) == CUDA_ERROR_INVALID_HANDLE);
  CHECK(driver.cuLaunchKernelEx(nullptr, add, parameters, nullptr) == CUDA_ERROR_INVALID_VALUE);
  CUlaunchConfig config = config_of(1, 32);
  CHECK(driver.cuLaunchKernelEx(&config, add, nullptr, nullptr) == CUDA_ERROR_INVALID_VALUE);
  CHECK(reported(driver, "parameter 0 ('out')"));

  CHECK(launch(config_of(3, 32), clustered) == CUDA_ERROR_INVALID_VALUE);
  CUlaunchAttribute attribute{};
  attribute.id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION;
  attribute.value.clusterDim = {4, 1, 1};
  config = config_of(4, 32);
  config.attrs = &attribute;
  config.numAttrs = 1;
  CHECK(launch(config, clustered) == CUDA_ERROR_INVALID_CLUSTER_SIZE);
  CHECK(reported(driver, "compiled for (2, 1, 1)"));
  attribute.value.clusterDim = {16, 1, 1};
  config.gridDimX = 16;
  CHECK(launch(config, add) == CUDA_ERROR_INVALID_CLUSTER_SIZE);
  attribute.value.clusterDim = {2, 1, 1};
  CHECK(launch(config, add) == CUDA_SUCCESS);
}

TEST_CASE("a kernel through the table, parameters both ways") {
  for (const char* name :
       {"sim:sm_100a", "sim:sm_100a?schedule=lazy", "sim:sm_100f?schedule=random&seed=3&sms=1"}) {
    const DriverTable& driver = table(name);
    const Context context(driver);
    const CUlibrary library = load(driver, kVectorAdd);
    const auto add = reinterpret_cast<CUfunction>(kernel_of(driver, library, "vector_add"));
    const std::uint32_t n = 1000;
    std::vector<std::uint32_t> host(n);
    CUdeviceptr a = 0;
    CUdeviceptr b = 0;
    CUdeviceptr out = 0;
    for (CUdeviceptr* each : {&a, &b, &out}) REQUIRE(driver.cuMemAlloc(each, n * 4) == CUDA_SUCCESS);
    for (std::uint32_t i = 0; i < n; ++i) host[i] = i * i;
    REQUIRE(driver.cuMemcpyHtoD(a, host.data(), n * 4) == CUDA_SUCCESS);
    for (std::uint32_t i = 0; i < n; ++i) host[i] = 1000000 - i;
    REQUIRE(driver.cuMemcpyHtoD(b, host.data(), n * 4) == CUDA_SUCCESS);
    std::uint32_t count = n;
    void* parameters[] = {&out, &a, &b, &count};
    const CUlaunchConfig config = config_of((n + 127) / 128, 128);
    const auto check_result = [&] {
      CHECK(driver.cuStreamSynchronize(nullptr) == CUDA_SUCCESS);
      REQUIRE(driver.cuMemcpyDtoH(host.data(), out, n * 4) == CUDA_SUCCESS);
      for (std::uint32_t i = 0; i < n; ++i) REQUIRE(host[i] == i * i + 1000000 - i);
    };
    REQUIRE(driver.cuLaunchKernelEx(&config, add, parameters, nullptr) == CUDA_SUCCESS);
    check_result();

    REQUIRE(driver.cuMemsetD8Async(out, 0, n * 4, nullptr) == CUDA_SUCCESS);
    struct {
      CUdeviceptr out, a, b;
      std::uint32_t n;
    } packed{out, a, b, n};
    size_t size = 28;
    void* extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, &packed, CU_LAUNCH_PARAM_BUFFER_SIZE, &size,
                     CU_LAUNCH_PARAM_END};
    REQUIRE(driver.cuLaunchKernelEx(&config, add, nullptr, extra) == CUDA_SUCCESS);
    check_result();
    size = 24;
    CHECK(driver.cuLaunchKernelEx(&config, add, nullptr, extra) == CUDA_ERROR_INVALID_VALUE);
  }
}

TEST_CASE(
    "a failing kernel: one error at the next synchronisation of its stream, a report, and life goes on") {
  const DriverTable& driver = table();
  const Context context(driver);
  const CUlibrary library = load(driver, kVectorAdd);
  const auto add = reinterpret_cast<CUfunction>(kernel_of(driver, library, "vector_add"));
  CUdeviceptr memory = 0;
  REQUIRE(driver.cuMemAlloc(&memory, 100) == CUDA_SUCCESS);
  REQUIRE(driver.cuMemsetD8Async(memory, 1, 100, nullptr) == CUDA_SUCCESS);
  CUstream blocking = nullptr;
  CUstream non_blocking = nullptr;
  REQUIRE(driver.cuStreamCreate(&blocking, CU_STREAM_DEFAULT) == CUDA_SUCCESS);
  REQUIRE(driver.cuStreamCreate(&non_blocking, CU_STREAM_NON_BLOCKING) == CUDA_SUCCESS);
  const auto launch = [&](CUdeviceptr out, std::uint32_t n, CUstream stream) {
    void* parameters[] = {&out, &memory, &memory, &n};
    const CUlaunchConfig config = config_of(1, 32, stream);
    return driver.cuLaunchKernelEx(&config, add, parameters, nullptr);
  };
  CHECK(launch(memory, 26, non_blocking) == CUDA_SUCCESS);  // element 25 is beyond the 100 bytes
  CHECK(reported(driver, "ld.global.b32"));
  CHECK(driver.cuStreamSynchronize(nullptr) == CUDA_SUCCESS);
  CHECK(driver.cuStreamSynchronize(blocking) == CUDA_SUCCESS);
  CHECK(driver.cuStreamSynchronize(non_blocking) == CUDA_ERROR_ILLEGAL_ADDRESS);
  CHECK(driver.cuStreamSynchronize(non_blocking) == CUDA_SUCCESS);

  CHECK(launch(memory + 2, 1, blocking) == CUDA_SUCCESS);
  std::uint32_t host = 0;
  CHECK(driver.cuMemcpyDtoH(&host, memory, 4) ==
        CUDA_ERROR_MISALIGNED_ADDRESS);  // waits for blocking streams
  CHECK(driver.cuMemcpyDtoH(&host, memory, 4) == CUDA_SUCCESS);
  CHECK(host == 0x01010101);
  CHECK(reported(driver, "st.global.b32"));

  CUevent event = nullptr;
  REQUIRE(driver.cuEventCreate(&event, CU_EVENT_DISABLE_TIMING) == CUDA_SUCCESS);
  CHECK(launch(memory, 26, non_blocking) == CUDA_SUCCESS);
  CHECK(driver.cuEventRecord(event, non_blocking) == CUDA_SUCCESS);
  CHECK(driver.cuEventSynchronize(event) == CUDA_ERROR_ILLEGAL_ADDRESS);
  CHECK(driver.cuCtxSynchronize() == CUDA_SUCCESS);
  CHECK(launch(memory, 25, nullptr) == CUDA_SUCCESS);
  CHECK(driver.cuCtxSynchronize() == CUDA_SUCCESS);
}
