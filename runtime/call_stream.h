// What a call wants to know of its stream: whether it captures a graph, and what earlier calls on it found.
#pragma once

#include <cuda.h>

#include <cstdint>

#include "jfa/status.h"
#include "runtime/device.h"
#include "runtime/offset_reports.h"

namespace jfa {

class CallStream {
 public:
  /// Asks the driver, if the device has reports or checks offsets at once. The device's context is current.
  static Result<CallStream> ask(const Device::Impl& device, CUstream stream);

  /// kInvalidArgument with name, index and value if an earlier call on the stream has found a bad offset by
  /// now; told once. While a graph is captured nothing is read.
  Status earlier_bad_offset() const;
  /// Where the prepare entry of a call is to report; null: nowhere, as in a graph, whose replays report on
  /// whatever stream they are launched.
  kernel::OffsetReport* report() const { return slot_.device; }

  /// Waits for the stream, and says what the call found whose workspace has its header at that address; then
  /// no later call says so again.
  Status verdict(std::uint64_t header) const;
  /// The same for a call that was just launched, if the device checks offsets at once and nothing is
  /// captured.
  Status verdict_at_once(std::uint64_t header) const;

 private:
  CallStream(const Device::Impl& device, CUstream stream) : device_(&device), stream_(stream) {}

  const Device::Impl* device_;
  CUstream stream_;
  bool capturing_ = false;
  OffsetReports::Slot slot_;
};

/// ask() and earlier_bad_offset(), for those who make no use of the context.
Status earlier_bad_offset(const Device::Impl& device, CUstream stream);

}  // namespace jfa
