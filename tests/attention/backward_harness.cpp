#include "tests/attention/backward_harness.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "reference/float16.h"
#include "tests/attention/guarded_memory.h"

namespace jfa::test {
namespace {

// An output gradient of any strides on the device; elements that share memory must hold the same value.
class OutputGradOnDevice {
 public:
  OutputGradOnDevice(Device& device, const HostTensor& values, DType dtype, const BackwardRunOptions& options)
      : strides_(options.output_grad.value_or(
            GradientStrides{values.heads * values.head_dim, values.head_dim, 1})),
        shift_bytes_(options.shift_output_grad_bytes),
        buffer_(device, bytes_of(values), kTensorGuardBytes) {
    auto* elements = buffer_.payload<std::uint16_t>() + shift_bytes_ / 2 + first_;
    for (std::int64_t row = 0; row < values.rows; ++row) {
      for (std::int64_t head = 0; head < values.heads; ++head) {
        for (std::int64_t column = 0; column < values.head_dim; ++column) {
          elements[row * strides_.row + head * strides_.head + column * strides_.dim] =
              to_bits(dtype, values.at(row, head, column));
        }
      }
    }
    buffer_.upload();
    gradient_ = {buffer_.address() + shift_bytes_ + 2 * static_cast<std::uint64_t>(first_),
                 values.rows,
                 values.heads,
                 values.head_dim,
                 strides_.row,
                 strides_.head,
                 strides_.dim,
                 dtype};
  }

  const OutputGradient& gradient() const { return gradient_; }
  GuardedBuffer& buffer() { return buffer_; }

 private:
  // Also finds where element 0 lies, which with negative strides is not at the start.
  std::uint64_t bytes_of(const HostTensor& values) {
    if (values.values.empty()) return shift_bytes_;
    std::int64_t low = 0, high = 0;
    for (const auto& [extent, stride] : {std::pair{values.rows, strides_.row},
                                         {values.heads, strides_.head},
                                         {values.head_dim, strides_.dim}}) {
      (stride < 0 ? low : high) += (extent - 1) * stride;
    }
    first_ = -low;
    return shift_bytes_ + 2 * static_cast<std::uint64_t>(high - low + 1);
  }

