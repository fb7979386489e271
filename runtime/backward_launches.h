// The launches of one backward call: arguments, grids, stream.
#pragma once

#include <cstdint>

#include "generator/backward_path.h"
#include "generator/workspace.h"
#include "jfa/attention.h"
#include "runtime/call_watch.h"
#include "runtime/device.h"
#include "runtime/kernels.h"
#include "runtime/validate_backward.h"

namespace jfa {

/// What one call launches, apart from where its workspace lies.
struct BackwardLaunches {
  const ValidCall& valid;
  const AttentionCall& call;
  const ValidBackward& tensors;
  std::uint64_t lse;
  std::uint64_t lse_grad;  // 0: none
  const BackwardWorkspaceMap& map;
  BackwardPath path;
  kernel::OffsetReport* report;  // null: none
  CallWatch* watch;              // null: nobody watches
};

/// Enqueues prepare, delta, the gradient entries of the path that the call takes (see describe()) and, with
/// broadcast_q, the sum of the query gradient's parts. There is at least one row and head on either side. The
/// device's context is current. kDevice: names entry, configuration, stream and device.
Status launch(const Device::Impl& device, const LoadedKernels& kernels, const BackwardLaunches& launches,
              std::uint64_t workspace, CUstream stream);

/// Sets all elements of a normalised tensor to 0, and nothing between them.
CUresult clear_tensor(const DriverTable& driver, const Tensor& tensor, CUstream stream);

}  // namespace jfa
