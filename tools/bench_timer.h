// Times work on a device with its own events, each repeat with a cold L2 cache.
#pragma once

#include <cuda.h>

#include <functional>
#include <memory>
#include <vector>

#include "jfa/attention.h"
#include "runtime/device.h"
#include "tools/device_buffer.h"

namespace jfa::tools {

/// Times of the repeats of one thing, ascending, in milliseconds.
class BenchTimes {
 public:
  explicit BenchTimes(std::vector<double> times_ms);
  /// part: 0 the least, 0.5 the median, 1 the most.
  double quantile(double part) const;
  double median() const { return quantile(0.5); }

 private:
  std::vector<double> times_ms_;
};

class BenchTimer {
 public:
  /// repeats: measured runs; a few more warm up.
  static Result<std::unique_ptr<BenchTimer>> make(Device& device, int repeats);
  BenchTimer(const BenchTimer&) = delete;
  BenchTimer& operator=(const BenchTimer&) = delete;
  ~BenchTimer();

  Stream stream() const { return stream_; }
  /// `work` enqueues on stream(), once, with a cold cache before it.
  Result<double> measure_once_ms(const std::function<Status()>& work);
  /// The same, repeats times and a few before that do not count.
  Result<BenchTimes> measure(const std::function<Status()>& work);
  /// Bytes read plus bytes written a second by copies within the device's memory, in GB/s.
  Result<double> copy_bandwidth();

 private:
  BenchTimer(Device& device, int repeats) : device_(device), repeats_(repeats) {}

  Device device_;
  int repeats_;
  CUstream stream_ = nullptr;
  CUevent start_ = nullptr;
  CUevent end_ = nullptr;
  DeviceBuffer flush_;
  std::uint64_t flush_bytes_ = 0;
};

/// What the matrix units do at the highest clock, in TFLOP/s of dense bf16; 0 if the device does not tell its
/// clock.
double matrix_peak_tflops(const Device& device);

}  // namespace jfa::tools
