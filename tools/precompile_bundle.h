// The part of `jfa precompile` that has to do with bundles.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/output_file.h"
#include "cache/kernel_cache.h"
#include "generator/spec.h"
#include "jfa/tuning.h"
#include "tuning/record.h"

namespace jfa::tools {

/// One kernel: a specialisation with values of its knobs.
struct TunedSpec {
  KernelSpec spec;
  Tuning tuning = {};

  auto operator<=>(const TunedSpec&) const = default;
};

/// The specs of one shard, "0/4" … "3/4", by their keys: the same on every machine. kInvalidArgument names a
/// shard that is not of that form.
Result<std::vector<TunedSpec>> shard_of(const std::vector<TunedSpec>& specs, const std::string& shard,
                                        bool line_info);

/// Writes the kernels of `specs` into a bundle, compiling those that `cache` lacks, with a tuning database if
/// there are records. Its bytes.
Result<std::uint64_t> write_bundle(KernelCache& cache, const std::vector<TunedSpec>& specs,
                                   const std::vector<TuningRecord>& records, bool line_info,
                                   OutputFile& output);

/// The winners of all records, each kernel once.
std::vector<TunedSpec> winners_of(const std::vector<TuningRecord>& records);

}  // namespace jfa::tools
