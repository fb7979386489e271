// One simulated device behind the driver API. Members named cu… are the API's calls with its contracts; where
// the API leaves a choice, or the simulator differs, the comment says so.
//
// Work runs when it is enqueued, in the order of the calls, which is an order every stream allows. A kernel's
// failure is reported like an asynchronous one: the launch succeeds, and the error is returned once, by the
// first call that synchronises with its stream. Unlike on a real device the context stays usable.
#pragma once

#include <cuda.h>

#include <chrono>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/driver_table.h"
#include "simulator/driver/options.h"
#include "simulator/driver/timed_launch.h"
#include "simulator/machine/device_memory.h"
#include "simulator/machine/launch.h"
#include "simulator/machine/recorder.h"

namespace jfa::simulator {

/// Opaque handles: a map from the address of an object to the object, so that any pointer may be asked about.
template <class Handle, class Object>
class Handles {
 public:
  Handle add(std::unique_ptr<Object> object) {
    Object* address = object.get();
    objects_[address] = std::move(object);
    return reinterpret_cast<Handle>(address);
  }
  /// Null if the handle is not one of these.
  Object* find(Handle handle) const {
    const auto found = objects_.find(reinterpret_cast<const void*>(handle));
    return found == objects_.end() ? nullptr : found->second.get();
  }
  bool remove(Handle handle) { return objects_.erase(reinterpret_cast<const void*>(handle)) != 0; }
  void clear() { objects_.clear(); }
  template <class Function>
  void for_each(Function function) const {
    for (const auto& [address, object] : objects_) function(*object);
  }

 private:
  std::map<const void*, std::unique_ptr<Object>> objects_;
};

class SimulatedDriver {
 public:
  /// Devices of a process, each with a table of its own.
  static constexpr int kMaxDevices = 64;
  static constexpr std::uint64_t kTotalMemoryBytes = std::uint64_t{16} << 30;
  static constexpr int kDriverVersion = 13000;
  /// Shared memory a kernel may use, static and dynamic, before it opts in to more.
  static constexpr int kDefaultSharedBytes = 49152;
  static constexpr CUdevice kDevice = 0;

  /// slot: index among the process's devices.
  SimulatedDriver(DeviceOptions options, int slot) : options_(std::move(options)), slot_(slot) {}

  // cuda.h's macros add the version suffixes to these names, as they do to the table's.
  CUresult cuInit(unsigned int flags);
  CUresult cuDriverGetVersion(int* version);
  CUresult cuGetErrorName(CUresult error, const char** text);
  CUresult cuGetErrorString(CUresult error, const char** text);

  CUresult cuDeviceGetCount(int* count);
  CUresult cuDeviceGet(CUdevice* device, int ordinal);
  CUresult cuDeviceGetName(char* name, int length, CUdevice device);
  CUresult cuDeviceGetAttribute(int* value, CUdevice_attribute attribute, CUdevice device);
  CUresult cuDeviceTotalMem(size_t* bytes, CUdevice device);

  CUresult cuDevicePrimaryCtxRetain(CUcontext* context, CUdevice device);
  CUresult cuDevicePrimaryCtxRelease(CUdevice device);
  CUresult cuCtxGetCurrent(CUcontext* context);
  CUresult cuCtxSetCurrent(CUcontext context);
  CUresult cuCtxPushCurrent(CUcontext context);
  CUresult cuCtxPopCurrent(CUcontext* context);
  CUresult cuCtxGetDevice(CUdevice* device);
  CUresult cuCtxSynchronize();

  CUresult cuLibraryLoadData(CUlibrary* library, const void* code, CUjit_option* jit_options,
                             void** jit_option_values, unsigned int jit_option_count,
                             CUlibraryOption* library_options, void** library_option_values,
                             unsigned int library_option_count);
  CUresult cuLibraryUnload(CUlibrary library);
  CUresult cuLibraryGetKernel(CUkernel* kernel, CUlibrary library, const char* name);
  CUresult cuKernelGetAttribute(int* value, CUfunction_attribute attribute, CUkernel kernel, CUdevice device);
  CUresult cuKernelSetAttribute(CUfunction_attribute attribute, int value, CUkernel kernel, CUdevice device);
  CUresult cuLaunchKernelEx(const CUlaunchConfig* config, CUfunction function, void** parameters,
                            void** extra);

