#include "tools/bench_data.h"

#include <algorithm>
#include <iterator>

#include "reference/float16.h"
#include "runtime/device.h"

namespace jfa::tools {
namespace {

constexpr std::uint64_t kBlockBytes = std::uint64_t{64} << 20;
constexpr std::uint64_t kAlignmentBytes = 256;

// Marsaglia's xorshift: quick, and good enough for numbers that only have to look alike.
std::uint64_t next_random(std::uint64_t& state) {
  state ^= state << 13;
  state ^= state >> 7;
  state ^= state << 17;
  return state;
}

// The sum of four bytes is nearly normal; shifted and scaled to mean 0 and variance 1.
std::uint16_t normal_bits(DType dtype, std::uint32_t bits) {
  const auto sum = static_cast<int>((bits & 0xff) + (bits >> 8 & 0xff) + (bits >> 16 & 0xff) + (bits >> 24));
  return to_bits(dtype, static_cast<float>(sum - 510) / 147.8F);
}

}  // namespace

Result<RandomNumbers> RandomNumbers::make(Device& device, DType dtype, std::uint64_t most_bytes) {
  const std::uint64_t whole_bytes = (most_bytes / kAlignmentBytes + 1) * kAlignmentBytes;
  const std::uint64_t block_bytes = std::min(kBlockBytes, whole_bytes);
  std::vector<std::uint16_t> numbers(block_bytes / sizeof(std::uint16_t));
  std::uint64_t state = 0x9e3779b97f4a7c15;
  for (std::size_t i = 0; i + 1 < numbers.size(); i += 2) {
    const std::uint64_t bits = next_random(state);
    numbers[i] = normal_bits(dtype, static_cast<std::uint32_t>(bits));
    numbers[i + 1] = normal_bits(dtype, static_cast<std::uint32_t>(bits >> 32));
  }
  Result<DeviceBuffer> block = DeviceBuffer::upload(device, numbers.data(), block_bytes);
  if (!block) return block.status();
  return RandomNumbers(device, std::move(*block), block_bytes);
}

Status RandomNumbers::fill(std::uint64_t destination, std::uint64_t bytes) {
  Status status = device_.impl().with_context("filling a tensor", [&] {
    for (std::uint64_t done = 0, from = start_; done < bytes; from = 0) {
      const std::uint64_t part = std::min(bytes - done, block_bytes_ - from);
      const CUresult result =
          device_.impl().driver.cuMemcpyDtoDAsync(destination + done, block_.address() + from, part, nullptr);
      if (result != CUDA_SUCCESS) return result;
      done += part;
    }
    return device_.impl().driver.cuStreamSynchronize(nullptr);
  });
  start_ = (start_ + block_bytes_ / 3 / kAlignmentBytes * kAlignmentBytes) % block_bytes_;
  return status;
}

Result<BenchTensors> BenchTensors::make(Device& device, const BenchProblem& problem, Pass pass) {
  const BenchShape& shape = problem.shape;
  BenchTensors tensors;
  struct Extent {
    Tensor* tensor;
    std::int64_t rows;
    std::int64_t heads;
  };
  const Extent extents[] = {{&tensors.call.query, problem.query_rows(), shape.heads},
                            {&tensors.call.key, problem.key_rows(), shape.key_heads()},
                            {&tensors.call.value, problem.key_rows(), shape.key_heads()},
                            {&tensors.output, problem.output_rows(), shape.heads}};
  std::int64_t most_elements = 0;
  for (const Extent& extent : extents) {
    Result<Tensor> made = tensors.tensor(device, extent.rows, extent.heads, shape);
    if (!made) return made.status();
    *extent.tensor = *made;
    most_elements = std::max(most_elements, extent.rows * extent.heads * shape.head_dim);
  }
  AttentionCall& call = tensors.call;
  call.window = shape.window;
  call.broadcast_q = shape.kind == BenchShape::Kind::kPma;
  const Result<Offsets> query_offset = tensors.offsets(device, problem.query_offset);
  if (!query_offset) return query_offset.status();
  const Result<Offsets> key_offset = tensors.offsets(device, problem.key_offset);
  if (!key_offset) return key_offset.status();
  if (!call.broadcast_q) call.query_offset = *query_offset;
  call.key_offset = *key_offset;
  const Result<Workspace> workspace = tensors.scratch(device, workspace_bytes(call));
  if (!workspace) return workspace.status();
  tensors.workspace = *workspace;
  if (pass == Pass::backward) {
    if (Status status = tensors.add_gradients(device, shape); !status.ok()) return status;
  }

  Result<RandomNumbers> numbers =
      RandomNumbers::make(device, shape.dtype, 2 * static_cast<std::uint64_t>(most_elements));
  if (!numbers) return numbers.status();
  std::vector<const Tensor*> inputs{&call.query, &call.key, &call.value};
  Tensor output_grad = tensors.output;
  output_grad.address = tensors.output_grad.address;
  if (pass == Pass::backward) inputs.push_back(&output_grad);
  for (const Tensor* input : inputs) {
    const std::int64_t elements = input->rows * input->heads * input->head_dim;
    Status status = numbers->fill(input->address, 2 * static_cast<std::uint64_t>(elements));
    if (!status.ok()) return status;
  }
  return tensors;
}

Status BenchTensors::add_gradients(Device& device, const BenchShape& shape) {
  const auto like = [&](const Tensor& tensor) {
    return this->tensor(device, tensor.rows, tensor.heads, shape);
  };
  const Result<Tensor> gradients[] = {like(output), like(call.query), like(call.key), like(call.value)};
  for (const Result<Tensor>& gradient : gradients)
    if (!gradient) return gradient.status();
  output_grad = OutputGradient::of(*gradients[0]);
  query_grad = *gradients[1];
  key_grad = *gradients[2];
  value_grad = *gradients[3];
  Result<DeviceBuffer> statistics =
      DeviceBuffer::allocate(device, 4 * static_cast<std::uint64_t>(output.rows * output.heads));
  if (!statistics) return statistics.status();
  lse = statistics->address();
  buffers_.push_back(std::move(*statistics));
  const Result<Workspace> workspace = scratch(device, backward_workspace_bytes(call, output_grad));
  if (workspace) backward_workspace = *workspace;
  return workspace.status();
}

Result<Tensor> BenchTensors::tensor(Device& device, std::int64_t rows, std::int64_t heads,
                                    const BenchShape& shape) {
  Result<DeviceBuffer> buffer =
      DeviceBuffer::allocate(device, 2 * static_cast<std::uint64_t>(rows * heads * shape.head_dim));
  if (!buffer) return buffer.status();
  buffers_.push_back(std::move(*buffer));
  return Tensor::packed(buffers_.back().address(), rows, heads, shape.head_dim, shape.dtype);
}

Result<Offsets> BenchTensors::offsets(Device& device, const std::vector<std::int32_t>& values) {
  Result<DeviceBuffer> buffer = DeviceBuffer::upload(device, values.data(), values.size() * sizeof values[0]);
  if (!buffer) return buffer.status();
  buffers_.push_back(std::move(*buffer));
  return Offsets{buffers_.back().address(), static_cast<std::int64_t>(values.size()), OffsetType::int32};
}

Result<Workspace> BenchTensors::scratch(Device& device, const Result<std::uint64_t>& bytes) {
  if (!bytes) return bytes.status();
  Result<DeviceBuffer> buffer = DeviceBuffer::allocate(device, *bytes);
  if (!buffer) return buffer.status();
  buffers_.push_back(std::move(*buffer));
  return Workspace{buffers_.back().address(), *bytes};
}

}  // namespace jfa::tools
