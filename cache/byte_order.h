// Little-endian integers in byte strings, whatever the machine's own order.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace jfa {

inline void append_u32(std::string& bytes, std::uint32_t value) {
  for (int shift = 0; shift < 32; shift += 8) bytes += static_cast<char>(value >> shift);
}

inline void append_u64(std::string& bytes, std::uint64_t value) {
  for (int shift = 0; shift < 64; shift += 8) bytes += static_cast<char>(value >> shift);
}

/// Takes fields off the front of a byte string. After a read past the end, ok() is false and values are 0.
class ByteReader {
 public:
  explicit ByteReader(std::string_view bytes) : rest_(bytes) {}

  std::string_view take(std::uint64_t count) {
    if (count > rest_.size()) {
      ok_ = false;
      rest_ = {};
      return {};
    }
    const std::string_view taken = rest_.substr(0, count);
    rest_.remove_prefix(count);
    return taken;
  }
  std::uint32_t u32() { return static_cast<std::uint32_t>(integer(4)); }
  std::uint64_t u64() { return integer(8); }

  bool ok() const { return ok_; }
  std::uint64_t left() const { return rest_.size(); }

 private:
  std::uint64_t integer(int count) {
    std::uint64_t value = 0;
    const std::string_view bytes = take(static_cast<std::uint64_t>(count));
    for (std::size_t i = 0; i < bytes.size(); ++i) {
      value |= static_cast<std::uint64_t>(static_cast<unsigned char>(bytes[i])) << (8 * i);
    }
    return value;
  }

  std::string_view rest_;
  bool ok_ = true;
};

}  // namespace jfa
