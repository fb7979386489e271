// The CUDA driver, opened at run time, and its errors as values.
#pragma once

#include <string>
#include <string_view>

#include "base/driver_table.h"
#include "jfa/status.h"

namespace jfa {

/// libcuda.so.1's table, after cuInit. Opened by the first call: nothing touches the driver before. A failure
/// is not remembered. kUnavailable: no driver, a driver without a function we need (with its version), or
/// cuInit's error.
Result<const DriverTable*> open_cuda_driver();

/// kOk for CUDA_SUCCESS; kUnavailable when memory ran out, else kDevice: "<what>: CUDA_ERROR_X
/// (description)".
Status driver_status(const DriverTable& driver, CUresult result, std::string_view what);

/// "CUDA_ERROR_X (description)".
std::string describe(const DriverTable& driver, CUresult result);

/// Makes a context current on this thread, and the one before it again at the end.
class ContextGuard {
 public:
  ContextGuard(const DriverTable& driver, CUcontext context);
  ~ContextGuard();
  ContextGuard(const ContextGuard&) = delete;
  ContextGuard& operator=(const ContextGuard&) = delete;
  CUresult result() const { return result_; }

 private:
  const DriverTable& driver_;
  CUresult result_ = CUDA_SUCCESS;
  bool pushed_ = false;
};

/// Lets this thread load modules and make pools while another thread captures a graph in the default mode.
class RelaxedCapture {
 public:
  explicit RelaxedCapture(const DriverTable& driver);
  ~RelaxedCapture();
  RelaxedCapture(const RelaxedCapture&) = delete;
  RelaxedCapture& operator=(const RelaxedCapture&) = delete;

 private:
  const DriverTable& driver_;
  CUstreamCaptureMode mode_ = CU_STREAM_CAPTURE_MODE_RELAXED;
  bool exchanged_ = false;
};

}  // namespace jfa
