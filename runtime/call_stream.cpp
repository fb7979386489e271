#include "runtime/call_stream.h"

#include <fmt/format.h>

namespace jfa {

Result<CallStream> CallStream::ask(const Device::Impl& device, CUstream stream) {
  CallStream on(device, stream);
  OffsetReports* const reports = device.reports.load(std::memory_order_acquire);
  if (!reports && !device.check_offsets) return on;
  CUstreamCaptureStatus capture = CU_STREAM_CAPTURE_STATUS_NONE;
  CUresult result = device.driver.cuStreamIsCapturing(stream, &capture);
  if (result != CUDA_SUCCESS)
    return device.failure(result, fmt::format("asking whether stream {} is capturing", fmt::ptr(stream)));
  on.capturing_ = capture != CU_STREAM_CAPTURE_STATUS_NONE;
  if (on.capturing_ || !reports) return on;
  unsigned long long id = 0;
  result = device.driver.cuStreamGetId(stream, &id);
  if (result != CUDA_SUCCESS)
    return device.failure(result, fmt::format("asking for the id of stream {}", fmt::ptr(stream)));
  on.slot_ = reports->slot_of(id);
  return on;
}

Status CallStream::earlier_bad_offset() const {
  const BadOffset bad = OffsetReports::take(slot_);
  if (bad.name == kernel::kNoOffset) return {};
  return describe(
      bad, slot_.shared ? fmt::format("an earlier call, which computed nothing, on {} and one of the streams "
                                      "beyond the first {}, which share a report",
                                      device_->name, OffsetReports::kStreams)
                        : fmt::format("an earlier call, which computed nothing, on stream {} of {}",
                                      fmt::ptr(stream_), device_->name));
}

Status CallStream::verdict(std::uint64_t header) const {
  kernel::WorkspaceHeader read{};
  const DriverTable& driver = device_->driver;
  CUresult result = driver.cuMemcpyDtoHAsync(&read, header, sizeof read, stream_);
  if (result == CUDA_SUCCESS) result = driver.cuStreamSynchronize(stream_);
  if (result != CUDA_SUCCESS) return device_->failure(result, "running the attention");
  if (!is_offset_name(read.bad_offset_name))
    return Status::invalid_argument(fmt::format("workspace {:#x} holds no result of a call", header));
  const BadOffset bad{read.bad_offset_name, read.bad_offset_index, read.bad_offset_value};
  if (bad.name != kernel::kNoOffset) OffsetReports::forget(slot_, bad);
  return describe(bad);
}

Status CallStream::verdict_at_once(std::uint64_t header) const {
  return device_->check_offsets && !capturing_ ? verdict(header) : Status();
}

Status earlier_bad_offset(const Device::Impl& device, CUstream stream) {
  if (!device.reports.load(std::memory_order_acquire)) return {};
  const ContextGuard guard(device.driver, device.context);
  if (guard.result() != CUDA_SUCCESS) return device.failure(guard.result(), "making its context current");
  const Result<CallStream> on = CallStream::ask(device, stream);
  return on ? on->earlier_bad_offset() : on.status();
}

}  // namespace jfa
