// The tensors of a measured attention, on the device, filled with random numbers.
#pragma once

#include <cstdint>
#include <vector>

#include "jfa/attention.h"
#include "tools/bench_shapes.h"
#include "tools/device_buffer.h"

namespace jfa::tools {

/// 16-bit numbers, roughly normal with variance 1, for tensors of any size: one block is drawn on the host
/// and copied over and over on the device, from another place in it for every tensor.
class RandomNumbers {
 public:
  /// No tensor needs more than most_bytes.
  static Result<RandomNumbers> make(Device& device, DType dtype, std::uint64_t most_bytes);
  /// Waits until it is done.
  Status fill(std::uint64_t destination, std::uint64_t bytes);

 private:
  RandomNumbers(Device& device, DeviceBuffer block, std::uint64_t block_bytes)
      : device_(device), block_(std::move(block)), block_bytes_(block_bytes) {}

  Device device_;
  DeviceBuffer block_;
  std::uint64_t block_bytes_;
  std::uint64_t start_ = 0;  // where the next tensor starts to copy
};

/// Everything that one shape's calls take.
class BenchTensors {
 public:
  static Result<BenchTensors> make(Device& device, const BenchProblem& problem, Pass pass);

  AttentionCall call;
  Tensor output;
  std::uint64_t lse = 0;  // the backward needs it
  OutputGradient output_grad;
  Tensor query_grad, key_grad, value_grad;
  Workspace workspace;           // of the forward
  Workspace backward_workspace;  // of the backward

 private:
  Result<Tensor> tensor(Device& device, std::int64_t rows, std::int64_t heads, const BenchShape& shape);
  Result<Offsets> offsets(Device& device, const std::vector<std::int32_t>& values);
  Result<Workspace> scratch(Device& device, const Result<std::uint64_t>& bytes);
  Status add_gradients(Device& device, const BenchShape& shape);

  std::vector<DeviceBuffer> buffers_;
};

}  // namespace jfa::tools
