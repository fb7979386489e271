// A small attention of a class's specialisation that is solved in fp64: what a candidate has to get right
// first. Its lengths meet every path: none, one row, a tile's edge, keys that are cut into parts.
#pragma once

#include <cstdint>
#include <vector>

#include "reference/compare.h"
#include "reference/compare_backward.h"
#include "tools/bench_shapes.h"
#include "tools/device_buffer.h"

namespace jfa::tools {

class TuneProbe {
 public:
  /// shape: for kind, groups, head_dim, dtype, window and the rows of a shared query.
  static Result<TuneProbe> make(Device& device, const BenchShape& shape, Pass pass);

  /// Poisons what the pass writes, runs it with that tuning, and judges what is there. kUnavailable says how
  /// the results differ from the reference; other errors are the call's.
  Status check(const Tuning& tuning);
  /// Bits of all results of the last check(), to be compared.
  const std::vector<std::uint16_t>& bits() const { return bits_; }

 private:
  explicit TuneProbe(Device& device) : device_(device) {}
  Status upload();
  Result<std::uint64_t> buffer(const std::vector<std::uint16_t>& bits);
  Result<std::uint64_t> empty_buffer(std::uint64_t bytes);
  Result<reference::HostTensor> result(const Tensor& tensor);
  Status check_forward();
  Status check_backward();

  Device device_;
  Pass pass_ = Pass::forward;
  reference::Problem problem_;
  reference::OutputGradients incoming_;
  reference::Solution exact_, eager_;
  reference::BackwardSolution exact_backward_, eager_backward_;
  std::vector<DeviceBuffer> buffers_;
  AttentionCall call_;
  Tensor output_, output_grad_, query_grad_, key_grad_, value_grad_;
  std::uint64_t lse_ = 0;
  Workspace workspace_;
  std::vector<std::uint16_t> bits_;
};

}  // namespace jfa::tools
