// Libraries of kernels, loaded from PTX text.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <string_view>

#include "simulator/driver/driver.h"

namespace jfa::simulator {
namespace {

// The JIT options that mean something here: where to write messages.
struct JitLog {
  char* text = nullptr;
  std::size_t capacity_bytes = 0;
  void** size_value = nullptr;  // gets the bytes written

  void write(std::string_view message) {
    std::size_t count = 0;
    if (text != nullptr && capacity_bytes > 0) {
      count = std::min(message.size(), capacity_bytes - 1);
      if (count > 0) std::memcpy(text, message.data(), count);
      text[count] = '\0';
    }
    if (size_value != nullptr) *size_value = reinterpret_cast<void*>(count);
  }
};

struct JitOptions {
  JitLog error, info;
  bool valid = true;
};

JitOptions read_jit_options(const CUjit_option* options, void** values, unsigned int count) {
  JitOptions result;
  if (count > 0 && (options == nullptr || values == nullptr)) {
    result.valid = false;
    return result;
  }
  for (unsigned int i = 0; i < count; ++i) {
    const auto size = reinterpret_cast<std::size_t>(values[i]) & 0xffffffff;  // an unsigned int in a pointer
    switch (options[i]) {
      case CU_JIT_ERROR_LOG_BUFFER:
        result.error.text = static_cast<char*>(values[i]);
        break;
      case CU_JIT_INFO_LOG_BUFFER:
        result.info.text = static_cast<char*>(values[i]);
        break;
      case CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES:
        result.error.capacity_bytes = size;
        result.error.size_value = &values[i];
        break;
      case CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES:
        result.info.capacity_bytes = size;
        result.info.size_value = &values[i];
        break;
      default:
        // The others steer a code generator that does not exist here.
        if (options[i] < 0 || options[i] >= CU_JIT_NUM_OPTIONS) result.valid = false;
    }
  }
  return result;
}

enum class ImageKind { kPtx, kBinary, kUnknown };

ImageKind image_kind(const char* code) {
  constexpr unsigned char kElf[] = {0x7f, 'E', 'L', 'F'};
  constexpr unsigned char kFatbin[] = {0x50, 0xed, 0x55, 0xba};
  if (std::memcmp(code, kElf, 1) == 0)
    return std::memcmp(code, kElf, 4) == 0 ? ImageKind::kBinary : ImageKind::kUnknown;
  if (std::memcmp(code, kFatbin, 1) == 0 && std::memcmp(code, kFatbin, 4) == 0) return ImageKind::kBinary;
  return std::strstr(code, ".version") != nullptr ? ImageKind::kPtx : ImageKind::kUnknown;
}

}  // namespace

CUresult SimulatedDriver::cuLibraryLoadData(CUlibrary* library, const void* code, CUjit_option* jit_options,
                                            void** jit_option_values, unsigned int jit_option_count,
                                            CUlibraryOption*, void**, unsigned int) {
  if (library == nullptr || code == nullptr) return CUDA_ERROR_INVALID_VALUE;
  JitOptions jit = read_jit_options(jit_options, jit_option_values, jit_option_count);
  if (!jit.valid) return CUDA_ERROR_INVALID_VALUE;
  const auto fail = [&](CUresult result, std::string message) {
    jit.error.write(message);
    return refuse(result, std::move(message));
  };
  const char* text = static_cast<const char*>(code);
  switch (image_kind(text)) {
    case ImageKind::kPtx:
      break;
    case ImageKind::kBinary:
      return fail(CUDA_ERROR_NO_BINARY_FOR_GPU,
                  "the image is a cubin or fatbin; a simulated device runs PTX text only");
    case ImageKind::kUnknown:
      return fail(CUDA_ERROR_INVALID_IMAGE, "the image is not PTX: it has no .version");
  }
  Result<std::unique_ptr<Module>> module = Module::load(text, memory_);
  if (!module.ok()) {
    const Status status = module.status();
    return fail(CUDA_ERROR_INVALID_PTX,
                status.detail().empty() ? status.message() : status.message() + "\n" + status.detail());
  }
  const std::optional<Target> target = parse_target((*module)->target());
  if (!target || !runs(options_.target, *target)) {
    return fail(CUDA_ERROR_NO_BINARY_FOR_GPU, fmt::format("PTX for .target {} does not run on a simulated {}",
                                                          (*module)->target(), options_.target_name));
  }
  jit.error.write({});
  jit.info.write({});
  auto object = std::make_unique<Library>();
  object->module = std::move(*module);
  *library = libraries_.add(std::move(object));
  return CUDA_SUCCESS;
}

CUresult SimulatedDriver::cuLibraryUnload(CUlibrary library) {
  const Library* object = libraries_.find(library);
  if (object == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  for (const auto& [name, kernel] : object->kernels) kernels_.remove(kernel);
  libraries_.remove(library);
  return CUDA_SUCCESS;
}

CUresult SimulatedDriver::cuLibraryGetKernel(CUkernel* kernel, CUlibrary library, const char* name) {
  if (kernel == nullptr || name == nullptr) return CUDA_ERROR_INVALID_VALUE;
  Library* object = libraries_.find(library);
  if (object == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (const auto known = object->kernels.find(name); known != object->kernels.end()) {
    *kernel = known->second;
    return CUDA_SUCCESS;
  }
  const Entry* entry = object->module->find(name);
  if (entry == nullptr)
    return refuse(CUDA_ERROR_NOT_FOUND, fmt::format("the library has no kernel '{}'", name));
  auto added = std::make_unique<Kernel>();
  added->library = object;
  added->entry = entry;
  added->max_dynamic_shared_bytes = kDefaultSharedBytes - static_cast<int>(entry->static_shared_bytes);
  *kernel = object->kernels[name] = kernels_.add(std::move(added));
  return CUDA_SUCCESS;
}

CUresult SimulatedDriver::cuKernelGetAttribute(int* value, CUfunction_attribute attribute, CUkernel kernel,
                                               CUdevice device) {
  if (value == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (device != kDevice) return CUDA_ERROR_INVALID_DEVICE;
  const Kernel* object = kernels_.find(kernel);
  if (object == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  const Entry& entry = *object->entry;
  const auto give = [&](auto number) {
    *value = static_cast<int>(number);
    return CUDA_SUCCESS;
  };
  switch (attribute) {
    case CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK:
      return give(entry.max_threads);
    case CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES:
      return give(entry.static_shared_bytes);
    case CU_FUNC_ATTRIBUTE_CONST_SIZE_BYTES:
      return give(0);
    case CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES:
      return give(entry.local_bytes);
    // PTX has as many registers as it likes; what a compiler may use at most is all that is known.
    case CU_FUNC_ATTRIBUTE_NUM_REGS:
      return give(entry.max_registers != 0 ? entry.max_registers : 255u);
    case CU_FUNC_ATTRIBUTE_PTX_VERSION:
    case CU_FUNC_ATTRIBUTE_BINARY_VERSION:
      return give(options_.target.version);
    case CU_FUNC_ATTRIBUTE_CACHE_MODE_CA:
      return give(0);
    case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES:
      return give(object->max_dynamic_shared_bytes);
    case CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT:
      return give(object->carveout_percent);
    case CU_FUNC_ATTRIBUTE_CLUSTER_SIZE_MUST_BE_SET:
      return give(0);
    case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH:
      return give(entry.required_cluster.x);
    case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_HEIGHT:
      return give(entry.required_cluster.y);
    case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_DEPTH:
      return give(entry.required_cluster.z);
    case CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED:
      return give(object->non_portable_cluster);
    case CU_FUNC_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE:
      return give(object->cluster_scheduling_policy);
    default:
      return CUDA_ERROR_INVALID_VALUE;
  }
}

CUresult SimulatedDriver::cuKernelSetAttribute(CUfunction_attribute attribute, int value, CUkernel kernel,
                                               CUdevice device) {
  if (device != kDevice) return CUDA_ERROR_INVALID_DEVICE;
  Kernel* object = kernels_.find(kernel);
  if (object == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  const auto set = [&](int& field, int least, int most) {
    if (value < least || value > most) {
      return refuse(CUDA_ERROR_INVALID_VALUE,
                    fmt::format("kernel '{}': attribute {} is {} and must be {} to {}", object->entry->name,
                                static_cast<int>(attribute), value, least, most));
    }
    field = value;
    return CUDA_SUCCESS;
  };
  switch (attribute) {
    case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES:
      return set(object->max_dynamic_shared_bytes, 0,
                 static_cast<int>(kMaxSharedBytesPerCta - object->entry->static_shared_bytes));
    case CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT:
      return set(object->carveout_percent, -1, 100);
    case CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED:
      return set(object->non_portable_cluster, 0, 1);
    case CU_FUNC_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE:
      return set(object->cluster_scheduling_policy, 0, 2);
    default:
      return CUDA_ERROR_INVALID_VALUE;  // the others are read-only
  }
}

}  // namespace jfa::simulator
