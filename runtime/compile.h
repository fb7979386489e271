// From a kernel's source to its image: the process's cache, with NVRTC behind it.
#pragma once

#include <string_view>

#include "cache/kernel_cache.h"
#include "generator/emit.h"

namespace jfa {

/// The request for `source`, with the command line that precompiles it; no command line can name a tuning.
CompileRequest compile_request(const KernelSource& source);

/// The cache as the environment sets it up, made by the first call and read from the environment once.
/// kInvalidArgument names a variable and the value that cannot be used.
Result<KernelCache*> process_cache();

/// The image of `source` from `cache`, compiled by the process's NVRTC if nobody has it. `compiled` says
/// whether this call did so.
Result<SharedImage> compile(KernelCache& cache, const KernelSource& source, bool* compiled = nullptr);
/// ... from the process's cache.
Result<SharedImage> compile(const KernelSource& source, bool* compiled = nullptr);

/// Throws an image that the driver refused out of the process's cache.
void discard(const KernelSource& source, const KernelImage& image, std::string_view reason);

}  // namespace jfa
