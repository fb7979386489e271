// Names and descriptions of the driver API's error codes.
#include <array>

#include "simulator/driver/driver.h"

namespace jfa::simulator {
namespace {

struct ErrorText {
  CUresult code;
  const char* name;
  const char* description;
};

#define JFA_ERROR(code, description) \
  ErrorText { code, #code, description }
constexpr std::array kErrors = {
    JFA_ERROR(CUDA_SUCCESS, "no error"),
    JFA_ERROR(CUDA_ERROR_INVALID_VALUE, "invalid argument"),
    JFA_ERROR(CUDA_ERROR_OUT_OF_MEMORY, "out of memory"),
    JFA_ERROR(CUDA_ERROR_NOT_INITIALIZED, "initialization error"),
    JFA_ERROR(CUDA_ERROR_DEINITIALIZED, "driver shutting down"),
    JFA_ERROR(CUDA_ERROR_NO_DEVICE, "no CUDA-capable device is detected"),
    JFA_ERROR(CUDA_ERROR_INVALID_DEVICE, "invalid device ordinal"),
    JFA_ERROR(CUDA_ERROR_INVALID_IMAGE, "device kernel image is invalid"),
    JFA_ERROR(CUDA_ERROR_INVALID_CONTEXT, "invalid device context"),
    JFA_ERROR(CUDA_ERROR_NO_BINARY_FOR_GPU, "no kernel image is available for execution on the device"),
    JFA_ERROR(CUDA_ERROR_UNSUPPORTED_LIMIT, "limit is not supported on this architecture"),
    JFA_ERROR(CUDA_ERROR_INVALID_PTX, "a PTX JIT compilation failed"),
    JFA_ERROR(CUDA_ERROR_UNSUPPORTED_PTX_VERSION,
              "the provided PTX was compiled with an unsupported toolchain"),
    JFA_ERROR(CUDA_ERROR_INVALID_SOURCE, "device kernel image is invalid"),
    JFA_ERROR(CUDA_ERROR_FILE_NOT_FOUND, "file not found"),
    JFA_ERROR(CUDA_ERROR_SHARED_OBJECT_SYMBOL_NOT_FOUND, "shared object symbol not found"),
    JFA_ERROR(CUDA_ERROR_SHARED_OBJECT_INIT_FAILED, "shared object initialization failed"),
    JFA_ERROR(CUDA_ERROR_OPERATING_SYSTEM, "OS call failed or operation not supported on this OS"),
    JFA_ERROR(CUDA_ERROR_INVALID_HANDLE, "invalid resource handle"),
    JFA_ERROR(CUDA_ERROR_ILLEGAL_STATE, "the operation cannot be performed in the present state"),
    JFA_ERROR(CUDA_ERROR_NOT_FOUND, "named symbol not found"),
    JFA_ERROR(CUDA_ERROR_NOT_READY, "device not ready"),
    JFA_ERROR(CUDA_ERROR_ILLEGAL_ADDRESS, "an illegal memory access was encountered"),
    JFA_ERROR(CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES, "too many resources requested for launch"),
    JFA_ERROR(CUDA_ERROR_LAUNCH_TIMEOUT, "the launch timed out and was terminated"),
    JFA_ERROR(CUDA_ERROR_PRIMARY_CONTEXT_ACTIVE, "primary context is active"),
    JFA_ERROR(CUDA_ERROR_CONTEXT_IS_DESTROYED, "context is destroyed"),
    JFA_ERROR(CUDA_ERROR_ASSERT, "device-side assert triggered"),
    JFA_ERROR(CUDA_ERROR_HARDWARE_STACK_ERROR, "hardware stack error"),
    JFA_ERROR(CUDA_ERROR_ILLEGAL_INSTRUCTION, "an illegal instruction was encountered"),
    JFA_ERROR(CUDA_ERROR_MISALIGNED_ADDRESS, "misaligned address"),
    JFA_ERROR(CUDA_ERROR_INVALID_ADDRESS_SPACE, "operation not supported on this address space"),
    JFA_ERROR(CUDA_ERROR_INVALID_PC, "invalid program counter"),
    JFA_ERROR(CUDA_ERROR_LAUNCH_FAILED, "unspecified launch failure"),
    JFA_ERROR(CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE, "too many blocks in cooperative launch"),
    JFA_ERROR(CUDA_ERROR_TENSOR_MEMORY_LEAK, "tensor memory was not deallocated before the kernel's end"),
    JFA_ERROR(CUDA_ERROR_NOT_PERMITTED, "operation not permitted"),
    JFA_ERROR(CUDA_ERROR_NOT_SUPPORTED, "operation not supported"),
    JFA_ERROR(CUDA_ERROR_SYSTEM_DRIVER_MISMATCH,
              "system has unsupported display driver / cuda driver combination"),
    JFA_ERROR(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, "operation not permitted when stream is capturing"),
    JFA_ERROR(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED,
              "operation failed due to a previous error during capture"),
    JFA_ERROR(CUDA_ERROR_INVALID_CLUSTER_SIZE, "invalid cluster dimensions"),
    JFA_ERROR(CUDA_ERROR_UNKNOWN, "unknown error"),
};
#undef JFA_ERROR

CUresult look_up(CUresult error, const char** text, const char* ErrorText::*field) {
  if (text == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *text = nullptr;
  for (const ErrorText& known : kErrors) {
    if (known.code == error) *text = known.*field;
  }
  return *text == nullptr ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

}  // namespace

CUresult SimulatedDriver::cuGetErrorName(CUresult error, const char** text) {
  return look_up(error, text, &ErrorText::name);
}

CUresult SimulatedDriver::cuGetErrorString(CUresult error, const char** text) {
  return look_up(error, text, &ErrorText::description);
}

}  // namespace jfa::simulator
