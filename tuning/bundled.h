// A tuning database inside a bundle of kernels: one entry more, whose text is the records and whose key is
// always the same. What several bundles have comes together when they are merged.
#pragma once

#include <string>
#include <vector>

#include "cache/bundle.h"
#include "tuning/record.h"

namespace jfa {

/// The entry to add; entries of other records differ in what stands for their compiler.
Entry bundled_entry(const std::vector<TuningRecord>& records);
/// Its place in a bundle.
Digest bundled_key();

/// The records of a bundle, none if it has no database. kUnavailable: they are damaged.
Result<std::vector<TuningRecord>> bundled_records(const Bundle& bundle);

}  // namespace jfa
