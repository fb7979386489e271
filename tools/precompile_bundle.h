// The part of `jfa precompile` that has to do with bundles.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cache/kernel_cache.h"
#include "generator/spec.h"
#include "tools/output_file.h"

namespace jfa::tools {

/// The specs of one shard, "0/4" … "3/4", by their keys: the same on every machine. kInvalidArgument names a
/// shard that is not of that form.
Result<std::vector<KernelSpec>> shard_of(const std::vector<KernelSpec>& specs, const std::string& shard,
                                         bool line_info);

/// Writes the kernels of `specs` into a bundle, compiling those that `cache` lacks. Its bytes.
Result<std::uint64_t> write_bundle(KernelCache& cache, const std::vector<KernelSpec>& specs, bool line_info,
                                   OutputFile& output);

}  // namespace jfa::tools