  GradientStrides strides_;
  std::uint64_t shift_bytes_;
  std::int64_t first_ = 0;
  GuardedBuffer buffer_;
  OutputGradient gradient_;
};

std::string first_difference(const char* name, const HostTensor& a, const HostTensor& b) {
  for (std::size_t e = 0; e < a.values.size(); ++e) {
    if (std::bit_cast<std::uint32_t>(a.values[e]) != std::bit_cast<std::uint32_t>(b.values[e])) {
      return fmt::format("{} row {}: {} and {}", name,
                         static_cast<std::int64_t>(e) / std::max<std::int64_t>(1, a.heads * a.head_dim),
                         a.values[e], b.values[e]);
    }
  }
  return {};
}

GuardedBuffer floats_on_device(Device& device, const std::vector<float>& values) {
  GuardedBuffer buffer(device, values.size() * sizeof(float), kTensorGuardBytes);
  std::copy(values.begin(), values.end(), buffer.payload<float>());
  buffer.upload();
  return buffer;
}

}  // namespace

BackwardProblem with_random_gradient(Problem attention, std::uint64_t seed, bool lse_gradient) {
  BackwardProblem problem = with_constant_gradient(std::move(attention), 0);
  Normal normal(seed);
  HostTensor& output = problem.incoming.output;
  for (float& value : output.values) value = round_to(problem.attention.dtype, static_cast<float>(normal()));
  if (!lse_gradient) return problem;
  problem.incoming.lse.resize(static_cast<std::size_t>(output.rows * output.heads));
  for (float& value : problem.incoming.lse) value = static_cast<float>(normal());
  return problem;
}

BackwardProblem with_constant_gradient(Problem attention, float value) {
  BackwardProblem problem;
  problem.incoming.output =
      HostTensor(reference::output_rows(attention), attention.query.heads, attention.query.head_dim);
  std::fill(problem.incoming.output.values.begin(), problem.incoming.output.values.end(), value);
  problem.attention = std::move(attention);
  return problem;
}

BackwardResult run_backward(Device& device, const BackwardProblem& problem,
                            const BackwardRunOptions& options) {
  const Problem& attention = problem.attention;
  const DType dtype = attention.dtype;
  const RunOptions& forward_options = options.forward;
  TensorOnDevice query(device, attention.query, forward_options.query, dtype);
  TensorOnDevice key(device, attention.key, forward_options.key, dtype);
  TensorOnDevice value(device, attention.value, forward_options.value, dtype);
  query.fill(attention.query);
  key.fill(attention.key);
  value.fill(attention.value);
  const HostTensor& incoming = problem.incoming.output;
  TensorOnDevice output(device, incoming, forward_options.output, dtype);
  TensorOnDevice query_grad(device, attention.query, options.query_grad, dtype);
  TensorOnDevice key_grad(device, attention.key, options.key_grad, dtype);
  TensorOnDevice value_grad(device, attention.value, options.value_grad, dtype);
  for (TensorOnDevice* tensor : {&query, &key, &value, &output, &query_grad, &key_grad, &value_grad})
    tensor->upload();
  GuardedBuffer lse(device, static_cast<std::uint64_t>(incoming.rows * incoming.heads) * sizeof(float),
                    kTensorGuardBytes);
  lse.upload();
  GuardedBuffer lse_grad = floats_on_device(device, problem.incoming.lse);
  OutputGradOnDevice output_grad(device, incoming, dtype, options);
  const OffsetsOnDevice query_offset(device, attention.query_offset, forward_options.query_offset);
  const OffsetsOnDevice key_offset(device, attention.key_offset, forward_options.key_offset);
  const OffsetsOnDevice output_offset(device, attention.output_offset.value_or(std::vector<std::int64_t>()),
                                      forward_options.output_offset);

  AttentionCall call;
  call.query = query.tensor();
  call.key = key.tensor();
  call.value = value.tensor();
  if (!attention.broadcast_q) call.query_offset = query_offset.offsets();
  call.key_offset = key_offset.offsets();
  if (attention.output_offset) call.output_offset = output_offset.offsets();
  call.window = attention.window;
  call.broadcast_q = attention.broadcast_q;
  call.scale = attention.scale;

  BackwardResult result;
  result.status = forward(device, call, output.tensor(), lse.address());
  if (!result.status.ok()) return result;
  Violations of_forward;  // checked by the forward's own tests
  const std::vector<bool> all(static_cast<std::size_t>(incoming.rows), true);
  output.collect("output", all, result.output, of_forward);
  lse.download();
  if (options.change_forward) {
    options.change_forward(result.output, lse.payload<float>());
    output.fill(result.output);
    output.upload();
    lse.upload();
  }

  const Result<std::uint64_t> workspace_size = backward_workspace_bytes(call, output_grad.gradient());
  result.status = workspace_size.status();
  if (!result.status.ok()) return result;
  GuardedBuffer workspace(device, *workspace_size, kWorkspaceGuardBytes);
  std::fill_n(workspace.payload<std::uint8_t>(), *workspace_size, options.workspace_byte);
  workspace.upload();
  const Workspace given =
      options.own_workspace ? Workspace{workspace.address(), *workspace_size} : Workspace{};
  result.status = backward(device, call, output.tensor(), lse.address(), output_grad.gradient(),
                           problem.incoming.lse.empty() ? 0 : lse_grad.address(), query_grad.tensor(),
                           key_grad.tensor(), value_grad.tensor(), given);
  if (result.status.ok())
    result.status = options.own_workspace ? status(device, given) : device.synchronize();
  if (result.status.kind() == ErrorKind::kDevice) return result;  // its memory may be out of reach

  Violations& violations = result.violations;
  workspace.download_guards();
  workspace.expect_guards("the workspace", violations);
  const struct {
    const char* name;
    TensorOnDevice& tensor;
    HostTensor& values;
  } gradients[] = {{"query_grad", query_grad, result.gradients.query},
                   {"key_grad", key_grad, result.gradients.key},
                   {"value_grad", value_grad, result.gradients.value}};
  for (const auto& [name, tensor, values] : gradients) {
    const std::vector<bool> owned(static_cast<std::size_t>(tensor.tensor().rows), true);
    if (tensor.collect(name, owned, values, violations)) result.wrote = true;
  }
  for (const auto& [name, buffer] : {std::pair<const char*, GuardedBuffer*>{"query", &query.buffer()},
                                     {"key", &key.buffer()},
                                     {"value", &value.buffer()},
                                     {"output", &output.buffer()},
                                     {"LSE", &lse},
                                     {"LSE's gradient", &lse_grad},
                                     {"output_grad", &output_grad.buffer()}}) {
    buffer->expect_unchanged(name, violations);
  }
  return result;
}

BackwardResult check_backward(Device& device, const BackwardProblem& problem,
                              const BackwardRunOptions& options) {
  BackwardResult result = run_backward(device, problem, options);
  INFO(result.status.detail());
  REQUIRE_MESSAGE(result.status.ok(), result.status.message());
  for (const std::string& violation : result.violations) FAIL_CHECK(violation);
  const reference::BackwardComparison comparison =
      reference::judge(problem.attention, problem.incoming, result.gradients);
  CHECK_MESSAGE(comparison.within_tolerance(), reference::describe(comparison));
  return result;
}

std::string first_difference(const HostGradients& a, const HostGradients& b) {
  for (const std::string& difference :
       {first_difference("query_grad", a.query, b.query), first_difference("key_grad", a.key, b.key),
        first_difference("value_grad", a.value, b.value)}) {
    if (!difference.empty()) return difference;
  }
  return {};
}

}  // namespace jfa::test
