#include "tests/runtime/fake_driver.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <iterator>
#include <string_view>

namespace jfa::test {
namespace {

// Addresses that stand for the kernels.
constexpr const char* kEntries[] = {"jfa_prepare",
                                    "jfa_forward",
                                    "jfa_merge",
                                    "jfa_prepare_backward",
                                    "jfa_delta",
                                    "jfa_backward_keys",
                                    "jfa_backward_queries",
                                    "jfa_sum_query_grad",
                                    "jfa_prepare_broadcast",
                                    "jfa_backward_broadcast",
                                    "jfa_backward_short",
                                    "jfa_backward_two_cta"};
int entry_tags[std::size(kEntries)];
int context_tags[4];
int library_tag, pool_tag;
thread_local CUcontext current_context = nullptr;
// No vector: handles that outlive main() still push, when thread_local objects are gone.
thread_local std::array<CUcontext, 16> pushed_contexts{};
thread_local std::size_t pushed_count = 0;

template <class Handle>
Handle handle(int* tag) {
  return reinterpret_cast<Handle>(tag);
}

#define ENTER(name) \
  if (const CUresult injected = fake_driver().call(#name); injected != CUDA_SUCCESS) return injected
#define NEEDS_CONTEXT() \
  if (!current_context) return CUDA_ERROR_INVALID_CONTEXT

CUresult device_attribute(int* value, CUdevice_attribute attribute, CUdevice) {
  ENTER(cuDeviceGetAttribute);
  const FakeDriver& fake = fake_driver();
  switch (attribute) {
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR:
      *value = fake.major;
      return CUDA_SUCCESS;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR:
      *value = fake.minor;
      return CUDA_SUCCESS;
    case CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT:
      *value = fake.sm_count;
      return CUDA_SUCCESS;
    case CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED:
      *value = fake.memory_pools;
      return CUDA_SUCCESS;
    case CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY:
      *value = fake.maps_host_memory;
      return CUDA_SUCCESS;
    default:
      return CUDA_ERROR_INVALID_VALUE;
  }
}

// Nothing is managed, everything is device memory.
CUresult pointer_attribute(void* value, CUpointer_attribute attribute, CUdeviceptr address) {
  ENTER(cuPointerGetAttribute);
  NEEDS_CONTEXT();
  const auto owner = fake_driver().owners.find(address);
  const bool known = owner != fake_driver().owners.end();
  switch (attribute) {
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
      *static_cast<int*>(value) = known ? owner->second : 0;
      return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
      *static_cast<unsigned*>(value) = CU_MEMORYTYPE_DEVICE;
      return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_IS_MANAGED:
      *static_cast<unsigned*>(value) = 0;
      return CUDA_SUCCESS;
    default:
      return CUDA_ERROR_INVALID_VALUE;
  }
}

CUresult allocate(CUdeviceptr* address, std::size_t bytes) {
  FakeDriver& fake = fake_driver();
  // 256-byte alignment, as the driver gives.
  auto block = std::make_unique<std::uint64_t[]>(bytes / 8 + 33);
  *address = (reinterpret_cast<std::uint64_t>(block.get()) + 255) / 256 * 256;
  std::lock_guard lock(fake.mutex);
  fake.memory.push_back(std::move(block));
  return CUDA_SUCCESS;
}

unsigned cluster_of(const CUlaunchConfig& config) {
  for (unsigned i = 0; i < config.numAttrs; ++i)
    if (config.attrs[i].id == CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION)
      return config.attrs[i].value.clusterDim.x;
  return 1;
}

CUresult launch_kernel(const CUlaunchConfig* config, CUfunction function, void** arguments, void**) {
  ENTER(cuLaunchKernelEx);
  NEEDS_CONTEXT();
  FakeDriver& fake = fake_driver();
  if (!fake.record) return CUDA_SUCCESS;
  FakeLaunch launch;
  launch.ctas = config->gridDimX;
  launch.threads = config->blockDimX;
  launch.shared_bytes = config->sharedMemBytes;
  launch.stream = config->hStream;
  for (unsigned i = 0; i < config->numAttrs; ++i) {
    launch.overlapping |= config->attrs[i].id == CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION &&
                          config->attrs[i].value.programmaticStreamSerializationAllowed != 0;
  }
  launch.cluster = cluster_of(*config);
  if (launch.ctas % launch.cluster != 0) return CUDA_ERROR_INVALID_VALUE;
  launch.context = current_context;
  std::lock_guard lock(fake.mutex);
  launch.entry = kEntries[reinterpret_cast<int*>(function) - entry_tags];
  const auto copy = [&](auto& to, int maps = 0) {
    for (int i = 0; i < maps; ++i)
      launch.map_ids.push_back(static_cast<CUtensorMap*>(arguments[i])->opaque[0]);
    std::memcpy(&to, arguments[maps], sizeof to);
  };
  if (launch.entry == "jfa_prepare") copy(launch.prepare);
  if (launch.entry == "jfa_forward") copy(launch.forward, 4);
  if (launch.entry == "jfa_merge") copy(launch.merge);
  if (launch.entry == "jfa_prepare_backward") copy(launch.backward_prepare);
  if (launch.entry == "jfa_delta") copy(launch.delta);
  if (launch.entry == "jfa_backward_keys") copy(launch.backward, 6);
  if (launch.entry == "jfa_backward_queries") copy(launch.backward, 5);
  if (launch.entry == "jfa_sum_query_grad") copy(launch.sum);
  if (launch.entry == "jfa_prepare_broadcast") copy(launch.broadcast_prepare);
  if (launch.entry == "jfa_backward_broadcast") copy(launch.broadcast, 6);
  if (launch.entry == "jfa_backward_short") copy(launch.short_keys, 8);
  if (launch.entry == "jfa_backward_two_cta") copy(launch.two_cta, 7);
  fake.launches.push_back(launch);
  return CUDA_SUCCESS;
}

CUresult encode_map(CUtensorMap* map, CUtensorMapDataType type, cuuint32_t rank, void* address,
                    const cuuint64_t* extents, const cuuint64_t* strides, const cuuint32_t* box,
                    const cuuint32_t*, CUtensorMapInterleave, CUtensorMapSwizzle swizzle,
                    CUtensorMapL2promotion, CUtensorMapFloatOOBfill) {
  ENTER(cuTensorMapEncodeTiled);
  FakeDriver& fake = fake_driver();
  if (!fake.record) return CUDA_SUCCESS;
  std::lock_guard lock(fake.mutex);
  map->opaque[0] = fake.maps.size();
  fake.maps.push_back({reinterpret_cast<std::uint64_t>(address),
                       type,
                       swizzle,
                       {extents, extents + rank},
                       {strides, strides + rank - 1},
                       {box, box + rank}});
  return CUDA_SUCCESS;
}

void fill_context_calls(DriverTable& table) {
  table.cuDevicePrimaryCtxRetain = [](CUcontext* context, CUdevice) {
    ENTER(cuDevicePrimaryCtxRetain);
    ++fake_driver().live_primary_contexts;
    *context = fake_primary_context();
    return CUDA_SUCCESS;
  };
  table.cuDevicePrimaryCtxRelease = [](CUdevice) {
    ENTER(cuDevicePrimaryCtxRelease);
    --fake_driver().live_primary_contexts;
    return CUDA_SUCCESS;
  };
  table.cuCtxGetCurrent = [](CUcontext* context) {
    ENTER(cuCtxGetCurrent);
    *context = current_context;
    return CUDA_SUCCESS;
  };
  table.cuCtxPushCurrent = [](CUcontext context) {
    ENTER(cuCtxPushCurrent);
    pushed_contexts.at(pushed_count++) = current_context;
    current_context = context;
    return CUDA_SUCCESS;
  };
  table.cuCtxPopCurrent = [](CUcontext* context) {
    ENTER(cuCtxPopCurrent);
    *context = current_context;
    current_context = pushed_contexts.at(--pushed_count);
    return CUDA_SUCCESS;
  };
  table.cuCtxGetDevice = [](CUdevice* device) {
    ENTER(cuCtxGetDevice);
    NEEDS_CONTEXT();
    *device = static_cast<int>(reinterpret_cast<int*>(current_context) - context_tags) / 2;
    return CUDA_SUCCESS;
  };
}

void fill_library_calls(DriverTable& table) {
  table.cuLibraryLoadData = [](CUlibrary* library, const void* code, CUjit_option*, void**, unsigned,
                               CUlibraryOption*, void**, unsigned) {
    ENTER(cuLibraryLoadData);
    FakeDriver& fake = fake_driver();
    std::lock_guard lock(fake.mutex);
    ++fake.libraries_loaded;
    fake.image.assign(static_cast<const char*>(code), 8);
    *library = handle<CUlibrary>(&library_tag);
    return CUDA_SUCCESS;
  };
  table.cuLibraryUnload = [](CUlibrary) {
    ENTER(cuLibraryUnload);
    ++fake_driver().libraries_unloaded;
    return CUDA_SUCCESS;
  };
  table.cuLibraryGetKernel = [](CUkernel* kernel, CUlibrary, const char* name) {
    ENTER(cuLibraryGetKernel);
    const auto* entry = std::ranges::find(kEntries, std::string_view(name));
    if (entry == std::end(kEntries)) return CUDA_ERROR_NOT_FOUND;
    *kernel = handle<CUkernel>(&entry_tags[entry - kEntries]);
    return CUDA_SUCCESS;
  };
  table.cuKernelSetAttribute = [](CUfunction_attribute, int, CUkernel, CUdevice) {
    ENTER(cuKernelSetAttribute);
    return CUDA_SUCCESS;
  };
  table.cuOccupancyMaxActiveBlocksPerMultiprocessor = [](int* ctas, CUfunction, int, std::size_t) {
    ENTER(cuOccupancyMaxActiveBlocksPerMultiprocessor);
    NEEDS_CONTEXT();
    *ctas = fake_driver().ctas_per_sm;
    return CUDA_SUCCESS;
  };
  table.cuOccupancyMaxActiveClusters = [](int* clusters, CUfunction, const CUlaunchConfig* config) {
    ENTER(cuOccupancyMaxActiveClusters);
    NEEDS_CONTEXT();
    if (cluster_of(*config) != 2 || config->gridDimX % 2 != 0) return CUDA_ERROR_INVALID_VALUE;
    *clusters = fake_driver().clusters;
    return CUDA_SUCCESS;
  };
}

void fill_memory_calls(DriverTable& table) {
  table.cuMemAlloc = [](CUdeviceptr* address, std::size_t bytes) {
    ENTER(cuMemAlloc);
    NEEDS_CONTEXT();
    return allocate(address, bytes);
  };
  table.cuMemFree = [](CUdeviceptr) {
    ENTER(cuMemFree);
    NEEDS_CONTEXT();
    return CUDA_SUCCESS;
  };
  table.cuMemHostAlloc = [](void** host, std::size_t bytes, unsigned flags) {
    ENTER(cuMemHostAlloc);
    NEEDS_CONTEXT();
    if (flags != CU_MEMHOSTALLOC_DEVICEMAP) return CUDA_ERROR_INVALID_VALUE;
    CUdeviceptr address = 0;
    const CUresult result = allocate(&address, bytes);
    *host = reinterpret_cast<void*>(address);
    std::memset(*host, 0xff, bytes);
    std::lock_guard lock(fake_driver().mutex);
    fake_driver().host_blocks.insert(*host);
    return result;
  };
  table.cuMemHostGetDevicePointer = [](CUdeviceptr* address, void* host, unsigned) {
    ENTER(cuMemHostGetDevicePointer);
    NEEDS_CONTEXT();
    *address = reinterpret_cast<CUdeviceptr>(host);
    return CUDA_SUCCESS;
  };
  table.cuMemFreeHost = [](void* host) {
    ENTER(cuMemFreeHost);
    NEEDS_CONTEXT();
    std::lock_guard lock(fake_driver().mutex);
    return fake_driver().host_blocks.erase(host) == 1 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
  };
  table.cuMemPoolCreate = [](CUmemoryPool* pool, const CUmemPoolProps*) {
    ENTER(cuMemPoolCreate);
    *pool = handle<CUmemoryPool>(&pool_tag);
    return CUDA_SUCCESS;
  };
  table.cuMemPoolDestroy = [](CUmemoryPool) {
    ENTER(cuMemPoolDestroy);
    return CUDA_SUCCESS;
  };
  table.cuMemPoolSetAttribute = [](CUmemoryPool, CUmemPool_attribute, void*) {
    ENTER(cuMemPoolSetAttribute);
    return CUDA_SUCCESS;
  };
  table.cuMemAllocFromPoolAsync = [](CUdeviceptr* address, std::size_t bytes, CUmemoryPool, CUstream stream) {
    ENTER(cuMemAllocFromPoolAsync);
    NEEDS_CONTEXT();
    const CUresult result = allocate(address, bytes);
    std::lock_guard lock(fake_driver().mutex);
    fake_driver().pool_blocks[*address] = stream;
    return result;
  };
  table.cuMemFreeAsync = [](CUdeviceptr address, CUstream stream) {
    ENTER(cuMemFreeAsync);
    NEEDS_CONTEXT();
    std::lock_guard lock(fake_driver().mutex);
    auto& blocks = fake_driver().pool_blocks;
    const auto block = blocks.find(address);
    if (block == blocks.end() || block->second != stream) return CUDA_ERROR_INVALID_VALUE;
    blocks.erase(block);
    return CUDA_SUCCESS;
  };
  table.cuMemcpyHtoD = [](CUdeviceptr to, const void* from, std::size_t bytes) {
    ENTER(cuMemcpyHtoD);
    NEEDS_CONTEXT();
    std::memcpy(reinterpret_cast<void*>(to), from, bytes);
    return CUDA_SUCCESS;
  };
  table.cuMemcpyDtoH = [](void* to, CUdeviceptr from, std::size_t bytes) {
    ENTER(cuMemcpyDtoH);
    NEEDS_CONTEXT();
    std::memcpy(to, reinterpret_cast<const void*>(from), bytes);
    return CUDA_SUCCESS;
  };
  table.cuMemcpyDtoHAsync = [](void* to, CUdeviceptr from, std::size_t bytes, CUstream) {
    ENTER(cuMemcpyDtoHAsync);
    NEEDS_CONTEXT();
    std::memcpy(to, reinterpret_cast<const void*>(from), bytes);
    return CUDA_SUCCESS;
  };
  table.cuMemsetD8Async = [](CUdeviceptr to, unsigned char byte, std::size_t bytes, CUstream) {
    ENTER(cuMemsetD8Async);
    NEEDS_CONTEXT();
    std::memset(reinterpret_cast<void*>(to), byte, bytes);
    return CUDA_SUCCESS;
  };
  table.cuMemsetD32Async = [](CUdeviceptr to, unsigned value, std::size_t count, CUstream) {
    ENTER(cuMemsetD32Async);
    NEEDS_CONTEXT();
    std::fill_n(reinterpret_cast<unsigned*>(to), count, value);
    return CUDA_SUCCESS;
  };
  table.cuMemsetD2D8Async = [](CUdeviceptr to, std::size_t pitch, unsigned char byte, std::size_t width,
                               std::size_t height, CUstream) {
    ENTER(cuMemsetD2D8Async);
    NEEDS_CONTEXT();
    for (std::size_t row = 0; row < height; ++row)
      std::memset(reinterpret_cast<void*>(to + row * pitch), byte, width);
    return CUDA_SUCCESS;
  };
}

void fill_stream_calls(DriverTable& table) {
  table.cuStreamSynchronize = [](CUstream) {
    ENTER(cuStreamSynchronize);
    NEEDS_CONTEXT();
    return CUDA_SUCCESS;
  };
  table.cuStreamIsCapturing = [](CUstream, CUstreamCaptureStatus* status) {
    ENTER(cuStreamIsCapturing);
    NEEDS_CONTEXT();
    *status = fake_driver().capture;
    return CUDA_SUCCESS;
  };
  table.cuStreamGetId = [](CUstream stream, unsigned long long* id) {
    ENTER(cuStreamGetId);
    NEEDS_CONTEXT();
    *id = reinterpret_cast<std::uintptr_t>(stream);
    return CUDA_SUCCESS;
  };
  // An odd stream handle belongs to device 1.
  table.cuStreamGetCtx = [](CUstream stream, CUcontext* context) {
    ENTER(cuStreamGetCtx);
    *context = reinterpret_cast<std::uintptr_t>(stream) % 2 == 1 ? fake_context(1) : fake_primary_context();
    return CUDA_SUCCESS;
  };
  table.cuThreadExchangeStreamCaptureMode = [](CUstreamCaptureMode* mode) {
    ENTER(cuThreadExchangeStreamCaptureMode);
    thread_local CUstreamCaptureMode current = CU_STREAM_CAPTURE_MODE_GLOBAL;
    std::swap(*mode, current);
    return CUDA_SUCCESS;
  };
}

DriverTable make_table() {
  DriverTable table;
  table.cuGetErrorName = [](CUresult result, const char** name) {
    *name = result == CUDA_ERROR_OUT_OF_MEMORY    ? "CUDA_ERROR_OUT_OF_MEMORY"
            : result == CUDA_ERROR_INVALID_HANDLE ? "CUDA_ERROR_INVALID_HANDLE"
                                                  : "CUDA_ERROR_SOMETHING";
    return CUDA_SUCCESS;
  };
  table.cuGetErrorString = [](CUresult, const char** text) {
    *text = "as injected";
    return CUDA_SUCCESS;
  };
  table.cuDeviceGet = [](CUdevice* device, int ordinal) {
    ENTER(cuDeviceGet);
    *device = ordinal;
    return CUDA_SUCCESS;
  };
  table.cuDeviceGetCount = [](int* count) {
    ENTER(cuDeviceGetCount);
    *count = fake_driver().gpu_count;
    return CUDA_SUCCESS;
  };
  table.cuPointerGetAttribute = pointer_attribute;
  table.cuDeviceGetName = [](char* name, int length, CUdevice) {
    ENTER(cuDeviceGetName);
    std::strncpy(name, "Fake GPU", static_cast<std::size_t>(length));
    return CUDA_SUCCESS;
  };
  table.cuDeviceGetAttribute = device_attribute;
  table.cuLaunchKernelEx = launch_kernel;
  table.cuTensorMapEncodeTiled = encode_map;
  fill_context_calls(table);
  fill_library_calls(table);
  fill_memory_calls(table);
  fill_stream_calls(table);
  return table;
}

std::unique_ptr<FakeDriver>& owner() {
  static std::unique_ptr<FakeDriver> fake = std::make_unique<FakeDriver>();
  return fake;
}

}  // namespace

CUresult FakeDriver::call(const char* name) {
  if (!record) return CUDA_SUCCESS;
  std::lock_guard lock(mutex);
  calls.push_back(name);
  const auto failure = failures.find(name);
  if (failure == failures.end()) return CUDA_SUCCESS;
  const auto left = failures_left.find(name);
  if (left != failures_left.end() && left->second-- <= 0) return CUDA_SUCCESS;
  return failure->second;
}

int FakeDriver::count(const std::string& name) const {
  return static_cast<int>(std::ranges::count(calls, name));
}

FakeDriver& fake_driver() { return *owner(); }
void reset_fake_driver() {
  owner() = std::make_unique<FakeDriver>();
  current_context = nullptr;
}

const DriverTable& fake_driver_table() {
  static const DriverTable table = make_table();
  return table;
}

// Two tags a device: its primary context and another one.
CUcontext fake_primary_context() { return handle<CUcontext>(&context_tags[0]); }
CUcontext fake_context(int ordinal) { return handle<CUcontext>(&context_tags[2 * ordinal + 1]); }
CUcontext& fake_current_context() { return current_context; }

Device attach_fake_device(ImageKind image_kind, const std::string& name) {
  auto impl = Device::Impl::attach(
      {name, &fake_driver_table(), 0, image_kind, [] { return std::string("the fake driver's report"); }});
  REQUIRE_MESSAGE(impl.ok(), impl.status().message());
  return Device(*impl);
}

}  // namespace jfa::test
