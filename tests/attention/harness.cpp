#include "tests/attention/harness.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <limits>

#include "runtime/device.h"
#include "tests/attention/guarded_memory.h"

namespace jfa::test {
namespace {

bool plausible(const std::vector<std::int64_t>& offsets, std::int64_t rows) {
  return !offsets.empty() && std::is_sorted(offsets.begin(), offsets.end()) && offsets.front() >= 0 &&
         offsets.back() <= rows;
}

// Which output rows belong to a sequence; none if the offsets make no sense.
std::vector<bool> owned_rows(const Problem& problem, std::int64_t output_rows) {
  std::vector<bool> owned(static_cast<std::size_t>(output_rows));
  if (!plausible(problem.key_offset, problem.key.rows)) return owned;
  if (!problem.broadcast_q && !plausible(problem.query_offset, problem.query.rows)) return owned;
  if (problem.output_offset && !plausible(*problem.output_offset, output_rows)) return owned;
  for (const reference::Sequence& sequence : reference::sequences(problem)) {
    for (std::int64_t i = 0; i < sequence.query_rows; ++i) {
      const std::int64_t row = sequence.output_row + i;
      if (row < output_rows) owned[static_cast<std::size_t>(row)] = true;
    }
  }
  return owned;
}

void check_lse(GuardedBuffer& buffer, const std::vector<bool>& owned, RunResult& result) {
  const std::size_t rows = owned.size();
  const auto* bits = buffer.payload<std::uint32_t>();
  const auto* values = buffer.payload<float>();
  result.lse.assign(values, values + buffer.payload_bytes() / sizeof(float));
  for (std::size_t i = 0; i < result.lse.size(); ++i) {
    if (bits[i] == 0xffffffffU) continue;
    result.wrote = true;
    if (!owned[i % rows]) {
      result.violations.push_back(fmt::format("LSE row {} is nobody's, but was written", i % rows));
      return;
    }
  }
}

}  // namespace

Device& test_device() {
  static Device device = [] {
    const char* name = std::getenv("JFA_TEST_DEVICE");
    return open_device(name ? name : "sim:sm_100a");
  }();
  return device;
}

Device open_device(const std::string& name) {
  Device device = Device::open(name).value();
  if (const char* tuning = std::getenv("JFA_TEST_TUNING"))
    device.impl().tuning = parse_tuning(tuning).value();
  return device;
}

Strides packed(const HostTensor& tensor) { return {tensor.heads * tensor.head_dim, tensor.head_dim}; }
Strides head_major(const HostTensor& tensor) { return {tensor.head_dim, tensor.rows * tensor.head_dim}; }
Strides fused_qkv(const Problem& problem) {
  return {(problem.query.heads + problem.key.heads + problem.value.heads) * problem.query.head_dim,
          problem.query.head_dim};
}
Strides padded(const HostTensor& tensor) {
  return {tensor.heads * (tensor.head_dim + 8) + 24, tensor.head_dim + 8};
}

RunResult run_attention(Device& device, const Problem& problem, const RunOptions& options) {
  TensorOnDevice query(device, problem.query, options.query, problem.dtype);
  TensorOnDevice key(device, problem.key, options.key, problem.dtype);
  TensorOnDevice value(device, problem.value, options.value, problem.dtype);
  query.fill(problem.query);
  key.fill(problem.key);
  value.fill(problem.value);
  const std::int64_t rows = options.output_rows >= 0 ? options.output_rows : reference::output_rows(problem);
  TensorOnDevice output(device, HostTensor(rows, problem.query.heads, problem.query.head_dim), options.output,
                        problem.dtype);
  GuardedBuffer lse(device, static_cast<std::uint64_t>(problem.query.heads * rows) * sizeof(float),
                    kTensorGuardBytes);
  for (TensorOnDevice* tensor : {&query, &key, &value, &output}) tensor->upload();
  lse.upload();
  const OffsetsOnDevice query_offset(device, problem.query_offset, options.query_offset);
  const OffsetsOnDevice key_offset(device, problem.key_offset, options.key_offset);
  const OffsetsOnDevice output_offset(device, problem.output_offset.value_or(std::vector<std::int64_t>()),
                                      options.output_offset);

  AttentionCall call;
  call.query = query.tensor();
  call.query.address += options.shift_query_bytes;
  call.key = key.tensor();
  call.value = value.tensor();
  if (!problem.broadcast_q) call.query_offset = query_offset.offsets();
  call.key_offset = key_offset.offsets();
  if (problem.output_offset) call.output_offset = output_offset.offsets();
  call.window = problem.window;
  call.broadcast_q = problem.broadcast_q;
  call.scale = problem.scale;
  call.deterministic = options.deterministic;

  RunResult result;
  const Result<std::uint64_t> workspace_size = workspace_bytes(call);
  const std::uint64_t lse_address = options.lse ? lse.address() : 0;
  if (!workspace_size) {
    result.status = workspace_size.status();
    const Status forwarded = forward(device, call, output.tensor(), lse_address);
    CHECK(forwarded.message() == result.status.message());  // both refuse for the same reason
  } else {
    GuardedBuffer workspace(device, *workspace_size, kWorkspaceGuardBytes);
    workspace.upload();
    const Workspace given{workspace.address(), *workspace_size};
    result.status = forward(device, call, output.tensor(), lse_address, given);
    if (result.status.ok()) result.status = status(device, given);
    if (result.status.kind() == ErrorKind::kDevice) return result;  // its memory may be out of reach
    workspace.download_guards();
    workspace.expect_guards("the workspace", result.violations);
  }

  const std::vector<bool> owned = owned_rows(problem, rows);
  result.wrote = output.collect("output", owned, result.output, result.violations);
  lse.download();
  lse.expect_guards("LSE", result.violations);
  check_lse(lse, owned, result);
  if (!options.lse) result.lse.clear();
  for (TensorOnDevice* input : {&query, &key, &value})
    input->buffer().expect_unchanged("an input", result.violations);
  return result;
}

RunResult check_attention(Device& device, const Problem& problem, const RunOptions& options) {
  RunResult result = run_attention(device, problem, options);
  INFO(result.status.detail());
  REQUIRE_MESSAGE(result.status.ok(), result.status.message());
  for (const std::string& violation : result.violations) FAIL_CHECK(violation);
  const reference::Comparison comparison = reference::judge(problem, result.output, result.lse);
  CHECK_MESSAGE(comparison.within_tolerance, reference::describe(comparison));
  return result;
}

void check_refused(Device& device, const Problem& problem, const std::vector<std::string>& parts,
                   const RunOptions& options) {
  const RunResult result = run_attention(device, problem, options);
  const std::string message = result.status.message();
  CAPTURE(message);
  CHECK((result.status.kind() == ErrorKind::kInvalidArgument ||
         result.status.kind() == ErrorKind::kUnsupported));
  CHECK(message.find('\n') == std::string::npos);
  for (const std::string& part : parts) {
    CHECK_MESSAGE(message.find(part) != std::string::npos, "expected '" << part << "' in it");
  }
  CHECK_FALSE(result.wrote);
  CHECK(result.violations.empty());
}

}  // namespace jfa::test
