#include "tests/attention/guarded_memory.h"

#include <fmt/format.h>

#include <algorithm>

#include "reference/float16.h"

namespace jfa::test {
namespace {

std::uint64_t span_bytes(const HostTensor& tensor, Strides strides) {
  if (tensor.rows == 0 || tensor.heads == 0) return 0;
  return 2 * static_cast<std::uint64_t>((tensor.rows - 1) * strides.row + (tensor.heads - 1) * strides.head +
                                        tensor.head_dim);
}

}  // namespace

void GuardedBuffer::upload() {
  memory_ = std::move(tools::DeviceBuffer::upload(device_, bytes_.data(), bytes_.size()).value());
}

void GuardedBuffer::download() {
  before_ = bytes_;
  device_.download(bytes_.data(), memory_.address(), bytes_.size()).or_throw();
}

void GuardedBuffer::download_guards() {
  const std::uint64_t last = bytes_.size() - guard_bytes_;
  device_.download(bytes_.data(), memory_.address(), guard_bytes_).or_throw();
  device_.download(bytes_.data() + last, memory_.address() + last, guard_bytes_).or_throw();
}

bool GuardedBuffer::guards_intact() const {
  const auto is_poison = [](std::uint8_t byte) { return byte == kPoisonByte; };
  const auto guard = static_cast<std::ptrdiff_t>(guard_bytes_);
  return std::all_of(bytes_.begin(), bytes_.begin() + guard, is_poison) &&
         std::all_of(bytes_.end() - guard, bytes_.end(), is_poison);
}

void GuardedBuffer::expect_unchanged(std::string_view name, Violations& violations) {
  download();
  if (!unchanged()) violations.push_back(fmt::format("{} was written", name));
}

void GuardedBuffer::expect_guards(std::string_view name, Violations& violations) const {
  if (!guards_intact()) violations.push_back(fmt::format("memory around {} was written", name));
}

TensorOnDevice::TensorOnDevice(Device& device, const HostTensor& shape, std::optional<Strides> strides,
                               DType dtype)
    : shape_(shape.rows, shape.heads, shape.head_dim),
      strides_(strides.value_or(packed(shape))),
      dtype_(dtype),
      buffer_(device, span_bytes(shape, strides_), kTensorGuardBytes) {}

template <class Visit>
void TensorOnDevice::for_each(const Visit& visit) {
  auto* elements = buffer_.payload<std::uint16_t>();
  for (std::int64_t row = 0; row < shape_.rows; ++row) {
    for (std::int64_t head = 0; head < shape_.heads; ++head) {
      for (std::int64_t column = 0; column < shape_.head_dim; ++column) {
        visit(row, head, column, elements[row * strides_.row + head * strides_.head + column]);
      }
    }
  }
}

void TensorOnDevice::fill(const HostTensor& values) {
  for_each([&](std::int64_t row, std::int64_t head, std::int64_t column, std::uint16_t& bits) {
    bits = to_bits(dtype_, values.at(row, head, column));
  });
}

Tensor TensorOnDevice::tensor() const {
  return {buffer_.address(), shape_.rows, shape_.heads, shape_.head_dim, strides_.row, strides_.head, dtype_};
}

bool TensorOnDevice::collect(std::string_view name, const std::vector<bool>& owned, HostTensor& values,
                             Violations& violations) {
  buffer_.download();
  buffer_.expect_guards(name, violations);
  values = HostTensor(shape_.rows, shape_.heads, shape_.head_dim);
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
    violations.push_back(fmt::format("{} row {} is nobody's, but was written", name, *stray_row));
  if (written != written_owned)
    violations.push_back(fmt::format("{}: a gap between its elements was written", name));
  return written > 0;
}

OffsetsOnDevice::OffsetsOnDevice(Device& device, const std::vector<std::int64_t>& values, OffsetType type)
    : count_(static_cast<std::int64_t>(values.size())),
      type_(type),
      buffer_(device, values.size() * (type == OffsetType::int32 ? 4 : 8), kTensorGuardBytes) {
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (type == OffsetType::int32) buffer_.payload<std::int32_t>()[i] = static_cast<std::int32_t>(values[i]);
    if (type == OffsetType::int64) buffer_.payload<std::int64_t>()[i] = values[i];
  }
  buffer_.upload();
}

}  // namespace jfa::test
