#include "tools/tune_probe.h"

#include <fmt/format.h>

#include <random>
#include <utility>

#include "reference/float16.h"

namespace jfa::tools {
namespace {

using reference::HostTensor;

constexpr std::uint8_t kPoison = 0xff;  // NaN, as 16 bits and as 32

struct Lengths {
  std::int64_t query, key;
};
constexpr Lengths kProbeLengths[] = {{70, 130}, {1, 200}, {0, 5}, {3, 1100}, {150, 90}, {4, 0}};

std::uint64_t bytes_of(const HostTensor& tensor) { return 2 * tensor.values.size(); }

void draw(HostTensor& tensor, std::mt19937& generator, DType dtype) {
  for (float& value : tensor.values) {
    // Not std::normal_distribution, which differs between libraries.
    const auto sum = static_cast<float>((generator() & 0xff) + (generator() & 0xff) + (generator() & 0xff));
    value = round_to(dtype, (sum - 382.5F) / 128);
  }
}

std::vector<std::uint16_t> bits_of(const HostTensor& tensor, DType dtype) {
  std::vector<std::uint16_t> bits;
  bits.reserve(tensor.values.size());
  for (const float value : tensor.values) bits.push_back(to_bits(dtype, value));
  return bits;
}

reference::Problem problem_of(const BenchShape& shape) {
  const bool shared = shape.kind == BenchShape::Kind::kPma;
  reference::Problem problem;
  problem.dtype = shape.dtype;
  problem.window = shape.window;
  problem.broadcast_q = shared;
  problem.query_offset.push_back(0);
  problem.key_offset.push_back(0);
  for (const Lengths& lengths : kProbeLengths) {
    problem.query_offset.push_back(problem.query_offset.back() + (shared ? shape.q_len : lengths.query));
    problem.key_offset.push_back(problem.key_offset.back() + lengths.key);
  }
  const std::int64_t query_rows = shared ? shape.q_len : problem.query_offset.back();
  problem.query = HostTensor(query_rows, shape.groups, shape.head_dim);
  problem.key = HostTensor(problem.key_offset.back(), 1, shape.head_dim);
  problem.value = problem.key;
  std::mt19937 generator(29);
  for (HostTensor* tensor : {&problem.query, &problem.key, &problem.value})
    draw(*tensor, generator, shape.dtype);
  return problem;
}

Tensor tensor_of(const HostTensor& host, std::uint64_t address, DType dtype) {
  return Tensor::packed(address, host.rows, host.heads, host.head_dim, dtype);
}

}  // namespace

Result<TuneProbe> TuneProbe::make(Device& device, const BenchShape& shape, Pass pass) {
  TuneProbe probe(device);
  probe.pass_ = pass;
  probe.problem_ = problem_of(shape);
  probe.incoming_.output = HostTensor(reference::output_rows(probe.problem_), shape.groups, shape.head_dim);
  std::mt19937 generator(31);
  draw(probe.incoming_.output, generator, shape.dtype);
  if (Status status = probe.upload(); !status.ok()) return status;
  if (pass == Pass::forward) {
    probe.exact_ = reference::solve(probe.problem_);
    probe.eager_ = reference::solve_eager(probe.problem_);
    return probe;
  }
  // The backward reads what the forward gave; the defaults' is as good as any.
  probe.exact_backward_ = reference::solve_backward(probe.problem_, probe.incoming_);
  probe.eager_backward_ = reference::solve_backward_eager(probe.problem_, probe.incoming_);
  const Tuning defaults;
  probe.call_.tuning = &defaults;
  Status status = forward(probe.device_, probe.call_, probe.output_, probe.lse_);
  if (status.ok()) status = probe.device_.synchronize();
  probe.call_.tuning = nullptr;
  if (!status.ok()) return status;
  return probe;
}

Result<std::uint64_t> TuneProbe::buffer(const std::vector<std::uint16_t>& bits) {
  Result<DeviceBuffer> made = DeviceBuffer::upload(device_, bits.data(), 2 * bits.size());
  if (!made) return made.status();
  buffers_.push_back(std::move(*made));
  return buffers_.back().address();
}

Result<std::uint64_t> TuneProbe::empty_buffer(std::uint64_t bytes) {
  Result<DeviceBuffer> made = DeviceBuffer::allocate(device_, bytes);
  if (!made) return made.status();
  buffers_.push_back(std::move(*made));
  return buffers_.back().address();
}

Status TuneProbe::upload() {
  const DType dtype = problem_.dtype;
  Status status;
  const auto take = [&](const HostTensor& host, Tensor& tensor, bool filled) {
    if (!status.ok()) return;
    const Result<std::uint64_t> address =
        filled ? buffer(bits_of(host, dtype)) : empty_buffer(bytes_of(host));
    if (!address) {
      status = address.status();
    } else {
      tensor = tensor_of(host, *address, dtype);
    }
  };
  const auto take_offsets = [&](const std::vector<std::int64_t>& values, Offsets& offsets) {
    if (!status.ok()) return;
    Result<DeviceBuffer> made = DeviceBuffer::upload(device_, values.data(), 8 * values.size());
    if (!made) {
      status = made.status();
      return;
    }
    buffers_.push_back(std::move(*made));
    offsets = {buffers_.back().address(), static_cast<std::int64_t>(values.size()), OffsetType::int64};
  };
  take(problem_.query, call_.query, true);
  take(problem_.key, call_.key, true);
  take(problem_.value, call_.value, true);
  take_offsets(problem_.key_offset, call_.key_offset);
  if (!problem_.broadcast_q) take_offsets(problem_.query_offset, call_.query_offset);
  call_.window = problem_.window;
  call_.broadcast_q = problem_.broadcast_q;
  take(incoming_.output, output_, false);
  take(incoming_.output, output_grad_, true);
  take(problem_.query, query_grad_, false);
  take(problem_.key, key_grad_, false);
  take(problem_.value, value_grad_, false);
  if (!status.ok()) return status;
  const Result<std::uint64_t> lse =
      empty_buffer(4 * static_cast<std::uint64_t>(output_.rows * output_.heads));
  if (!lse) return lse.status();
  lse_ = *lse;
  const Result<std::uint64_t> bytes = pass_ == Pass::forward
                                          ? workspace_bytes(call_)
                                          : backward_workspace_bytes(call_, OutputGradient::of(output_grad_));
  if (!bytes) return bytes.status();
  const Result<std::uint64_t> scratch = empty_buffer(*bytes);
  if (!scratch) return scratch.status();
  workspace_ = {*scratch, *bytes};
  return {};
}

Result<HostTensor> TuneProbe::result(const Tensor& tensor) {
  HostTensor host(tensor.rows, tensor.heads, tensor.head_dim);
  std::vector<std::uint16_t> bits(host.values.size());
  if (Status status = device_.download(bits.data(), tensor.address, 2 * bits.size()); !status.ok())
    return status;
  for (std::size_t i = 0; i < bits.size(); ++i) host.values[i] = to_float(tensor.dtype, bits[i]);
  bits_.insert(bits_.end(), bits.begin(), bits.end());
  return host;
}

Status TuneProbe::check(const Tuning& tuning) {
  bits_.clear();
  call_.tuning = &tuning;
  const Status status = pass_ == Pass::forward ? check_forward() : check_backward();
  call_.tuning = nullptr;
  return status;
}

Status TuneProbe::check_forward() {
  Status status = device_.fill(output_.address, kPoison, bytes_of(incoming_.output));
  std::vector<float> lse(static_cast<std::size_t>(output_.rows * output_.heads));
  if (status.ok()) status = device_.fill(lse_, kPoison, 4 * lse.size());
  if (status.ok()) status = forward(device_, call_, output_, lse_, workspace_);
  if (status.ok()) status = jfa::status(device_, workspace_);
  if (!status.ok()) return status;
  const Result<HostTensor> output = result(output_);
  if (!output) return output.status();
  status = device_.download(lse.data(), lse_, 4 * lse.size());
  if (!status.ok()) return status;
  const reference::Comparison compared = reference::compare(problem_, exact_, eager_, *output, lse);
  if (compared.within_tolerance) return {};
  return Status::unavailable("differs from fp64: " + compared.worst);
}

Status TuneProbe::check_backward() {
  Status status;
  for (const Tensor* gradient : {&query_grad_, &key_grad_, &value_grad_}) {
    if (status.ok())
      status =
          device_.fill(gradient->address, kPoison,
                       2 * static_cast<std::uint64_t>(gradient->rows * gradient->heads * gradient->head_dim));
  }
  if (status.ok())
    status = backward(device_, call_, output_, lse_, OutputGradient::of(output_grad_), 0, query_grad_,
                      key_grad_, value_grad_, workspace_);
  if (status.ok()) status = jfa::status(device_, workspace_);
  if (!status.ok()) return status;
  reference::HostGradients gradients;
  for (const auto& [tensor, host] : {std::pair{&query_grad_, &gradients.query},
                                     {&key_grad_, &gradients.key},
                                     {&value_grad_, &gradients.value}}) {
    Result<HostTensor> read = result(*tensor);
    if (!read) return read.status();
    *host = std::move(*read);
  }
  const reference::BackwardComparison compared =
      reference::compare(problem_, exact_backward_, eager_backward_, gradients);
  for (const auto& [name, gradient] : {std::pair{"query_grad", &compared.query},
                                       {"key_grad", &compared.key},
                                       {"value_grad", &compared.value}})
    if (!gradient->worst.empty())
      return Status::unavailable(fmt::format("{} differs from fp64: {}", name, gradient->worst));
  return {};
}

}  // namespace jfa::tools
