// What the examples share beside their point: bf16 numbers, and vectors that live on a device. Any memory of
// the device will do for jfa; a program that has its own allocator gives jfa that memory's addresses.
#pragma once

#include <jfa/attention.h>

#include <bit>
#include <cstddef>
#include <cstdint>
#include <random>
#include <utility>
#include <vector>

namespace example {

class Bf16 {
 public:
  Bf16() = default;
  Bf16(float value) {  // NOLINT(google-explicit-constructor)
    const auto bits = std::bit_cast<std::uint32_t>(value);
    bits_ = static_cast<std::uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);  // to nearest, ties to even
  }
  operator float() const {  // NOLINT(google-explicit-constructor)
    return std::bit_cast<float>(static_cast<std::uint32_t>(bits_) << 16);
  }

 private:
  std::uint16_t bits_ = 0;
};

/// A vector on a device: made there, filled from the host and read back, freed with its scope. Throws
/// jfa::Error.
template <class T>
class DeviceArray {
 public:
  DeviceArray(const jfa::Device& device, std::size_t size)
      : device_(device), size_(size), address_(device_.allocate(size * sizeof(T)).value()) {}
  DeviceArray(const jfa::Device& device, const std::vector<T>& host) : DeviceArray(device, host.size()) {
    upload(host);
  }
  ~DeviceArray() { (void)device_.free(address_); }
  DeviceArray(const DeviceArray&) = delete;
  DeviceArray& operator=(const DeviceArray&) = delete;

  std::uint64_t address() const { return address_; }
  std::size_t size() const { return size_; }

  /// host: size() elements.
  void upload(const std::vector<T>& host) {
    device_.upload(address_, host.data(), size_ * sizeof(T)).or_throw();
  }
  std::vector<T> download() {
    std::vector<T> host(size_);
    device_.download(host.data(), address_, size_ * sizeof(T)).or_throw();
    return host;
  }

  /// The array as a tensor [rows, heads, head_dim]; of Bf16 only.
  jfa::Tensor tensor(std::int64_t heads, std::int64_t head_dim) const {
    return jfa::Tensor::packed(address_, static_cast<std::int64_t>(size_) / (heads * head_dim), heads,
                               head_dim, jfa::DType::bf16);
  }
  /// The array as offsets; of std::int32_t only.
  jfa::Offsets offsets() const {
    return {address_, static_cast<std::int64_t>(size_), jfa::OffsetType::int32};
  }

 private:
  jfa::Device device_;
  std::size_t size_;
  std::uint64_t address_;
};

/// Standard normal numbers, rounded to bf16.
inline std::vector<Bf16> random_values(std::size_t count, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  std::vector<Bf16> values(count);
  for (Bf16& value : values) value = normal(random);
  return values;
}

}  // namespace example
