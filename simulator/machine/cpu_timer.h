// What part of a run takes how long, for the benchmark.
#pragma once

#include <time.h>

namespace jfa::simulator {

/// Adds the CPU time of this thread, in seconds, from its making to its end.
class CpuTimer {
 public:
  explicit CpuTimer(double& seconds) : seconds_(seconds), start_(now()) {}
  ~CpuTimer() { seconds_ += now() - start_; }
  CpuTimer(const CpuTimer&) = delete;

 private:
  static double now() {
    timespec time{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
  }

  double& seconds_;
  double start_;
};

}  // namespace jfa::simulator
