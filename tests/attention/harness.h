// Runs an attention of host tensors on a device, in surroundings that show every mistake: inputs lie between
// NaN bits, in any strides; output, LSE and workspace start as NaN bits; whatever the call does not own must
// still hold them afterwards.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "jfa/attention.h"
#include "reference/compare.h"
#include "tests/reference/problems.h"

namespace jfa::test {

/// The device that end-to-end tests run on: the environment variable JFA_TEST_DEVICE, or "sim:sm_100a".
Device& test_device();
/// Device::open(). The environment variable JFA_TEST_TUNING, NAME=VALUE,..., is its kernels' tuning: what
/// passes with the defaults passes with every value that a knob may have.
Device open_device(const std::string& name);

/// In elements.
struct Strides {
  std::int64_t row = 0;
  std::int64_t head = 0;
};

Strides packed(const HostTensor& tensor);
Strides head_major(const HostTensor& tensor);
/// A view into rows of [query heads | key heads | value heads].
Strides fused_qkv(const Problem& problem);
/// Gaps behind every head and every row.
Strides padded(const HostTensor& tensor);

struct RunOptions {
  std::optional<Strides> query = std::nullopt;  // packed unless given
  std::optional<Strides> key = std::nullopt;
  std::optional<Strides> value = std::nullopt;
  std::optional<Strides> output = std::nullopt;
  OffsetType query_offset = OffsetType::int32;
  OffsetType key_offset = OffsetType::int32;
  OffsetType output_offset = OffsetType::int32;
  bool lse = true;
  bool deterministic = false;
  std::int64_t output_rows = -1;        // default: what the problem needs
  std::uint64_t shift_query_bytes = 0;  // moves the query's base address off its alignment
};

struct RunResult {
  Status status;      // of forward(), and if that is ok of status()
  HostTensor output;  // NaN where nothing was written
  std::vector<float> lse;
  /// Poison that was overwritten, inputs that were changed. In words; empty if all is well.
  std::vector<std::string> violations;
  bool wrote = false;  // anything at all in output or LSE
};

RunResult run_attention(Device& device, const Problem& problem, const RunOptions& options = {});

/// Runs it and checks status, surroundings and tolerance with doctest; the result is for further checks.
RunResult check_attention(Device& device, const Problem& problem, const RunOptions& options = {});

/// Runs it and checks that it is refused with a one-line message that contains every one of `parts`, and that
/// nothing was written.
void check_refused(Device& device, const Problem& problem, const std::vector<std::string>& parts,
                   const RunOptions& options = {});

}  // namespace jfa::test
