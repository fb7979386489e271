// Records what the library launches on a simulated device, to be replayed on other schedules or with other
// code.
#pragma once

#include <memory>
#include <string>

#include "jfa/attention.h"
#include "simulator/campaign/recording.h"

namespace jfa::test {

/// Stands between the library and a simulated driver. One at a time in a process.
class LaunchRecorder {
 public:
  /// device_name: "sim:sm_100a". Throws jfa::Error.
  explicit LaunchRecorder(const std::string& device_name);
  ~LaunchRecorder();
  LaunchRecorder(const LaunchRecorder&) = delete;
  LaunchRecorder& operator=(const LaunchRecorder&) = delete;

  /// Its launches run, and are recorded.
  Device& device();
  /// The PTX that was loaded last.
  const std::string& ptx() const;
  /// The launches so far, and the device's memory as it was before the first of them.
  const simulator::Recording& recording() const;

  struct State;

 private:
  std::unique_ptr<State> state_;
};

}  // namespace jfa::test
