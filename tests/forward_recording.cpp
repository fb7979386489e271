#include "tests/forward_recording.h"

#include <stdexcept>

#include "generator/emit.h"
#include "tests/launch_recorder.h"
#include "tests/problems.h"
#include "tools/device_buffer.h"
#include "tools/float16.h"

namespace jfa::test {
namespace {

using tools::DeviceBuffer;

constexpr std::int64_t kHeadDim = 32;

// Several items a CTA, more key tiles than stages, items without keys, keys cut into parts, rows whose
// maximum grows from tile to tile.
Problem problem_of(const std::string& configuration) {
  Problem problem;
  if (configuration == "pma") {
    problem = flat_broadcast_problem(40, {1100, 0, 130, 7}, {1, 1}, kHeadDim);
  } else if (configuration == "plain" || configuration == "window") {
    problem = flat_problem({140, 3, 20, 150}, {620, 0, 1, 300}, {2, 1}, kHeadDim);
  } else {
    throw std::invalid_argument("no recorded configuration is named " + configuration);
  }
  problem.broadcast_q = configuration == "pma";
  if (configuration == "window") problem.window = 100;
  randomize(problem, 1, 4.0);
  return problem;
}

template <class Element>
DeviceBuffer upload(Device& device, const std::vector<Element>& values) {
  return std::move(DeviceBuffer::upload(device, values.data(), values.size() * sizeof(Element)).value());
}

// A tensor of a problem in a buffer of its own.
struct Upload {
  Upload(Device& device, const HostTensor& values, DType dtype) {
    std::vector<std::uint16_t> bits;
    for (const float value : values.values) bits.push_back(to_bits(dtype, value));
    buffer = upload(device, bits);
    tensor = Tensor::packed(buffer.address(), values.rows, values.heads, values.head_dim, dtype);
  }
  DeviceBuffer buffer;
  Tensor tensor;
};

}  // namespace

std::vector<std::string> recorded_configurations() { return {"plain", "window", "pma"}; }

ForwardRecording record_forward(const std::string& configuration, const std::string& device_name) {
  const Problem problem = problem_of(configuration);
  LaunchRecorder recorder(device_name);
  Device& device = recorder.device();
  const Upload query(device, problem.query, problem.dtype);
  const Upload key(device, problem.key, problem.dtype);
  const Upload value(device, problem.value, problem.dtype);
  const std::int64_t rows = reference::output_rows(problem);
  const Upload output(device, HostTensor(rows, problem.query.heads, kHeadDim), problem.dtype);
  const DeviceBuffer lse =
      upload(device, std::vector<float>(static_cast<std::size_t>(rows * problem.query.heads)));
  const DeviceBuffer query_offset = upload(device, problem.query_offset);
  const DeviceBuffer key_offset = upload(device, problem.key_offset);

  AttentionCall call;
  call.query = query.tensor;
  call.key = key.tensor;
  call.value = value.tensor;
  const auto count = static_cast<std::int64_t>(problem.key_offset.size());
  if (!problem.broadcast_q) call.query_offset = {query_offset.address(), count, OffsetType::int64};
  call.key_offset = {key_offset.address(), count, OffsetType::int64};
  call.window = problem.window;
  call.broadcast_q = problem.broadcast_q;
  const DeviceBuffer workspace = upload(device, std::vector<std::byte>(workspace_bytes(call).value()));
  forward(device, call, output.tensor, lse.address(), {workspace.address(), workspace_bytes(call).value()})
      .or_throw();
  device.synchronize().or_throw();

  const KernelSpec spec = specialize(configuration_of(call, device.target())).value();
  return {device.target(), emit(plan(spec).value()).text, recorder.ptx(), recorder.recording()};
}

}  // namespace jfa::test
