#include "runtime/clusters.h"

#include <fmt/format.h>

#include <string>

#include "runtime/driver.h"
#include "runtime/launcher.h"

namespace jfa {
namespace {

// Of the first targets that have clusters.
std::string empty_kernel(const EntryPlan& entry) {
  return fmt::format(".version 7.8\n.target sm_90\n.address_size 64\n.visible .entry {}() {{ ret; }}\n",
                     entry.name);
}

CUresult count_of_empty_kernel(const DriverTable& driver, CUdevice device, CUlibrary library,
                               const EntryPlan& entry, int* clusters) {
  CUkernel kernel = nullptr;
  CUresult result = driver.cuLibraryGetKernel(&kernel, library, entry.name.c_str());
  if (result == CUDA_SUCCESS) {
    result = driver.cuKernelSetAttribute(CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, entry.shared_bytes,
                                         kernel, device);
  }
  return result == CUDA_SUCCESS
             ? count_clusters(driver, reinterpret_cast<CUfunction>(kernel), entry, clusters)
             : result;
}

}  // namespace

CUresult count_clusters(const DriverTable& driver, CUfunction function, const EntryPlan& entry,
                        int* clusters) {
  LaunchAttributes attributes(entry, Start::kAfter);
  const CUlaunchConfig config = launch_config(entry, entry.cluster, attributes);
  const CUresult result = driver.cuOccupancyMaxActiveClusters(clusters, function, &config);
  if (result != CUDA_ERROR_INVALID_CLUSTER_SIZE) return result;
  *clusters = 0;
  return CUDA_SUCCESS;
}

Result<int> placeable_clusters(const DriverTable& driver, CUdevice device, const EntryPlan& entry) {
  const auto failed = [&](const char* what, CUresult result) {
    return Status::device(fmt::format("{}: {}", what, describe(driver, result)));
  };
  CUcontext context = nullptr;
  CUresult result = driver.cuDevicePrimaryCtxRetain(&context, device);
  if (result != CUDA_SUCCESS) return failed("retaining the primary context", result);
  int clusters = 0;
  {
    const ContextGuard guard(driver, context);
    result = guard.result();
    CUlibrary library = nullptr;
    if (result == CUDA_SUCCESS)
      result = driver.cuLibraryLoadData(&library, empty_kernel(entry).c_str(), nullptr, nullptr, 0, nullptr,
                                        nullptr, 0);
    if (result == CUDA_SUCCESS) {
      result = count_of_empty_kernel(driver, device, library, entry, &clusters);
      (void)driver.cuLibraryUnload(library);
    }
  }
  (void)driver.cuDevicePrimaryCtxRelease(device);
  if (result != CUDA_SUCCESS) return failed("placing an empty kernel", result);
  return clusters;
}

}  // namespace jfa
