// A device on which test kernels run: a GPU or a simulated one, through the same driver table.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "base/driver_table.h"
#include "base/status.h"
#include "conformance/test_kernel.h"

namespace jfa::conformance {

/// What a report says of the device.
struct DeviceFacts {
  std::string name;            // "NVIDIA H200"
  std::string target;          // of the PTX it is given: "sm_90a", "sm_100a"
  std::string driver_version;  // of CUDA, "13.0"; "simulator"
};

class Session {
 public:
  /// "cuda:N", or a simulated device's name. Errors: what the name, the driver or the device lacks;
  /// kUnsupported for one that is neither 9.0 nor 10.x.
  static Result<std::unique_ptr<Session>> open(const std::string& device);
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  const DeviceFacts& facts() const { return facts_; }
  bool simulated() const { return simulated_; }

  /// The bytes of the output. Errors: kInvalidArgument, the driver refuses the PTX, with its log; kDevice,
  /// the launch failed, with the simulator's report. After kDevice a GPU's context is lost, so is this
  /// session.
  Result<std::vector<std::byte>> run(const TestKernel& kernel);

 private:
  Session() = default;
  Status check(CUresult result, const std::string& what) const;
  Result<std::vector<std::byte>> launch(const TestKernel& kernel, CUkernel function,
                                        std::vector<CUdeviceptr>& owned);

  const DriverTable* driver_ = nullptr;
  bool simulated_ = false;
  CUdevice device_ = 0;
  CUcontext context_ = nullptr;
  DeviceFacts facts_;
};

/// The kernel's whole text for a target: what ptxas takes, too.
std::string module_text(const TestKernel& kernel, const std::string& target);

}  // namespace jfa::conformance