  CUresult cuMemAlloc(CUdeviceptr* address, size_t bytes);
  CUresult cuMemFree(CUdeviceptr address);
  CUresult cuMemAllocAsync(CUdeviceptr* address, size_t bytes, CUstream stream);
  CUresult cuMemFreeAsync(CUdeviceptr address, CUstream stream);
  CUresult cuMemPoolCreate(CUmemoryPool* pool, const CUmemPoolProps* properties);
  CUresult cuMemPoolDestroy(CUmemoryPool pool);
  CUresult cuMemPoolSetAttribute(CUmemoryPool pool, CUmemPool_attribute attribute, void* value);
  CUresult cuMemAllocFromPoolAsync(CUdeviceptr* address, size_t bytes, CUmemoryPool pool, CUstream stream);
  CUresult cuMemcpyHtoD(CUdeviceptr destination, const void* source, size_t bytes);
  CUresult cuMemcpyDtoH(void* destination, CUdeviceptr source, size_t bytes);
  CUresult cuMemcpyHtoDAsync(CUdeviceptr destination, const void* source, size_t bytes, CUstream stream);
  CUresult cuMemcpyDtoHAsync(void* destination, CUdeviceptr source, size_t bytes, CUstream stream);
  CUresult cuMemcpyDtoDAsync(CUdeviceptr destination, CUdeviceptr source, size_t bytes, CUstream stream);
  /// Host memory has an address of its own on the device.
  CUresult cuMemHostAlloc(void** host, size_t bytes, unsigned int flags);
  CUresult cuMemFreeHost(void* host);
  CUresult cuMemHostGetDevicePointer(CUdeviceptr* address, void* host, unsigned int flags);
  CUresult cuMemsetD8Async(CUdeviceptr address, unsigned char value, size_t count, CUstream stream);
  CUresult cuMemsetD32Async(CUdeviceptr address, unsigned int value, size_t count, CUstream stream);
  CUresult cuMemsetD2D8Async(CUdeviceptr address, size_t pitch, unsigned char value, size_t width,
                             size_t height, CUstream stream);
  CUresult cuPointerGetAttribute(void* data, CUpointer_attribute attribute, CUdeviceptr address);

  CUresult cuStreamCreate(CUstream* stream, unsigned int flags);
  CUresult cuStreamDestroy(CUstream stream);
  CUresult cuStreamSynchronize(CUstream stream);
  CUresult cuStreamIsCapturing(CUstream stream, CUstreamCaptureStatus* status);
  CUresult cuStreamGetCtx(CUstream stream, CUcontext* context);
  CUresult cuStreamGetId(CUstream stream, unsigned long long* id);
  CUresult cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode* mode);

  CUresult cuEventCreate(CUevent* event, unsigned int flags);
  CUresult cuEventDestroy(CUevent event);
  CUresult cuEventRecord(CUevent event, CUstream stream);
  CUresult cuEventSynchronize(CUevent event);
  CUresult cuEventElapsedTime(float* milliseconds, CUevent start, CUevent end);

