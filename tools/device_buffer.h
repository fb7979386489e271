// Device memory that is freed when its owner goes.
#pragma once

#include <cstdint>
#include <optional>
#include <utility>

#include "jfa/attention.h"

namespace jfa::tools {

class DeviceBuffer {
 public:
  DeviceBuffer() = default;
  static Result<DeviceBuffer> allocate(Device& device, std::uint64_t bytes) {
    Result<std::uint64_t> address = device.allocate(bytes);
    if (!address) return address.status();
    return DeviceBuffer(device, *address);
  }
  /// Allocates and fills it from the host.
  static Result<DeviceBuffer> upload(Device& device, const void* source, std::uint64_t bytes) {
    Result<DeviceBuffer> buffer = allocate(device, bytes);
    if (!buffer) return buffer;
    if (Status status = device.upload(buffer->address(), source, bytes); !status.ok()) return status;
    return buffer;
  }

  DeviceBuffer(DeviceBuffer&& other) noexcept { swap(other); }
  DeviceBuffer& operator=(DeviceBuffer&& other) noexcept {
    swap(other);
    return *this;
  }
  ~DeviceBuffer() {
    // A device in error has no more to say here than it said before.
    if (device_) (void)device_->free(address_);
  }

  std::uint64_t address() const { return address_; }

 private:
  DeviceBuffer(Device& device, std::uint64_t address) : device_(device), address_(address) {}
  void swap(DeviceBuffer& other) noexcept {
    std::swap(device_, other.device_);
    std::swap(address_, other.address_);
  }

  std::optional<Device> device_;
  std::uint64_t address_ = 0;
};

}  // namespace jfa::tools
