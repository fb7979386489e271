// One device of one driver table: the context, its facts, its kernels, its workspace pool and its
// reports of bad offsets.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "generator/spec.h"
#include "generator/tuning.h"
#include "jfa/attention.h"
#include "runtime/driver.h"
#include "runtime/kernels.h"
#include "runtime/offset_reports.h"
#include "tuning/tuned_classes.h"

namespace jfa {

enum class ImageKind { kCubin, kPtx };

/// Where a device comes from: one row for each prefix of a device's name.
struct DeviceSource {
  std::string name;                     // of the device
  const DriverTable* driver = nullptr;  // outlives the device
  int ordinal = 0;
  ImageKind image_kind = ImageKind::kCubin;
  std::function<std::string()> report;  // what the driver has to say about a failed kernel; may be empty
};

struct Device::Impl {
  /// Retains the primary context and reads the device's facts. Errors: kUnavailable or kDevice from the
  /// driver, kUnsupported for a GPU that no kernel exists for.
  static Result<std::shared_ptr<Impl>> attach(const DeviceSource& source);

  explicit Impl(const DeviceSource& source);
  ~Impl();
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  const std::string name;
  const DriverTable& driver;
  const ImageKind image_kind;
  const std::function<std::string()> report;
  const unsigned generation;  // see fork_guard.h

  CUdevice device = 0;
  CUcontext context = nullptr;
  std::string gpu_name;
  Target target = {};
  std::string target_name;
  /// Of every kernel of this device, in place of the defaults; set before the first kernel is asked for.
  Tuning tuning;
  /// What a tuning database has for this device; null without one. Set before the first kernel is asked for.
  std::atomic<const TunedClasses*> tuned{nullptr};
  /// Those that were in use; calls read them without a lock, so that each lives as long as the device. Under
  /// kernels.mutex().
  std::vector<std::unique_ptr<const TunedClasses>> databases;
  /// Tunings of the database whose kernels are not to be had; the defaults stand in. Under kernels.mutex().
  std::set<std::pair<KernelSpec, Tuning>> absent_tunings;
  int sm_count = 0;
  int gpu_count = 0;  // that this process sees

  KernelTable kernels;
  /// For workspaces that the caller does not give; null until the first kernel is loaded, and on devices that
  /// have no memory pools.
  std::atomic<CUmemoryPool> pool{nullptr};
  /// Where calls report bad offsets; null until the first kernel is loaded, and on devices that do not map
  /// host memory.
  std::atomic<OffsetReports*> reports{nullptr};
  bool check_offsets = false;  // JFA_CHECK_OFFSETS: a call waits for what it finds
  bool line_info = false;      // JFA_LINE_INFO: its kernels carry line information

  /// kUnavailable in a forked child.
  Status usable() const;
  /// "<what> on <device>: CUDA_ERROR_X (description)", with the report in detail(); kOk for CUDA_SUCCESS.
  Status failure(CUresult result, std::string_view what) const;
  /// Makes pool and reports if there are none. The caller holds kernels.mutex().
  Status make_pool();
  Status make_reports();
  /// Calls `act` with this device's context current; a failure is reported as one of `what`.
  template <class Act>
  Status with_context(std::string_view what, Act act) const {
    if (Status status = usable(); !status.ok()) return status;
    const ContextGuard guard(driver, context);
    return failure(guard.result() == CUDA_SUCCESS ? act() : guard.result(), what);
  }
};

}  // namespace jfa
