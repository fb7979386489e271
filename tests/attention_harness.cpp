#include "tests/attention_harness.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <limits>

#include "tools/device_buffer.h"
#include "tools/float16.h"

namespace jfa::test {
namespace {

using tools::DeviceBuffer;

constexpr std::uint8_t kPoisonByte = 0xff;
constexpr std::uint16_t kPoison16 = 0xffff;  // a NaN of both 16-bit types
// Poison before and behind every buffer. Tensors then start at 16 bytes of alignment and no more.
constexpr std::uint64_t kTensorGuardBytes = 528;
constexpr std::uint64_t kWorkspaceGuardBytes = 512;

// Host bytes and their copy on the device, with poison around them.
class GuardedBuffer {
 public:
  GuardedBuffer(Device& device, std::uint64_t payload_bytes, std::uint64_t guard_bytes)
      : device_(device), guard_bytes_(guard_bytes), bytes_(payload_bytes + 2 * guard_bytes, kPoisonByte) {}

  template <class Element>
  Element* payload() {
    return reinterpret_cast<Element*>(bytes_.data() + guard_bytes_);
  }
  std::uint64_t address() const { return memory_.address() + guard_bytes_; }
  std::uint64_t payload_bytes() const { return bytes_.size() - 2 * guard_bytes_; }

  void upload() { memory_ = std::move(DeviceBuffer::upload(device_, bytes_.data(), bytes_.size()).value()); }

  /// Fetches the device's bytes; the host's were `before`.
  void download() {
    before_ = bytes_;
    device_.download(bytes_.data(), memory_.address(), bytes_.size()).or_throw();
  }

  bool unchanged() const { return bytes_ == before_; }
  bool guards_intact() const {
    const auto is_poison = [](std::uint8_t byte) { return byte == kPoisonByte; };
    const auto guard = static_cast<std::ptrdiff_t>(guard_bytes_);
    return std::all_of(bytes_.begin(), bytes_.begin() + guard, is_poison) &&
           std::all_of(bytes_.end() - guard, bytes_.end(), is_poison);
  }

 private:
  Device& device_;
  std::uint64_t guard_bytes_;
  std::vector<std::uint8_t> bytes_;
  std::vector<std::uint8_t> before_;
  DeviceBuffer memory_;
};

std::uint64_t span_bytes(const HostTensor& tensor, Strides strides) {
  if (tensor.rows == 0 || tensor.heads == 0) return 0;
  return 2 * static_cast<std::uint64_t>((tensor.rows - 1) * strides.row + (tensor.heads - 1) * strides.head +
                                        tensor.head_dim);
}

// A strided 16-bit tensor on the device.
class TensorOnDevice {
 public:
  TensorOnDevice(Device& device, const HostTensor& shape, std::optional<Strides> strides, DType dtype)
      : shape_(shape.rows, shape.heads, shape.head_dim),
        strides_(strides.value_or(packed(shape))),
        dtype_(dtype),
        buffer_(device, span_bytes(shape, strides_), kTensorGuardBytes) {}

  void fill(const HostTensor& values) {
    for_each([&](std::int64_t row, std::int64_t head, std::int64_t column, std::uint16_t& bits) {
      bits = to_bits(dtype_, values.at(row, head, column));
    });
  }
  void upload() { buffer_.upload(); }
  GuardedBuffer& buffer() { return buffer_; }
  Tensor tensor() const {
    return {buffer_.address(), shape_.rows,   shape_.heads, shape_.head_dim,
            strides_.row,      strides_.head, dtype_};
  }

  /// The values that were written, and poison elsewhere; `owned` says for which rows writing is allowed.
  HostTensor collect(const std::vector<bool>& owned, RunResult& result) {
    HostTensor values(shape_.rows, shape_.heads, shape_.head_dim);
    std::uint64_t written = 0;
    std::uint64_t written_owned = 0;
    std::optional<std::int64_t> stray_row;
    const auto elements = buffer_.payload_bytes() / 2;
    for (std::uint64_t i = 0; i < elements; ++i)
      written += buffer_.payload<std::uint16_t>()[i] != kPoison16 ? 1 : 0;
    for_each([&](std::int64_t row, std::int64_t head, std::int64_t column, std::uint16_t& bits) {
      values.at(row, head, column) = to_float(dtype_, bits);
      if (bits == kPoison16) return;
      ++written_owned;
      if (!owned[static_cast<std::size_t>(row)]) stray_row = row;
    });
    if (stray_row)
      result.violations.push_back(fmt::format("output row {} is nobody's, but was written", *stray_row));
    if (written != written_owned)
      result.violations.push_back("output: a gap between its elements was written");
    result.wrote = result.wrote || written > 0;
    return values;
  }

 private:
  template <class Visit>
  void for_each(const Visit& visit) {
    auto* elements = buffer_.payload<std::uint16_t>();
    for (std::int64_t row = 0; row < shape_.rows; ++row) {
      for (std::int64_t head = 0; head < shape_.heads; ++head) {
        for (std::int64_t column = 0; column < shape_.head_dim; ++column) {
          visit(row, head, column, elements[row * strides_.row + head * strides_.head + column]);
        }
      }
    }
  }

  HostTensor shape_;
  Strides strides_;
  DType dtype_;
  GuardedBuffer buffer_;
};

class OffsetsOnDevice {
 public:
  OffsetsOnDevice(Device& device, const std::vector<std::int64_t>& values, OffsetType type)
      : count_(static_cast<std::int64_t>(values.size())),
        type_(type),
        buffer_(device, values.size() * (type == OffsetType::int32 ? 4 : 8), kTensorGuardBytes) {
    for (std::size_t i = 0; i < values.size(); ++i) {
      if (type == OffsetType::int32)
        buffer_.payload<std::int32_t>()[i] = static_cast<std::int32_t>(values[i]);
      if (type == OffsetType::int64) buffer_.payload<std::int64_t>()[i] = values[i];
    }
    buffer_.upload();
  }
  Offsets offsets() const { return {buffer_.address(), count_, type_}; }

 private:
  std::int64_t count_;
  OffsetType type_;
  GuardedBuffer buffer_;
};

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
    return Device::open(name ? name : "sim:sm_100a").value();
  }();
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
    workspace.download();
    if (!workspace.guards_intact()) result.violations.emplace_back("memory around the workspace was written");
  }

  const std::vector<bool> owned = owned_rows(problem, rows);
  output.buffer().download();
  lse.download();
  for (const auto& [name, buffer] :
       {std::pair<const char*, GuardedBuffer*>{"output", &output.buffer()}, {"LSE", &lse}}) {
    if (!buffer->guards_intact())
      result.violations.push_back(fmt::format("memory around {} was written", name));
  }
  result.output = output.collect(owned, result);
  check_lse(lse, owned, result);
  if (!options.lse) result.lse.clear();
  for (TensorOnDevice* input : {&query, &key, &value}) {
    input->buffer().download();
    if (!input->buffer().unchanged()) result.violations.emplace_back("an input was written");
  }
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
