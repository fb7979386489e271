// Initialisation, the one device, its primary context and the threads' stacks of current contexts.
#include <array>
#include <cstring>

#include "simulator/driver/driver.h"

namespace jfa::simulator {

std::vector<CUcontext>& SimulatedDriver::context_stack() const {
  thread_local std::array<std::vector<CUcontext>, kMaxDevices> stacks;
  return stacks[static_cast<std::size_t>(slot_)];
}

CUresult SimulatedDriver::require_context() const {
  const std::vector<CUcontext>& stack = context_stack();
  if (stack.empty() || stack.back() == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  return retained_ > 0 ? CUDA_SUCCESS : CUDA_ERROR_CONTEXT_IS_DESTROYED;
}

CUresult SimulatedDriver::refuse(CUresult result, std::string reason) {
  last_report_ = std::move(reason);
  return result;
}

CUresult SimulatedDriver::cuInit(unsigned int flags) {
  if (flags != 0) return CUDA_ERROR_INVALID_VALUE;
  initialised_ = true;
  return CUDA_SUCCESS;
}

CUresult SimulatedDriver::cuDriverGetVersion(int* version) {
  if (version == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *version = kDriverVersion;
  return CUDA_SUCCESS;
}

CUresult SimulatedDriver::cuDeviceGetCount(int* count) {
  if (count == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *count = 1;
  return CUDA_SUCCESS;
}

CUresult SimulatedDriver::cuDeviceGet(CUdevice* device, int ordinal) {
  if (device == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (ordinal != 0) return CUDA_ERROR_INVALID_DEVICE;
  *device = kDevice;
  return CUDA_SUCCESS;
}

CUresult SimulatedDriver::cuDeviceGetName(char* name, int length, CUdevice device) {
  if (name == nullptr || length <= 0) return CUDA_ERROR_INVALID_VALUE;
  if (device != kDevice) return CUDA_ERROR_INVALID_DEVICE;
  const std::string full = "Simulated " +
                           std::string(options_.target.family() == 9 ? "Hopper" : "Blackwell") + " (" +
                           options_.name + ")";
  const std::size_t count = std::min(full.size(), static_cast<std::size_t>(length) - 1);
  std::memcpy(name, full.data(), count);
  name[count] = '\0';
  return CUDA_SUCCESS;
}

CUresult SimulatedDriver::cuDeviceTotalMem(size_t* bytes, CUdevice device) {
  if (bytes == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (device != kDevice) return CUDA_ERROR_INVALID_DEVICE;
  *bytes = kTotalMemoryBytes;
  return CUDA_SUCCESS;
}

CUresult SimulatedDriver::cuDevicePrimaryCtxRetain(CUcontext* context, CUdevice device) {
  if (context == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (device != kDevice) return CUDA_ERROR_INVALID_DEVICE;
  ++retained_;
  *context = primary_handle();
  return CUDA_SUCCESS;
}

CUresult SimulatedDriver::cuDevicePrimaryCtxRelease(CUdevice device) {
  if (device != kDevice) return CUDA_ERROR_INVALID_DEVICE;
  if (retained_ == 0) return CUDA_ERROR_INVALID_CONTEXT;
  if (--retained_ == 0) destroy_context();
  return CUDA_SUCCESS;
}

void SimulatedDriver::destroy_context() {
  for (const CUdeviceptr address : allocations_) memory_.free(address);
  allocations_.clear();
  for (const auto& [host, address] : host_allocations_) memory_.free(address);
  host_allocations_.clear();
  streams_.clear();
  events_.clear();
  pools_.clear();
  legacy_stream_.pending = per_thread_stream_.pending = CUDA_SUCCESS;
}

CUresult SimulatedDriver::cuCtxGetCurrent(CUcontext* context) {
  if (context == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const std::vector<CUcontext>& stack = context_stack();
  *context = stack.empty() ? nullptr : stack.back();
  return CUDA_SUCCESS;
}

CUresult SimulatedDriver::cuCtxSetCurrent(CUcontext context) {
  if (context != nullptr && (context != primary_handle() || retained_ == 0))
    return CUDA_ERROR_INVALID_CONTEXT;
  std::vector<CUcontext>& stack = context_stack();
  if (!stack.empty()) stack.pop_back();
  if (context != nullptr) stack.push_back(context);
  return CUDA_SUCCESS;
}

CUresult SimulatedDriver::cuCtxPushCurrent(CUcontext context) {
  if (context != primary_handle() || retained_ == 0) return CUDA_ERROR_INVALID_CONTEXT;
  context_stack().push_back(context);
  return CUDA_SUCCESS;
}

CUresult SimulatedDriver::cuCtxPopCurrent(CUcontext* context) {
  std::vector<CUcontext>& stack = context_stack();
  if (stack.empty()) return CUDA_ERROR_INVALID_CONTEXT;
  if (context != nullptr) *context = stack.back();
  stack.pop_back();
  return CUDA_SUCCESS;
}

CUresult SimulatedDriver::cuCtxGetDevice(CUdevice* device) {
  if (device == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (const CUresult error = require_context()) return error;
  *device = kDevice;
  return CUDA_SUCCESS;
}

CUresult SimulatedDriver::cuCtxSynchronize() {
  if (const CUresult error = require_context()) return error;
  return synchronise_all();
}

}  // namespace jfa::simulator
