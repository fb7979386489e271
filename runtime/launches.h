// The launches of one forward call: arguments, grids, stream.
#pragma once

#include <cstdint>

#include "generator/workspace.h"
#include "jfa/attention.h"
#include "runtime/call_watch.h"
#include "runtime/device.h"
#include "runtime/kernels.h"
#include "runtime/validate.h"
#include "templates/attention/parameters.h"

namespace jfa {

/// What a prepare entry reads, offsets and extents, and where it reports. The lists that it writes are left
/// to the caller.
kernel::PrepareArguments prepare_arguments(const ValidCall& valid, const AttentionCall& call,
                                           std::int64_t output_rows, kernel::OffsetReport* report);

/// What one call launches, apart from where its workspace lies.
struct ForwardLaunches {
  const ValidCall& valid;
  const AttentionCall& call;
  const Tensor& output;  // normalised
  std::uint64_t lse;     // 0: not wanted
  const WorkspaceMap& map;
  kernel::OffsetReport* report;  // null: none
  CallWatch* watch;              // null: nobody watches
};

/// Enqueues the prepare entry, the main entry and, where keys may be cut into parts, the merge entry. The
/// device's context is current. kDevice: names entry, configuration, stream and device.
Status launch(const Device::Impl& device, const LoadedKernels& kernels, const ForwardLaunches& launches,
              std::uint64_t workspace, CUstream stream);

}  // namespace jfa
