#include "tests/attention/launch_recorder.h"

#include <fmt/format.h>

#include <cstring>
#include <map>
#include <stdexcept>

#include "runtime/device.h"
#include "simulator/driver/simulated_driver.h"

namespace jfa::test {

struct LaunchRecorder::State {
  const DriverTable* driver = nullptr;
  DriverTable table;  // the driver's, with the calls below in it
  std::optional<Device> device;
  std::string ptx;
  simulator::DeviceMemory module_memory;  // of the copy of the module that tells how parameters are laid out
  std::unique_ptr<simulator::Module> module;
  std::map<CUkernel, std::string> kernels;
  std::map<CUdeviceptr, std::size_t> allocations;
  simulator::Recording recording;
};

namespace {

// The driver's functions carry no context of ours.
LaunchRecorder::State* state = nullptr;

CUresult note_allocation(CUresult result, const CUdeviceptr* address, std::size_t bytes) {
  if (result == CUDA_SUCCESS) state->allocations[*address] = bytes;
  return result;
}

CUresult allocate(CUdeviceptr* address, std::size_t bytes) {
  return note_allocation(state->driver->cuMemAlloc(address, bytes), address, bytes);
}

CUresult allocate_from_pool(CUdeviceptr* address, std::size_t bytes, CUmemoryPool pool, CUstream stream) {
  return note_allocation(state->driver->cuMemAllocFromPoolAsync(address, bytes, pool, stream), address,
                         bytes);
}

CUresult allocate_host(void** host, std::size_t bytes, unsigned int flags) {
  CUdeviceptr address = 0;
  CUresult result = state->driver->cuMemHostAlloc(host, bytes, flags);
  if (result == CUDA_SUCCESS) result = state->driver->cuMemHostGetDevicePointer(&address, *host, 0);
  return note_allocation(result, &address, bytes);
}

CUresult free_host(void* host) {
  CUdeviceptr address = 0;
  if (state->driver->cuMemHostGetDevicePointer(&address, host, 0) == CUDA_SUCCESS)
    state->allocations.erase(address);
  return state->driver->cuMemFreeHost(host);
}

CUresult free_memory(CUdeviceptr address) {
  state->allocations.erase(address);
  return state->driver->cuMemFree(address);
}

CUresult free_async(CUdeviceptr address, CUstream stream) {
  state->allocations.erase(address);
  return state->driver->cuMemFreeAsync(address, stream);
}

CUresult load_library(CUlibrary* library, const void* code, CUjit_option* options, void** values,
                      unsigned int count, CUlibraryOption* library_options, void** library_values,
                      unsigned int library_count) {
  state->ptx = static_cast<const char*>(code);
  auto module = simulator::Module::load(state->ptx, state->module_memory);
  if (module) state->module = std::move(*module);
  return state->driver->cuLibraryLoadData(library, code, options, values, count, library_options,
                                          library_values, library_count);
}

CUresult get_kernel(CUkernel* kernel, CUlibrary library, const char* name) {
  const CUresult result = state->driver->cuLibraryGetKernel(kernel, library, name);
  if (result == CUDA_SUCCESS) state->kernels[*kernel] = name;
  return result;
}

void snapshot_memory() {
  for (const auto& [address, size_bytes] : state->allocations) {
    simulator::RecordedBuffer buffer{
        address, fmt::format("allocation {}", state->recording.buffers.size()), {}};
    buffer.bytes.resize(size_bytes);
    if (state->driver->cuMemcpyDtoH(buffer.bytes.data(), address, size_bytes) != CUDA_SUCCESS)
      throw std::runtime_error("cannot read the device's memory");
    state->recording.buffers.push_back(std::move(buffer));
  }
}

CUresult launch(const CUlaunchConfig* config, CUfunction function, void** parameters, void** extra) {
  if (state->recording.launches.empty()) snapshot_memory();
  simulator::RecordedLaunch launch;
  launch.entry = state->kernels.at(reinterpret_cast<CUkernel>(function));
  const simulator::Entry& entry = *state->module->find(launch.entry);
  launch.config.grid = {config->gridDimX, config->gridDimY, config->gridDimZ};
  launch.config.block = {config->blockDimX, config->blockDimY, config->blockDimZ};
  if (entry.required_cluster.x != 0) launch.config.cluster = entry.required_cluster;
  launch.config.dynamic_shared_bytes = config->sharedMemBytes;
  for (unsigned int i = 0; i < config->numAttrs; ++i) {
    const CUlaunchAttributeValue& value = config->attrs[i].value;
    if (config->attrs[i].id == CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION)
      launch.config.overlaps_predecessor = value.programmaticStreamSerializationAllowed != 0;
    if (config->attrs[i].id == CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION)
      launch.config.cluster = {value.clusterDim.x, value.clusterDim.y, value.clusterDim.z};
  }
  launch.config.parameters.resize(entry.parameter_bytes);
  for (std::size_t i = 0; i < entry.parameters.size(); ++i)
    std::memcpy(launch.config.parameters.data() + entry.parameters[i].offset, parameters[i],
                entry.parameters[i].size_bytes);
  state->recording.launches.push_back(std::move(launch));
  return state->driver->cuLaunchKernelEx(config, function, parameters, extra);
}

}  // namespace

LaunchRecorder::LaunchRecorder(const std::string& device_name) : state_(std::make_unique<State>()) {
  if (state != nullptr) throw std::logic_error("one LaunchRecorder at a time");
  std::string error;
  state_->driver = simulator::open_simulated_driver(device_name, &error);
  if (state_->driver == nullptr) Status::invalid_argument(error).or_throw();
  state_->table = *state_->driver;
  state_->table.cuMemAlloc = allocate;
  state_->table.cuMemAllocFromPoolAsync = allocate_from_pool;
  state_->table.cuMemHostAlloc = allocate_host;
  state_->table.cuMemFreeHost = free_host;
  state_->table.cuMemFree = free_memory;
  state_->table.cuMemFreeAsync = free_async;
  state_->table.cuLibraryLoadData = load_library;
  state_->table.cuLibraryGetKernel = get_kernel;
  state_->table.cuLaunchKernelEx = launch;
  state = state_.get();
  const DriverTable* driver = state_->driver;
  (void)driver->cuInit(0);
  state_->device.emplace(Device::Impl::attach({device_name, &state_->table, 0, ImageKind::kPtx,
                                               [driver] { return simulator::last_report(driver); }})
                             .value());
}

LaunchRecorder::~LaunchRecorder() {
  state_->device.reset();
  state = nullptr;
}

Device& LaunchRecorder::device() { return *state_->device; }
const std::string& LaunchRecorder::ptx() const { return state_->ptx; }
const simulator::Recording& LaunchRecorder::recording() const { return state_->recording; }

}  // namespace jfa::test
