// Device memory for tests: NaN bits around everything, and in everything that a call is to write.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "jfa/attention.h"
#include "tests/attention/harness.h"
#include "tools/device_buffer.h"

namespace jfa::test {

inline constexpr std::uint8_t kPoisonByte = 0xff;
inline constexpr std::uint16_t kPoison16 = 0xffff;  // a NaN of both 16-bit types
/// Poison before and behind every buffer. Tensors then start at 16 bytes of alignment and no more.
inline constexpr std::uint64_t kTensorGuardBytes = 528;
inline constexpr std::uint64_t kWorkspaceGuardBytes = 512;

/// What a run did that it must not do, in words.
using Violations = std::vector<std::string>;

/// Host bytes and their copy on the device, with poison around them.
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

  void upload();
  /// Fetches the device's bytes; unchanged() then compares with the host's before.
  void download();
  /// Fetches the guards only, of a buffer whose content is nobody's business.
  void download_guards();
  bool unchanged() const { return bytes_ == before_; }
  bool guards_intact() const;

  /// Downloads, and reports a change as one of the buffer's name.
  void expect_unchanged(std::string_view name, Violations& violations);
  void expect_guards(std::string_view name, Violations& violations) const;

 private:
  Device& device_;
  std::uint64_t guard_bytes_;
  std::vector<std::uint8_t> bytes_;
  std::vector<std::uint8_t> before_;
  tools::DeviceBuffer memory_;
};

/// A strided 16-bit tensor on the device.
class TensorOnDevice {
 public:
  TensorOnDevice(Device& device, const HostTensor& shape, std::optional<Strides> strides, DType dtype);

  void fill(const HostTensor& values);
  void upload() { buffer_.upload(); }
  GuardedBuffer& buffer() { return buffer_; }
  Tensor tensor() const;

  /// The values that were written, and poison elsewhere; `owned` says for which rows writing is allowed.
  /// Returns whether anything was.
  bool collect(std::string_view name, const std::vector<bool>& owned, HostTensor& values,
               Violations& violations);

 private:
  template <class Visit>
  void for_each(const Visit& visit);

  HostTensor shape_;
  Strides strides_;
  DType dtype_;
  GuardedBuffer buffer_;
};

class OffsetsOnDevice {
 public:
  OffsetsOnDevice(Device& device, const std::vector<std::int64_t>& values, OffsetType type);
  Offsets offsets() const { return {buffer_.address(), count_, type_}; }

 private:
  std::int64_t count_;
  OffsetType type_;
  GuardedBuffer buffer_;
};

}  // namespace jfa::test
