// The attention of a file on a device: uploads, forward and backward, downloads.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "jfa/attention.h"
#include "tools/attention_file.h"

namespace jfa::tools {

/// What the file does not say.
struct RunRequest {
  std::optional<Window> window;
  bool broadcast_q = false;
  std::optional<double> scale;
  bool backward = false;
};

/// A packed tensor of 16-bit floats.
struct TensorBits {
  std::vector<std::int64_t> shape;
  std::vector<std::uint16_t> bits;
};

/// What the device gave back.
struct RunResult {
  TensorBits output;  // 0 in rows that no sequence owns
  std::vector<float> lse;
  TensorBits query_grad;  // the gradients only with RunRequest::backward
  TensorBits key_grad;
  TensorBits value_grad;
};

/// command: says which command takes long, and with what.
Result<RunResult> run_on_device(Device& device, const AttentionFile& file, const RunRequest& request,
                                std::string_view command);

}  // namespace jfa::tools
