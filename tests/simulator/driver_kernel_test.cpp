// The simulated device's driver table: libraries, kernels and their launches.
#include <doctest/doctest.h>

#include <array>
#include <cstring>
#include <string>
#include <vector>

#include "tests/simulator/driver_support.h"

namespace jfa::test::driver_kernel_test {

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

}  // namespace jfa::test::driver_kernel_test
