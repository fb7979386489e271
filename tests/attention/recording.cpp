#include "tests/attention/recording.h"

#include <cstdint>
#include <map>
#include <stdexcept>
#include <utility>

#include "reference/float16.h"
#include "runtime/device.h"
#include "tests/attention/launch_recorder.h"
#include "tests/reference/problems.h"
#include "tools/device_buffer.h"

namespace jfa::test {
namespace {

using tools::DeviceBuffer;

constexpr std::int64_t kHeadDim = 32;

struct Case {
  Pass pass;
  Problem (*make)();
  const char* tuning = "";
};

// No sequence or call goes to the entry of CTA pairs, or all that can, with rings that few chunks go round.
constexpr const char* kNoPairs = "two_cta=0";
constexpr const char* kPairs = "two_cta=2,two_cta_stages=2";

Problem with_window(Problem problem, std::int64_t window) {
  problem.window = window;
  return problem;
}

Problem with_shared_query(Problem problem) {
  problem.broadcast_q = true;
  return problem;
}

// Lengths of a batch whose last sequence falls to the second warp of the prepare entry.
std::vector<std::int64_t> over_two_warps(std::vector<std::int64_t> lengths, std::int64_t last) {
  lengths.resize(32, 0);
  lengths.push_back(last);
  return lengths;
}

// Forwards: several items a CTA, more key tiles than stages, items without keys, rows whose maximum grows
// from tile to tile; keys cut into parts, of the first not by the thread that counts them, but with a window;
// there a warp sees all of a tile that is not its first.
Problem plain_forward() {
  return flat_problem(over_two_warps({150, 3, 20}, 140), over_two_warps({300, 0, 1}, 620), {2, 1}, kHeadDim);
}
Problem window_forward() {
  return with_window(flat_problem({200, 3, 20, 150}, {300, 5, 1, 180}, {2, 1}, kHeadDim), 100);
}
Problem pma_forward() {
  return with_shared_query(flat_broadcast_problem(40, {1100, 0, 130, 7}, {1, 1}, kHeadDim));
}

// Backwards: the same, and more streamed tiles than stages; sequences without queries or keys, tiles of one
// row. The first two have sequences of both kinds: whose keys fit one tile, and whose keys do not.
Problem self_backward() { return flat_problem({330, 0, 70, 1, 129}, {330, 0, 70, 1, 129}, {2, 2}, kHeadDim); }
Problem groups_backward() {
  return flat_problem({140, 20, 0, 65, 10}, {260, 0, 9, 130, 300}, {2, 1}, kHeadDim);
}
Problem window_backward() {
  return with_window(flat_problem({300, 40, 300, 270, 20}, {300, 0, 140, 270, 140}, {2, 1}, kHeadDim), 30);
}
// More pairs of tiles than stages, keys without queries behind them; so few keys altogether that no other
// gradient entry is launched.
Problem short_backward() {
  return with_window(flat_problem({250, 30, 0, 700, 7, 60, 50, 90, 0, 0, 0, 0},
                                  {40, 0, 9, 36, 1, 14, 12, 12, 1, 1, 1, 1}, {2, 1}, kHeadDim),
                     60);
}
// Shared queries that fill a small tile, a large one, and more than one. The first two have short sequences
// one behind the other, and as many tiles of keys that no sequence owns, which make a part of the list of
// tiles in which no query sees a key.
Problem with_keys_of_nobody(std::int64_t q_len) {
  Problem problem = flat_broadcast_problem(q_len, {330, 0, 130, 7, 9, 8, 5, 1100}, {6, 3}, kHeadDim);
  problem.key_offset.pop_back();
  return with_shared_query(std::move(problem));
}
Problem pma_backward() { return with_keys_of_nobody(20); }
Problem pma_128_backward() { return with_keys_of_nobody(45); }
Problem pma_many_backward() {
  return with_shared_query(flat_broadcast_problem(140, {300, 0, 130, 7, 260}, {2, 1}, kHeadDim));
}

// By CTA pairs: tiles of queries of one chunk to four, with heads of a group one after the other; a pair of
// which one CTA has no keys, sequences without queries. Of a shared query several pairs of key tiles a part,
// and keys of nobody.
Problem two_cta_backward() {
  return with_window(flat_problem({520, 0, 70, 1, 140}, {130, 9, 256, 200, 40}, {2, 1}, kHeadDim), 100);
}
Problem pma_two_cta_backward() {
  Problem problem = flat_broadcast_problem(75, {520, 0, 7, 140, 9}, {4, 2}, kHeadDim);
  problem.key_offset.pop_back();
  return with_shared_query(std::move(problem));
}

const std::map<std::string, Case>& cases() {
  static const std::map<std::string, Case> all = {
      {"plain", {Pass::forward, plain_forward}},
      {"window", {Pass::forward, window_forward}},
      {"pma", {Pass::forward, pma_forward}},
      {"backward-self", {Pass::backward, self_backward, kNoPairs}},
      {"backward-groups", {Pass::backward, groups_backward, kNoPairs}},
      {"backward-window", {Pass::backward, window_backward, kNoPairs}},
      {"backward-short", {Pass::backward, short_backward}},
      {"backward-pma", {Pass::backward, pma_backward}},
      {"backward-pma-128", {Pass::backward, pma_128_backward}},
      {"backward-pma-many", {Pass::backward, pma_many_backward, kNoPairs}},
      {"backward-two-cta", {Pass::backward, two_cta_backward, kPairs}},
      {"backward-pma-two-cta", {Pass::backward, pma_two_cta_backward, kPairs}},
  };
  return all;
}

template <class Element>
DeviceBuffer upload(Device& device, const std::vector<Element>& values) {
  return std::move(DeviceBuffer::upload(device, values.data(), values.size() * sizeof(Element)).value());
}

// A tensor of a problem in a buffer of its own.
struct Upload {
  template <class Value>
  Upload(Device& device, const std::vector<Value>& values, std::int64_t rows, std::int64_t heads,
         DType dtype) {
    std::vector<std::uint16_t> bits;
    bits.reserve(values.size());
    for (const Value value : values) bits.push_back(to_bits(dtype, static_cast<float>(value)));
    buffer = upload(device, bits);
    tensor = Tensor::packed(buffer.address(), rows, heads, kHeadDim, dtype);
  }
  Upload(Device& device, const HostTensor& values, DType dtype)
      : Upload(device, values.values, values.rows, values.heads, dtype) {}

