// How the host hears of bad offsets that a call has found on the device, without waiting for it and without a
// workspace of the caller's: the prepare entry writes them to host memory that is mapped into the device, and
// whoever next does anything on the stream looks there.
#pragma once

#include <cuda.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "base/driver_table.h"
#include "jfa/status.h"
#include "runtime/bad_offset.h"
#include "templates/attention/parameters.h"

namespace jfa {

/// The reports of one device. All members but make() may be called from any thread; none takes a lock.
class OffsetReports {
 public:
  /// Streams that have a report of their own; all others share one.
  static constexpr std::size_t kStreams = 4096;

  /// Where the calls on one stream report.
  struct Slot {
    kernel::OffsetReport* host = nullptr;    // null: nowhere
    kernel::OffsetReport* device = nullptr;  // the same as the device has it
    bool shared = false;                     // with other streams
  };

  /// The device's context is current. Gives none, with CUDA_SUCCESS, on a device that does not map host
  /// memory.
  static CUresult make(const DriverTable& driver, CUdevice device, std::unique_ptr<OffsetReports>* reports);
  /// The context is current.
  ~OffsetReports();
  OffsetReports(const OffsetReports&) = delete;
  OffsetReports& operator=(const OffsetReports&) = delete;

  /// stream_id: of cuStreamGetId. A stream keeps its slot for good; ids are never used again.
  Slot slot_of(std::uint64_t stream_id);

  /// What the slot holds, once: nobody gets it again. kNoOffset if there is nothing.
  static BadOffset take(const Slot& slot);
  /// The same if it is `bad`; anything else stays.
  static void forget(const Slot& slot, const BadOffset& bad);

 private:
  OffsetReports(const DriverTable& driver, kernel::OffsetReport* host, CUdeviceptr device);

  const DriverTable& driver_;
  kernel::OffsetReport* const host_;  // kStreams, then the shared one
  const CUdeviceptr device_;
  std::array<std::atomic<std::uint64_t>, kStreams> ids_{};  // plus 1; 0: nobody's yet
};

}  // namespace jfa
