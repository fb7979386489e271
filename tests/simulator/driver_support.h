// A simulated device through its driver table: what the tests of that share.
#pragma once

#include <doctest/doctest.h>

#include <string>

#include "simulator/driver/simulated_driver.h"

namespace jfa::test {

/// `vector_add`: out[i] = a[i] + b[i] for i < n; and `clustered`, for clusters of two CTAs.
inline constexpr const char* kVectorAdd = R"(
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

inline const DriverTable& table(const std::string& name = "sim:sm_100a") {
  std::string error;
  const DriverTable* driver = simulator::open_simulated_driver(name, &error);
  REQUIRE_MESSAGE(driver != nullptr, error);
  return *driver;
}

/// The device's primary context, current on this thread.
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

inline CUlibrary load(const DriverTable& driver, const char* ptx) {
  CUlibrary library = nullptr;
  const CUresult result = driver.cuLibraryLoadData(&library, ptx, nullptr, nullptr, 0, nullptr, nullptr, 0);
  REQUIRE_MESSAGE(result == CUDA_SUCCESS, simulator::last_report(&driver));
  return library;
}

inline CUkernel kernel_of(const DriverTable& driver, CUlibrary library, const char* name) {
  CUkernel kernel = nullptr;
  REQUIRE(driver.cuLibraryGetKernel(&kernel, library, name) == CUDA_SUCCESS);
  return kernel;
}

inline CUlaunchConfig config_of(unsigned int grid, unsigned int block, CUstream stream = nullptr) {
  CUlaunchConfig config{};
  config.gridDimX = grid;
  config.gridDimY = config.gridDimZ = 1;
  config.blockDimX = block;
  config.blockDimY = config.blockDimZ = 1;
  config.hStream = stream;
  return config;
}

/// Whether the device's last report has the part.
inline bool reported(const DriverTable& driver, const char* part) {
  const std::string report = simulator::last_report(&driver);
  const bool found = report.find(part) != std::string::npos;
  if (!found) MESSAGE(report);
  return found;
}

}  // namespace jfa::test
