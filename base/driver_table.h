// The one seam to the device: the CUDA driver API's entry points as a table of pointers with their exact
// signatures. libcuda.so.1 fills it (runtime/driver.cpp), or the simulator does
// (simulator/driver/simulated_driver.h).
#pragma once

#include <cuda.h>

// Every driver call the project makes, by its documented name; cuda.h's macros add the version suffix.
// clang-format off
#define JFA_DRIVER_CALLS(X)                                                                                  \
  X(cuInit) X(cuDriverGetVersion) X(cuGetErrorName) X(cuGetErrorString)                                      \
  X(cuDeviceGetCount) X(cuDeviceGet) X(cuDeviceGetName) X(cuDeviceGetAttribute) X(cuDeviceTotalMem)          \
  X(cuDevicePrimaryCtxRetain) X(cuDevicePrimaryCtxRelease)                                                   \
  X(cuCtxGetCurrent) X(cuCtxSetCurrent) X(cuCtxPushCurrent) X(cuCtxPopCurrent) X(cuCtxGetDevice)             \
  X(cuCtxSynchronize)                                                                                        \
  X(cuLibraryLoadData) X(cuLibraryUnload) X(cuLibraryGetKernel) X(cuKernelGetAttribute)                      \
  X(cuKernelSetAttribute) X(cuLaunchKernelEx)                                                                \
  X(cuMemAlloc) X(cuMemFree) X(cuMemAllocAsync) X(cuMemFreeAsync)                                            \
  X(cuMemPoolCreate) X(cuMemPoolDestroy) X(cuMemPoolSetAttribute) X(cuMemAllocFromPoolAsync)                 \
  X(cuMemcpyHtoD) X(cuMemcpyDtoH) X(cuMemcpyHtoDAsync) X(cuMemcpyDtoHAsync) X(cuMemcpyDtoDAsync)             \
  X(cuMemHostAlloc) X(cuMemFreeHost) X(cuMemHostGetDevicePointer)                                            \
  X(cuMemsetD8Async) X(cuMemsetD32Async) X(cuMemsetD2D8Async) X(cuPointerGetAttribute)                       \
  X(cuStreamCreate) X(cuStreamDestroy) X(cuStreamSynchronize) X(cuStreamIsCapturing) X(cuStreamGetCtx)       \
  X(cuStreamGetId) X(cuThreadExchangeStreamCaptureMode)                                                      \
  X(cuEventCreate) X(cuEventDestroy) X(cuEventRecord) X(cuEventSynchronize) X(cuEventElapsedTime)            \
  X(cuTensorMapEncodeTiled)                                                                                  \
  X(cuOccupancyMaxActiveBlocksPerMultiprocessor) X(cuOccupancyMaxActiveClusters)
// clang-format on

namespace jfa {

struct DriverTable {
#define JFA_DECLARE_CALL(name) decltype(&::name) name = nullptr;
  JFA_DRIVER_CALLS(JFA_DECLARE_CALL)
#undef JFA_DECLARE_CALL
};

}  // namespace jfa
