// The simulated device's driver table: the driver API's contracts but for kernels.
#include <doctest/doctest.h>

#include <array>
#include <string>
#include <thread>

#include "tests/simulator/driver_support.h"

namespace jfa::test::driver_test {

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

  void* mapped = nullptr;
  int maps = 0;
  CHECK(driver.cuDeviceGetAttribute(&maps, CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY, 0) == CUDA_SUCCESS);
  CHECK(maps == 1);
  CHECK(driver.cuMemHostAlloc(&mapped, 0, 0) == CUDA_ERROR_INVALID_VALUE);
  CHECK(driver.cuMemHostAlloc(&mapped, 64, 0x80) == CUDA_ERROR_INVALID_VALUE);
  REQUIRE(driver.cuMemHostAlloc(&mapped, 64, CU_MEMHOSTALLOC_DEVICEMAP) == CUDA_SUCCESS);
  auto* words = static_cast<std::uint32_t*>(mapped);
  CUdeviceptr on_device = 0, inside = 0;
  REQUIRE(driver.cuMemHostGetDevicePointer(&on_device, words, 0) == CUDA_SUCCESS);
  CHECK(driver.cuMemHostGetDevicePointer(&inside, words + 15, 0) == CUDA_SUCCESS);
  CHECK(inside == on_device + 60);
  CHECK(driver.cuMemHostGetDevicePointer(&inside, words + 16, 0) == CUDA_ERROR_INVALID_VALUE);
  CHECK(driver.cuMemHostGetDevicePointer(&inside, host.data(), 0) == CUDA_ERROR_INVALID_VALUE);
  words[3] = 77;
  CHECK(driver.cuMemcpyDtoDAsync(on_device + 16, on_device + 12, 4, nullptr) == CUDA_SUCCESS);
  CHECK(words[4] == 77);
  CHECK(driver.cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, on_device) == CUDA_SUCCESS);
  CHECK(type == CU_MEMORYTYPE_HOST);
  CHECK(driver.cuMemFree(on_device) == CUDA_ERROR_INVALID_VALUE);
  CHECK(driver.cuMemFreeHost(words + 1) == CUDA_ERROR_INVALID_VALUE);
  CHECK(driver.cuMemFreeHost(words) == CUDA_SUCCESS);
  CHECK(driver.cuMemFreeHost(words) == CUDA_ERROR_INVALID_VALUE);

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
  unsigned long long id = 0, again = 0, legacy = 0, per_thread = 0;
  CHECK(driver.cuStreamGetId(stream, &id) == CUDA_SUCCESS);
  CHECK(driver.cuStreamGetId(stream, &again) == CUDA_SUCCESS);
  CHECK(driver.cuStreamGetId(nullptr, &legacy) == CUDA_SUCCESS);
  CHECK(driver.cuStreamGetId(CU_STREAM_PER_THREAD, &per_thread) == CUDA_SUCCESS);
  CHECK(again == id);
  CHECK(id != legacy);
  CHECK(id != per_thread);
  CHECK(legacy != per_thread);
  CUstream later = nullptr;
  REQUIRE(driver.cuStreamCreate(&later, CU_STREAM_DEFAULT) == CUDA_SUCCESS);
  CHECK(driver.cuStreamDestroy(later) == CUDA_SUCCESS);
  CHECK(driver.cuStreamGetId(later, &again) == CUDA_ERROR_INVALID_HANDLE);
  REQUIRE(driver.cuStreamCreate(&later, CU_STREAM_DEFAULT) == CUDA_SUCCESS);  // perhaps the same handle
  unsigned long long newest = 0;
  CHECK(driver.cuStreamGetId(later, &newest) == CUDA_SUCCESS);
  CHECK(newest == id + 2);
  CHECK(driver.cuStreamDestroy(later) == CUDA_SUCCESS);
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

}  // namespace jfa::test::driver_test
