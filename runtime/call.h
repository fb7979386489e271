// What every public call does between its checks and its launches.
#pragma once

#include <cuda.h>

#include <cstdint>
#include <initializer_list>
#include <span>

#include "jfa/attention.h"
#include "runtime/device.h"
#include "runtime/kernels.h"
#include "runtime/validate.h"

namespace jfa {

/// Work items are counted in 32 bits, with room for every CTA to draw one too many.
inline constexpr std::int64_t kItemLimit = 0x7fffffff;

/// The specialisation of a valid call.
Result<KernelSpec> specialize_call(const AttentionCall& call, Pass pass, Target target);

/// The loaded kernels; compiles and loads them if this is the first call, which a capture refuses.
Result<const LoadedKernels*> kernels_for(Device::Impl& device, const KernelSpec& spec, const ValidCall& valid,
                                         const Tuning* tuning, CUstream stream);

/// There is nothing to compute, but status() may be asked of the caller's workspace.
/// others: what the call was given, which the workspace must not overlap.
Status clear_header(Device::Impl& device, Workspace workspace,
                    std::initializer_list<std::span<const Operand>> others, CUstream stream);

}  // namespace jfa
