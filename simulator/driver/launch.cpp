// Launches: everything the API can refuse at the call, then the grid's run.
#include <fmt/format.h>

#include <cstdio>
#include <cstring>

#include "simulator/driver/driver.h"

namespace jfa::simulator {
namespace {

constexpr std::uint64_t kPortableClusterCtas = 8;
constexpr std::uint64_t kMaxClusterCtas = 16;

CUresult error_of(const Report& report) {
  switch (report.kind) {
    case ErrorKind::kOutOfBounds:
    case ErrorKind::kUseAfterFree:
      return CUDA_ERROR_ILLEGAL_ADDRESS;
    case ErrorKind::kMisaligned:
      return CUDA_ERROR_MISALIGNED_ADDRESS;
    case ErrorKind::kUnknownInstruction:
    case ErrorKind::kInvalidOperand:
    case ErrorKind::kDescriptor:
      return CUDA_ERROR_ILLEGAL_INSTRUCTION;
    case ErrorKind::kDeadlock:
    case ErrorKind::kLivelock:
      return CUDA_ERROR_LAUNCH_TIMEOUT;
    // No instruction is to blame for what a CTA leaves behind.
    case ErrorKind::kTensorMemory:
      return report.instruction.empty() ? CUDA_ERROR_TENSOR_MEMORY_LEAK : CUDA_ERROR_LAUNCH_FAILED;
    default:
      return CUDA_ERROR_LAUNCH_FAILED;
  }
}

}  // namespace

// A function may be a kernel of a library in disguise; here it always is.
SimulatedDriver::Kernel* SimulatedDriver::find_kernel(CUfunction function) const {
  return kernels_.find(reinterpret_cast<CUkernel>(function));
}

CUresult SimulatedDriver::lay_out_parameters(const Entry& entry, void** parameters, void** extra,
                                             std::vector<std::byte>& buffer) {
  buffer.assign(entry.parameter_bytes, std::byte{0});
  if (extra != nullptr) {
    if (parameters != nullptr) return CUDA_ERROR_INVALID_VALUE;
    const void* source = nullptr;
    size_t size = 0;
    for (void** item = extra; *item != CU_LAUNCH_PARAM_END; item += 2) {
      if (*item == CU_LAUNCH_PARAM_BUFFER_POINTER) {
        source = item[1];
      } else if (*item == CU_LAUNCH_PARAM_BUFFER_SIZE) {
        std::memcpy(&size, item[1], sizeof(size));
      } else {
        return CUDA_ERROR_INVALID_VALUE;
      }
    }
    if (size != entry.parameter_bytes || (size > 0 && source == nullptr)) {
      return refuse(CUDA_ERROR_INVALID_VALUE,
                    fmt::format("kernel '{}': a buffer of {} bytes of parameters, it takes {}", entry.name,
                                size, entry.parameter_bytes));
    }
    if (size > 0) std::memcpy(buffer.data(), source, size);
    return CUDA_SUCCESS;
  }
  for (std::size_t i = 0; i < entry.parameters.size(); ++i) {
    const Parameter& parameter = entry.parameters[i];
    if (parameters == nullptr || parameters[i] == nullptr) {
      return refuse(CUDA_ERROR_INVALID_VALUE, fmt::format("kernel '{}': no pointer to parameter {} ('{}')",
                                                          entry.name, i, parameter.name));
    }
    std::memcpy(buffer.data() + parameter.offset, parameters[i], parameter.size_bytes);
  }
  return CUDA_SUCCESS;
}

CUresult SimulatedDriver::read_launch_attributes(const CUlaunchConfig& config, const Kernel& kernel,
                                                 LaunchConfig& launch) {
  const Entry& entry = *kernel.entry;
  if (config.numAttrs > 0 && config.attrs == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (entry.required_cluster.x != 0) launch.cluster = entry.required_cluster;
  bool cooperative = false;
  for (unsigned int i = 0; i < config.numAttrs; ++i) {
    const CUlaunchAttribute& attribute = config.attrs[i];
    switch (attribute.id) {
      case CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION:
        launch.cluster = {attribute.value.clusterDim.x, attribute.value.clusterDim.y,
                          attribute.value.clusterDim.z};
        break;
      case CU_LAUNCH_ATTRIBUTE_COOPERATIVE:
        cooperative = attribute.value.cooperative != 0;
        break;
      case CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION:
        launch.overlaps_predecessor = attribute.value.programmaticStreamSerializationAllowed != 0;
        break;
      // Grids of a device run one after another: priorities and placement change nothing.
      case CU_LAUNCH_ATTRIBUTE_IGNORE:
      case CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW:
      case CU_LAUNCH_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE:
      case CU_LAUNCH_ATTRIBUTE_PRIORITY:
      case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP:
      case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN:
      case CU_LAUNCH_ATTRIBUTE_PREFERRED_CLUSTER_DIMENSION:
      case CU_LAUNCH_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT:
        break;
      default:
        return refuse(CUDA_ERROR_NOT_SUPPORTED,
                      fmt::format("kernel '{}': launch attribute {} is not simulated", entry.name,
                                  static_cast<int>(attribute.id)));
    }
  }
  const Dim3& cluster = launch.cluster;
  const Dim3& required = entry.required_cluster;
  const std::uint64_t size = cluster.count();
  const auto name = [](const Dim3& d) { return fmt::format("({}, {}, {})", d.x, d.y, d.z); };
  const std::uint64_t most = kernel.non_portable_cluster != 0 ? kMaxClusterCtas : kPortableClusterCtas;
  if (size == 0 || size > most) {
    return refuse(CUDA_ERROR_INVALID_CLUSTER_SIZE,
                  fmt::format("kernel '{}': a cluster of {} CTAs, 1 to {} are allowed", entry.name,
                              name(cluster), most));
  }
  if (required.x != 0 && (required.x != cluster.x || required.y != cluster.y || required.z != cluster.z)) {
    return refuse(CUDA_ERROR_INVALID_CLUSTER_SIZE,
                  fmt::format("kernel '{}': a cluster of {} CTAs, it was compiled for {}", entry.name,
                              name(cluster), name(required)));
  }
  if (launch.grid.x % cluster.x != 0 || launch.grid.y % cluster.y != 0 || launch.grid.z % cluster.z != 0) {
    return refuse(CUDA_ERROR_INVALID_VALUE,
                  fmt::format("kernel '{}': the grid {} is not divisible by the cluster {}", entry.name,
                              name(launch.grid), name(cluster)));
  }
  const auto resident = static_cast<std::uint64_t>(resident_ctas_per_sm(
      entry, static_cast<std::uint32_t>(launch.block.count()), launch.dynamic_shared_bytes));
  const std::uint64_t room = resident * static_cast<std::uint64_t>(options_.run.sms);
  if (size > room) {
    return refuse(CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES,
                  fmt::format("kernel '{}': a cluster of {} CTAs, but only {} fit the device at a time",
                              entry.name, size, room));
  }
  if (cooperative && launch.grid.count() > room) {
    return refuse(
        CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE,
        fmt::format("kernel '{}': a cooperative grid of {} CTAs, but only {} fit the device at a time",
                    entry.name, launch.grid.count(), room));
  }
  return CUDA_SUCCESS;
}

CUresult SimulatedDriver::check_shape(const CUlaunchConfig& config, const Kernel& kernel) {
  const Entry& entry = *kernel.entry;
  const auto invalid = [&](std::string what) {
    return refuse(CUDA_ERROR_INVALID_VALUE, fmt::format("kernel '{}': {}", entry.name, what));
  };
  if (config.gridDimX == 0 || config.gridDimX > 0x7fffffffu || config.gridDimY == 0 ||
      config.gridDimY > 65535 || config.gridDimZ == 0 || config.gridDimZ > 65535) {
    return invalid(
        fmt::format("a grid of ({}, {}, {}) CTAs", config.gridDimX, config.gridDimY, config.gridDimZ));
  }
  const std::uint64_t threads = std::uint64_t{config.blockDimX} * config.blockDimY * config.blockDimZ;
  if (config.blockDimX > 1024 || config.blockDimY > 1024 || config.blockDimZ > 64 || threads == 0 ||
      threads > entry.max_threads) {
    return invalid(fmt::format("a block of ({}, {}, {}) threads, 1 to {} are allowed", config.blockDimX,
                               config.blockDimY, config.blockDimZ, entry.max_threads));
  }
  const Dim3& required = entry.required_block;
  if (required.x != 0 &&
      (required.x != config.blockDimX || required.y != config.blockDimY || required.z != config.blockDimZ)) {
    return invalid(fmt::format("a block of ({}, {}, {}) threads, it was compiled for ({}, {}, {})",
                               config.blockDimX, config.blockDimY, config.blockDimZ, required.x, required.y,
                               required.z));
  }
  if (config.sharedMemBytes > static_cast<unsigned int>(kernel.max_dynamic_shared_bytes)) {
    return invalid(fmt::format("{} bytes of dynamic shared memory, its MAX_DYNAMIC_SHARED_SIZE_BYTES is {}",
                               config.sharedMemBytes, kernel.max_dynamic_shared_bytes));
  }
  return CUDA_SUCCESS;
}

CUresult SimulatedDriver::cuLaunchKernelEx(const CUlaunchConfig* config, CUfunction function,
                                           void** parameters, void** extra) {
  if (config == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (const CUresult error = require_context()) return error;
  const Kernel* kernel = find_kernel(function);
  Stream* stream = find_stream(config->hStream);
  if (kernel == nullptr || stream == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (const CUresult error = check_shape(*config, *kernel)) return error;
  LaunchConfig launch;
  launch.grid = {config->gridDimX, config->gridDimY, config->gridDimZ};
  launch.block = {config->blockDimX, config->blockDimY, config->blockDimZ};
  launch.dynamic_shared_bytes = config->sharedMemBytes;
  launch.options = options_.run;
  if (const CUresult error = read_launch_attributes(*config, *kernel, launch)) return error;
  if (const CUresult error = lay_out_parameters(*kernel->entry, parameters, extra, launch.parameters))
    return error;

  timing::Recorder recorder(static_cast<std::uint32_t>(options_.run.sms));
  if (options_.timing) launch.options.recorder = &recorder;
  const LaunchResult result = run_grid(*kernel->library->module, *kernel->entry, launch, memory_);
  warp_instructions_ += result.statistics.warp_instructions;
  product_seconds_ += result.statistics.product_seconds;
  std::fwrite(result.printed.data(), 1, result.printed.size(), stdout);  // as the driver does for printf
  if (options_.timing && result.ok)
    timed_launches_.push_back({kernel->entry, launch.grid, launch.block, launch.cluster, recorder.take()});
  if (!result.ok) {
    last_report_ = result.report.text();
    stream->pending = error_of(result.report);
  }
  return CUDA_SUCCESS;
}

CUresult SimulatedDriver::cuOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, CUfunction function,
                                                                      int block_size,
                                                                      size_t dynamic_shared_bytes) {
  const Kernel* kernel = find_kernel(function);
  if (kernel == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (blocks == nullptr || block_size <= 0) return CUDA_ERROR_INVALID_VALUE;
  const bool fits = static_cast<std::uint32_t>(block_size) <= kernel->entry->max_threads &&
                    dynamic_shared_bytes <= kMaxSharedBytesPerCta;
  *blocks = fits ? resident_ctas_per_sm(*kernel->entry, static_cast<std::uint32_t>(block_size),
                                        static_cast<std::uint32_t>(dynamic_shared_bytes))
                 : 0;
  return CUDA_SUCCESS;
}

CUresult SimulatedDriver::cuOccupancyMaxActiveClusters(int* clusters, CUfunction function,
                                                       const CUlaunchConfig* config) {
  const Kernel* kernel = find_kernel(function);
  if (kernel == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (clusters == nullptr || config == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (const CUresult error = check_shape(*config, *kernel)) return error;
  LaunchConfig launch;
  launch.grid = {config->gridDimX, config->gridDimY, config->gridDimZ};
  launch.block = {config->blockDimX, config->blockDimY, config->blockDimZ};
  launch.dynamic_shared_bytes = config->sharedMemBytes;
  const CUresult error = read_launch_attributes(*config, *kernel, launch);
  if (error == CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES) {
    *clusters = 0;
    return CUDA_SUCCESS;
  }
  if (error != CUDA_SUCCESS) return error;
  const int resident = resident_ctas_per_sm(*kernel->entry, static_cast<std::uint32_t>(launch.block.count()),
                                            launch.dynamic_shared_bytes);
  *clusters = resident * options_.run.sms / static_cast<int>(launch.cluster.count());
  return CUDA_SUCCESS;
}

}  // namespace jfa::simulator