  DeviceBuffer buffer;
  Tensor tensor;
};

// The same with a bad last offset.
std::vector<std::int64_t> spoilt(std::vector<std::int64_t> offsets) {
  offsets.back() = -1;
  return offsets;
}

// What a call reads, on the device.
struct Inputs {
  Inputs(Device& device, const Problem& problem)
      : query(device, problem.query, problem.dtype),
        key(device, problem.key, problem.dtype),
        value(device, problem.value, problem.dtype),
        query_offset(upload(device, problem.query_offset)),
        key_offset(upload(device, problem.key_offset)),
        bad_key_offset(upload(device, spoilt(problem.key_offset))) {
    call.query = query.tensor;
    call.key = key.tensor;
    call.value = value.tensor;
    const auto count = static_cast<std::int64_t>(problem.key_offset.size());
    if (!problem.broadcast_q) call.query_offset = {query_offset.address(), count, OffsetType::int64};
    call.key_offset = {key_offset.address(), count, OffsetType::int64};
    call.window = problem.window;
    call.broadcast_q = problem.broadcast_q;
  }

  // The call, with an offset that is refused on the device.
  AttentionCall bad_call() const {
    AttentionCall bad = call;
    bad.key_offset.address = bad_key_offset.address();
    return bad;
  }

  Upload query, key, value;
  DeviceBuffer query_offset, key_offset, bad_key_offset;
  AttentionCall call;
};

// All that went wrong is what is meant to.
void expect_bad_offset(Device& device) {
  Status told = device.synchronize();
  if (told.ok()) told = Status::internal("the bad offset was not noticed");
  if (told.kind() != ErrorKind::kInvalidArgument) told.or_throw();
}

void run_forward(Device& device, const Inputs& inputs, const Problem& problem) {
  const std::int64_t rows = reference::output_rows(problem);
  const Upload output(device, HostTensor(rows, problem.query.heads, kHeadDim), problem.dtype);
  const DeviceBuffer lse =
      upload(device, std::vector<float>(static_cast<std::size_t>(rows * problem.query.heads)));
  const std::uint64_t bytes = workspace_bytes(inputs.call).value();
  const DeviceBuffer workspace = upload(device, std::vector<std::byte>(bytes));
  for (const AttentionCall& call : {inputs.call, inputs.bad_call()})
    forward(device, call, output.tensor, lse.address(), {workspace.address(), bytes}).or_throw();
  expect_bad_offset(device);
}

// Output and LSE come from the host, so that nothing but the backward is launched.
void run_backward(Device& device, const Inputs& inputs, const Problem& problem) {
  const reference::Solution solution = reference::solve(problem);
  const Upload output(device, solution.output, solution.rows, solution.heads, problem.dtype);
  const DeviceBuffer lse = upload(device, std::vector<float>(solution.lse.begin(), solution.lse.end()));
  Normal normal(2);
  std::vector<double> deviates(solution.output.size());
  for (double& deviate : deviates) deviate = normal();
  const Upload incoming(device, deviates, solution.rows, solution.heads, problem.dtype);
  const Upload query_grad(device, problem.query, problem.dtype);
  const Upload key_grad(device, problem.key, problem.dtype);
  const Upload value_grad(device, problem.value, problem.dtype);
  const OutputGradient output_grad = OutputGradient::of(incoming.tensor);
  const std::uint64_t bytes = backward_workspace_bytes(inputs.call, output_grad).value();
  const DeviceBuffer workspace = upload(device, std::vector<std::byte>(bytes));
  for (const AttentionCall& call : {inputs.call, inputs.bad_call()}) {
    backward(device, call, output.tensor, lse.address(), output_grad, 0, query_grad.tensor, key_grad.tensor,
             value_grad.tensor, {workspace.address(), bytes})
        .or_throw();
  }
  expect_bad_offset(device);
}

}  // namespace

std::vector<std::string> recorded_configurations() {
  return {"plain",
          "window",
          "pma",
          "backward-self",
          "backward-groups",
          "backward-window",
          "backward-short",
          "backward-pma",
          "backward-pma-128",
          "backward-pma-many",
          "backward-two-cta",
          "backward-pma-two-cta"};
}

AttentionRecording record(const std::string& name, const std::string& device_name) {
  const auto found = cases().find(name);
  if (found == cases().end()) throw std::invalid_argument("no recorded configuration is named " + name);
  const auto& [pass, make, tuning_text] = found->second;
  const Tuning tuning = parse_tuning(tuning_text).value();
  Problem problem = make();
  randomize(problem, 1, pass == Pass::forward ? 4.0 : 1.0);

  LaunchRecorder recorder(device_name);
  Device& device = recorder.device();
  device.impl().tuning = tuning;
  const Inputs inputs(device, problem);
  (pass == Pass::forward ? run_forward : run_backward)(device, inputs, problem);

  Configuration configuration = configuration_of(inputs.call);
  configuration.target = device.target();
  configuration.pass = pass;
  const KernelSpec spec = specialize(configuration).value();
  return {device.target(), source_of(spec, tuning).value(), recorder.ptx(), recorder.recording()};
}

}  // namespace jfa::test
