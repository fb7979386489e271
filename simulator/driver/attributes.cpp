// What the device says about itself: a B200 or an H200 in kind, with as many SMs as asked for.
#include "simulator/driver/driver.h"

namespace jfa::simulator {

CUresult SimulatedDriver::cuDeviceGetAttribute(int* value, CUdevice_attribute attribute, CUdevice device) {
  if (value == nullptr || attribute <= 0 || attribute >= CU_DEVICE_ATTRIBUTE_MAX)
    return CUDA_ERROR_INVALID_VALUE;
  if (device != kDevice) return CUDA_ERROR_INVALID_DEVICE;
  const bool hopper = options_.target.family() == 9;
  const auto number = [&]() -> int {
    switch (attribute) {
      case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR:
        return options_.target.version / 10;
      case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR:
        return options_.target.version % 10;
      case CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT:
        return options_.run.sms;
      case CU_DEVICE_ATTRIBUTE_WARP_SIZE:
        return kWarpSize;

      case CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK:
        return 1024;
      case CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X:
        return 1024;
      case CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y:
        return 1024;
      case CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z:
        return 64;
      case CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X:
        return 0x7fffffff;
      case CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y:
        return 65535;
      case CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z:
        return 65535;
      case CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR:
        return kMaxThreadsPerSm;
      case CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR:
        return kMaxCtasPerSm;

      case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK:
        return kDefaultSharedBytes;
      case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN:
        return kMaxSharedBytesPerCta;
      case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR:
        return kSharedBytesPerSm;
      case CU_DEVICE_ATTRIBUTE_RESERVED_SHARED_MEMORY_PER_BLOCK:
        return kReservedSharedBytes;
      case CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK:
        return 65536;
      case CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR:
        return 65536;
      case CU_DEVICE_ATTRIBUTE_TOTAL_CONSTANT_MEMORY:
        return 65536;
      case CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE:
        return (hopper ? 50 : 126) << 20;
      case CU_DEVICE_ATTRIBUTE_MAX_PITCH:
        return 0x7fffffff;
      case CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH:
        return hopper ? 6144 : 8192;
      case CU_DEVICE_ATTRIBUTE_CLOCK_RATE:
        return hopper ? 1'980'000 : 1'965'000;  // kHz
      case CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE:
        return hopper ? 3'201'000 : 3'996'000;  // kHz

      case CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING:
      case CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY:
      case CU_DEVICE_ATTRIBUTE_CONCURRENT_KERNELS:
      case CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED:
      case CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH:
      case CU_DEVICE_ATTRIBUTE_CLUSTER_LAUNCH:
      case CU_DEVICE_ATTRIBUTE_TENSOR_MAP_ACCESS_SUPPORTED:
      case CU_DEVICE_ATTRIBUTE_GLOBAL_L1_CACHE_SUPPORTED:
      case CU_DEVICE_ATTRIBUTE_LOCAL_L1_CACHE_SUPPORTED:
      case CU_DEVICE_ATTRIBUTE_ECC_ENABLED:
      case CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT:
        return 1;

      // Managed memory, textures, graphics, remote devices: none of it here.
      default:
        return 0;
    }
  };
  *value = number();
  return CUDA_SUCCESS;
}

}  // namespace jfa::simulator
