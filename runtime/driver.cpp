#include "runtime/driver.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <mutex>

#include "runtime/fork_guard.h"

namespace jfa {
namespace {

// The name after cuda.h's macros have put the version on, which is the one that decltype(&::name) has the
// type of.
#define JFA_QUOTE(name) #name
#define JFA_VERSIONED_NAME(name) JFA_QUOTE(name)

Status fill(void* library, DriverTable* table) {
  std::string missing;
#define JFA_LOAD_CALL(name)                                                                        \
  table->name = reinterpret_cast<decltype(table->name)>(dlsym(library, JFA_VERSIONED_NAME(name))); \
  if (!table->name && missing.empty()) missing = JFA_VERSIONED_NAME(name);
  JFA_DRIVER_CALLS(JFA_LOAD_CALL)
#undef JFA_LOAD_CALL
  if (missing.empty()) return {};
  int version = 0;
  if (table->cuDriverGetVersion) (void)table->cuDriverGetVersion(&version);
  return Status::unavailable(fmt::format(
      "the CUDA driver is too old: its CUDA version is {}.{}, it lacks {}; 12.8 or later is needed",
      version / 1000, version % 1000 / 10, missing));
}

}  // namespace

Result<const DriverTable*> open_cuda_driver() {
  static std::mutex mutex;
  static DriverTable table;
  static bool ready = false;
  static unsigned generation = 0;
  std::lock_guard lock(mutex);
  if (ready && generation != fork_generation()) {
    return Status::unavailable(
        "the CUDA driver was initialised before fork() and cannot be used in the child; fork before the "
        "first "
        "use of a device, or start the child with exec");
  }
  if (!ready) {
    // Never closed: contexts and modules live until the process ends.
    void* library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!library) {
      return Status(
          ErrorKind::kUnavailable,
          "no CUDA driver: libcuda.so.1 cannot be opened; install the NVIDIA driver, or use a simulated "
          "device such as sim:sm_100a",
          dlerror());
    }
    if (Status status = fill(library, &table); !status.ok()) return status;
    if (CUresult result = table.cuInit(0); result != CUDA_SUCCESS)
      return Status::unavailable(fmt::format("cuInit: {}", describe(table, result)));
    ready = true;
    generation = fork_generation();
  }
  return &table;
}

std::string describe(const DriverTable& driver, CUresult result) {
  const char* name = nullptr;
  const char* text = nullptr;
  if (driver.cuGetErrorName(result, &name) != CUDA_SUCCESS || !name)
    return fmt::format("CUDA error {}", static_cast<int>(result));
  if (driver.cuGetErrorString(result, &text) != CUDA_SUCCESS || !text) return name;
  return fmt::format("{} ({})", name, text);
}

Status driver_status(const DriverTable& driver, CUresult result, std::string_view what) {
  if (result == CUDA_SUCCESS) return {};
  std::string message = fmt::format("{}: {}", what, describe(driver, result));
  if (result == CUDA_ERROR_OUT_OF_MEMORY) return Status::unavailable(std::move(message));
  return Status::device(std::move(message));
}

ContextGuard::ContextGuard(const DriverTable& driver, CUcontext context) : driver_(driver) {
  CUcontext current = nullptr;
  result_ = driver_.cuCtxGetCurrent(&current);
  if (result_ != CUDA_SUCCESS || current == context) return;
  result_ = driver_.cuCtxPushCurrent(context);
  pushed_ = result_ == CUDA_SUCCESS;
}

ContextGuard::~ContextGuard() {
  CUcontext popped;
  if (pushed_) (void)driver_.cuCtxPopCurrent(&popped);
}

RelaxedCapture::RelaxedCapture(const DriverTable& driver) : driver_(driver) {
  exchanged_ = driver_.cuThreadExchangeStreamCaptureMode(&mode_) == CUDA_SUCCESS;
}

RelaxedCapture::~RelaxedCapture() {
  if (exchanged_) (void)driver_.cuThreadExchangeStreamCaptureMode(&mode_);
}

}  // namespace jfa
