// Device memory, and host memory that the device sees: allocation, pools, copies and fills, all checked
// against the live allocations.
#include <fmt/format.h>

#include <cstring>
#include <new>

#include "simulator/async/tensor_map.h"
#include "simulator/driver/driver.h"

namespace jfa::simulator {

CUresult SimulatedDriver::allocate(CUdeviceptr* address, size_t bytes) {
  if (address == nullptr || bytes == 0) return CUDA_ERROR_INVALID_VALUE;
  const std::uint64_t used = memory_.allocated_bytes();
  if (bytes > kTotalMemoryBytes || used > kTotalMemoryBytes - bytes) {
    return refuse(CUDA_ERROR_OUT_OF_MEMORY,
                  fmt::format("allocation of {} bytes: {} of the device's {} are in use", bytes, used,
                              kTotalMemoryBytes));
  }
  *address = memory_.allocate(bytes);
  allocations_.insert(*address);
  return CUDA_SUCCESS;
}

CUresult SimulatedDriver::cuMemAlloc(CUdeviceptr* address, size_t bytes) {
  if (const CUresult error = require_context()) return error;
  return allocate(address, bytes);
}

CUresult SimulatedDriver::cuMemFree(CUdeviceptr address) {
  if (const CUresult error = require_context()) return error;
  if (address == 0) return CUDA_SUCCESS;
  if (allocations_.erase(address) == 0) {
    return refuse(CUDA_ERROR_INVALID_VALUE,
                  fmt::format("free of {:#x}, which is not the start of an allocation", address));
  }
  memory_.free(address);
  return CUDA_SUCCESS;
}

CUresult SimulatedDriver::cuMemAllocAsync(CUdeviceptr* address, size_t bytes, CUstream stream) {
  if (const CUresult error = require_context()) return error;
  if (find_stream(stream) == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  return allocate(address, bytes);
}

CUresult SimulatedDriver::cuMemFreeAsync(CUdeviceptr address, CUstream stream) {
  if (find_stream(stream) == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (address == 0) return CUDA_ERROR_INVALID_VALUE;
  return cuMemFree(address);
}

CUresult SimulatedDriver::cuMemPoolCreate(CUmemoryPool* pool, const CUmemPoolProps* properties) {
  if (pool == nullptr || properties == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (properties->allocType != CU_MEM_ALLOCATION_TYPE_PINNED ||
      properties->location.type != CU_MEM_LOCATION_TYPE_DEVICE || properties->location.id != kDevice) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  if (properties->handleTypes != CU_MEM_HANDLE_TYPE_NONE) return CUDA_ERROR_NOT_SUPPORTED;
  *pool = pools_.add(std::make_unique<Pool>());
  return CUDA_SUCCESS;
}

CUresult SimulatedDriver::cuMemPoolDestroy(CUmemoryPool pool) {
  return pools_.remove(pool) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

// Every free returns memory at once: the threshold and the reuse rules have nothing to act on.
CUresult SimulatedDriver::cuMemPoolSetAttribute(CUmemoryPool pool, CUmemPool_attribute attribute,
                                                void* value) {
  Pool* object = pools_.find(pool);
  if (object == nullptr || value == nullptr) return CUDA_ERROR_INVALID_VALUE;
  switch (attribute) {
    case CU_MEMPOOL_ATTR_RELEASE_THRESHOLD:
      std::memcpy(&object->release_threshold_bytes, value, sizeof(object->release_threshold_bytes));
      return CUDA_SUCCESS;
    case CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES:
    case CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC:
    case CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES:
      return CUDA_SUCCESS;
    default:
      return CUDA_ERROR_INVALID_VALUE;
  }
}

CUresult SimulatedDriver::cuMemAllocFromPoolAsync(CUdeviceptr* address, size_t bytes, CUmemoryPool pool,
                                                  CUstream stream) {
  if (pools_.find(pool) == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return cuMemAllocAsync(address, bytes, stream);
}

CUresult SimulatedDriver::cuMemHostAlloc(void** host, size_t bytes, unsigned int flags) {
  constexpr unsigned int kKnown =
      CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP | CU_MEMHOSTALLOC_WRITECOMBINED;
  if (host == nullptr || bytes == 0 || (flags & ~kKnown) != 0) return CUDA_ERROR_INVALID_VALUE;
  if (const CUresult error = require_context()) return error;
  const CUdeviceptr address = memory_.allocate(bytes);
  *host = memory_.host(address, bytes);
  host_allocations_[*host] = address;
  return CUDA_SUCCESS;
}

CUresult SimulatedDriver::cuMemFreeHost(void* host) {
  if (const CUresult error = require_context()) return error;
  const auto found = host_allocations_.find(host);
  if (found == host_allocations_.end()) {
    return refuse(CUDA_ERROR_INVALID_VALUE, "free of host memory that cuMemHostAlloc did not give");
  }
  memory_.free(found->second);
  host_allocations_.erase(found);
  return CUDA_SUCCESS;
}

// Also of a pointer into the memory, as on a real device.
CUresult SimulatedDriver::cuMemHostGetDevicePointer(CUdeviceptr* address, void* host, unsigned int flags) {
  if (address == nullptr || flags != 0) return CUDA_ERROR_INVALID_VALUE;
  if (const CUresult error = require_context()) return error;
  auto found = host_allocations_.upper_bound(host);
  if (found == host_allocations_.begin()) return CUDA_ERROR_INVALID_VALUE;
  --found;
  const auto offset = static_cast<std::uint64_t>(static_cast<const std::byte*>(host) -
                                                 static_cast<const std::byte*>(found->first));
  if (memory_.find(found->second)->size_bytes <= offset) return CUDA_ERROR_INVALID_VALUE;
  *address = found->second + offset;
  return CUDA_SUCCESS;
}

CUresult SimulatedDriver::copy(std::byte* destination, const std::byte* source, size_t bytes) {
  if (bytes == 0) return CUDA_SUCCESS;
  if (destination == nullptr || source == nullptr) {
    return refuse(
        CUDA_ERROR_INVALID_VALUE,
        fmt::format("copy of {} bytes: not wholly inside one live allocation, or a null pointer", bytes));
  }
  std::memmove(destination, source, bytes);
  memory_.forget_grid();
  return CUDA_SUCCESS;
}

CUresult SimulatedDriver::cuMemcpyHtoD(CUdeviceptr destination, const void* source, size_t bytes) {
  if (const CUresult error = require_context()) return error;
  if (const CUresult error = synchronise_default_stream()) return error;
  return copy(memory_.host(destination, bytes), static_cast<const std::byte*>(source), bytes);
}

CUresult SimulatedDriver::cuMemcpyDtoH(void* destination, CUdeviceptr source, size_t bytes) {
  if (const CUresult error = require_context()) return error;
  if (const CUresult error = synchronise_default_stream()) return error;
  return copy(static_cast<std::byte*>(destination), memory_.host(source, bytes), bytes);
}

CUresult SimulatedDriver::cuMemcpyHtoDAsync(CUdeviceptr destination, const void* source, size_t bytes,
                                            CUstream stream) {
  if (const CUresult error = require_context()) return error;
  if (find_stream(stream) == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  return copy(memory_.host(destination, bytes), static_cast<const std::byte*>(source), bytes);
}

CUresult SimulatedDriver::cuMemcpyDtoHAsync(void* destination, CUdeviceptr source, size_t bytes,
                                            CUstream stream) {
  if (const CUresult error = require_context()) return error;
  if (find_stream(stream) == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  return copy(static_cast<std::byte*>(destination), memory_.host(source, bytes), bytes);
}

CUresult SimulatedDriver::cuMemcpyDtoDAsync(CUdeviceptr destination, CUdeviceptr source, size_t bytes,
                                            CUstream stream) {
  if (const CUresult error = require_context()) return error;
  if (find_stream(stream) == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  return copy(memory_.host(destination, bytes), memory_.host(source, bytes), bytes);
}

template <class Value>
CUresult SimulatedDriver::fill(CUdeviceptr address, Value value, size_t count, CUstream stream) {
  if (const CUresult error = require_context()) return error;
  if (find_stream(stream) == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (count == 0) return CUDA_SUCCESS;
  if (address % sizeof(Value) != 0) return CUDA_ERROR_INVALID_VALUE;
  std::byte* bytes = count > kTotalMemoryBytes ? nullptr : memory_.host(address, count * sizeof(Value));
  if (bytes == nullptr) {
    return refuse(CUDA_ERROR_INVALID_VALUE,
                  fmt::format("fill of {} x {} bytes at {:#x}: not wholly inside one live allocation", count,
                              sizeof(Value), address));
  }
  for (size_t i = 0; i < count; ++i) std::memcpy(bytes + i * sizeof(Value), &value, sizeof(Value));
  memory_.forget_grid();
  return CUDA_SUCCESS;
}

CUresult SimulatedDriver::cuMemsetD8Async(CUdeviceptr address, unsigned char value, size_t count,
                                          CUstream stream) {
  return fill(address, value, count, stream);
}

CUresult SimulatedDriver::cuMemsetD32Async(CUdeviceptr address, unsigned int value, size_t count,
                                           CUstream stream) {
  return fill(address, value, count, stream);
}

CUresult SimulatedDriver::cuMemsetD2D8Async(CUdeviceptr address, size_t pitch, unsigned char value,
                                            size_t width, size_t height, CUstream stream) {
  if (width > pitch) return CUDA_ERROR_INVALID_VALUE;
  for (size_t row = 0; row < height; ++row) {
    if (const CUresult error = fill(address + row * pitch, value, width, stream)) return error;
  }
  return CUDA_SUCCESS;
}

CUresult SimulatedDriver::cuPointerGetAttribute(void* data, CUpointer_attribute attribute,
                                                CUdeviceptr address) {
  if (data == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const DeviceMemory::Allocation* allocation = memory_.find(address);
  if (allocation == nullptr) return CUDA_ERROR_INVALID_VALUE;  // a host pointer, or nothing at all
  const bool host_memory =
      allocations_.count(allocation->address) == 0 && host_allocations_.count(allocation->data.get()) != 0;
  const auto give = [&](auto value) {
    std::memcpy(data, &value, sizeof(value));
    return CUDA_SUCCESS;
  };
  switch (attribute) {
    case CU_POINTER_ATTRIBUTE_CONTEXT:
      return give(primary_handle());
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
      return give(static_cast<unsigned int>(host_memory ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE));
    case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
      return give(address);
    case CU_POINTER_ATTRIBUTE_IS_MANAGED:
      return give(0u);
    case CU_POINTER_ATTRIBUTE_MAPPED:
      return give(1u);
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
      return give(kDevice);
    case CU_POINTER_ATTRIBUTE_BUFFER_ID:
      return give(static_cast<unsigned long long>(allocation->address));
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
      return give(static_cast<CUdeviceptr>(allocation->address));
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
      return give(static_cast<size_t>(allocation->size_bytes));
    default:
      return CUDA_ERROR_NOT_SUPPORTED;
  }
}

CUresult SimulatedDriver::cuTensorMapEncodeTiled(CUtensorMap* map, CUtensorMapDataType data_type,
                                                 cuuint32_t rank, void* address, const cuuint64_t* global_dim,
                                                 const cuuint64_t* global_strides, const cuuint32_t* box_dim,
                                                 const cuuint32_t* element_strides,
                                                 CUtensorMapInterleave interleave, CUtensorMapSwizzle swizzle,
                                                 CUtensorMapL2promotion l2_promotion,
                                                 CUtensorMapFloatOOBfill oob_fill) {
  std::string reason;
  const CUresult result =
      encode_tiled_tensor_map(map, data_type, rank, address, global_dim, global_strides, box_dim,
                              element_strides, interleave, swizzle, l2_promotion, oob_fill, &reason);
  return result == CUDA_SUCCESS ? result : refuse(result, "cuTensorMapEncodeTiled: " + reason);
}

}  // namespace jfa::simulator
