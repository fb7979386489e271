#include "runtime/workspace.h"

#include <fmt/format.h>

namespace jfa {

ScopedWorkspace::~ScopedWorkspace() {
  if (owned_) (void)device_.driver.cuMemFreeAsync(address_, stream_);
}

Status ScopedWorkspace::acquire(Workspace given, std::uint64_t needed_bytes) {
  address_ = given.address;
  if (address_ != 0) return {};
  const CUmemoryPool pool = device_.pool.load(std::memory_order_acquire);
  if (!pool) {
    return Status::unsupported(fmt::format("device '{}' has no memory pools: pass a workspace of {} bytes",
                                           device_.name, needed_bytes));
  }
  CUdeviceptr address = 0;
  const CUresult result = device_.driver.cuMemAllocFromPoolAsync(&address, needed_bytes, pool, stream_);
  if (result != CUDA_SUCCESS)
    return device_.failure(result, fmt::format("taking {} bytes of workspace from the pool", needed_bytes));
  address_ = address;
  owned_ = true;
  return {};
}

}  // namespace jfa