  CUresult cuTensorMapEncodeTiled(CUtensorMap* map, CUtensorMapDataType data_type, cuuint32_t rank,
                                  void* address, const cuuint64_t* global_dim,
                                  const cuuint64_t* global_strides, const cuuint32_t* box_dim,
                                  const cuuint32_t* element_strides, CUtensorMapInterleave interleave,
                                  CUtensorMapSwizzle swizzle, CUtensorMapL2promotion l2_promotion,
                                  CUtensorMapFloatOOBfill oob_fill);
  CUresult cuOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, CUfunction function, int block_size,
                                                       size_t dynamic_shared_bytes);
  CUresult cuOccupancyMaxActiveClusters(int* clusters, CUfunction function, const CUlaunchConfig* config);

  // --- For the table.
  std::mutex& mutex() { return mutex_; }
  bool initialised() const { return initialised_; }
  const DeviceOptions& options() const { return options_; }
  const std::string& last_report() const { return last_report_; }
  std::uint64_t warp_instructions() const { return warp_instructions_; }
  double product_seconds() const { return product_seconds_; }
  std::vector<timing::TimedLaunch> take_timed_launches() { return std::exchange(timed_launches_, {}); }

 private:
  struct Stream {
    unsigned long long id = 0;
    unsigned int flags = CU_STREAM_DEFAULT;
    CUresult pending = CUDA_SUCCESS;  // of a kernel that failed since the last synchronisation
  };
  struct Event {
    unsigned int flags = CU_EVENT_DEFAULT;
    bool recorded = false;
    CUstream stream = nullptr;
    std::chrono::steady_clock::time_point time;
  };
  struct Library;
  struct Kernel {
    Library* library = nullptr;
    const Entry* entry = nullptr;
    int max_dynamic_shared_bytes = 0;
    int carveout_percent = -1;
    int non_portable_cluster = 0;
    int cluster_scheduling_policy = 0;
  };
  struct Library {
    std::unique_ptr<Module> module;
    std::map<std::string, CUkernel> kernels;  // those that were asked for
  };
  struct Pool {
    std::uint64_t release_threshold_bytes = 0;
  };

  // context.cpp
  std::vector<CUcontext>& context_stack() const;
  CUcontext primary_handle() { return reinterpret_cast<CUcontext>(&retained_); }
  CUresult require_context() const;
  void destroy_context();
  // stream.cpp
  Stream* find_stream(CUstream stream);
  static CUresult take_pending(Stream& stream);
  CUresult synchronise_default_stream();
  CUresult synchronise_all();
  // memory.cpp
  CUresult allocate(CUdeviceptr* address, size_t bytes);
  CUresult copy(std::byte* destination, const std::byte* source, size_t bytes);
  template <class Value>
  CUresult fill(CUdeviceptr address, Value value, size_t count, CUstream stream);
  // launch.cpp
  Kernel* find_kernel(CUfunction function) const;
  CUresult lay_out_parameters(const Entry& entry, void** parameters, void** extra,
                              std::vector<std::byte>& buffer);
  CUresult read_launch_attributes(const CUlaunchConfig& config, const Kernel& kernel, LaunchConfig& launch);
  CUresult check_shape(const CUlaunchConfig& config, const Kernel& kernel);

  /// The result, with the reason as the device's last report.
  CUresult refuse(CUresult result, std::string reason);

  DeviceOptions options_;
  int slot_;
  std::mutex mutex_;
  bool initialised_ = false;
  std::string last_report_;
  std::uint64_t warp_instructions_ = 0;              // of all launches
  double product_seconds_ = 0;                       // of those
  std::vector<timing::TimedLaunch> timed_launches_;  // with timing=1

  DeviceMemory memory_;
  std::set<CUdeviceptr> allocations_;  // of the context: not those of modules
  std::map<const void*, CUdeviceptr>
      host_allocations_;  // where the device has them; these too are of the context
  int retained_ = 0;      // of the primary context; its address is the context's handle
  unsigned long long next_stream_id_ = 3;
  Stream legacy_stream_{.id = 1};
  Stream per_thread_stream_{.id = 2};
  Handles<CUstream, Stream> streams_;
  Handles<CUevent, Event> events_;
  Handles<CUmemoryPool, Pool> pools_;
  Handles<CUkernel, Kernel> kernels_;  // they refer to libraries_
  Handles<CUlibrary, Library> libraries_;
};

}  // namespace jfa::simulator
