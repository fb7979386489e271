// Device memory for the length of a scope, in the order of a stream.
#pragma once

#include <cuda.h>

#include <cstdint>

#include "runtime/device.h"

namespace jfa {

/// The caller's workspace, or one from the device's pool that goes back to it, behind the stream's work, at
/// the end of the scope. The device's context is current from acquire() to there.
class ScopedWorkspace {
 public:
  ScopedWorkspace(Device::Impl& device, CUstream stream) : device_(device), stream_(stream) {}
  ~ScopedWorkspace();
  ScopedWorkspace(const ScopedWorkspace&) = delete;
  ScopedWorkspace& operator=(const ScopedWorkspace&) = delete;

  /// given: checked by validate_workspace(). kUnavailable when memory ran out.
  Status acquire(Workspace given, std::uint64_t needed_bytes);
  std::uint64_t address() const { return address_; }

 private:
  Device::Impl& device_;
  CUstream stream_;
  std::uint64_t address_ = 0;
  bool owned_ = false;
};

}  // namespace jfa
