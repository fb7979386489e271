// SHA-256: names entries and detects damage.
#pragma once

#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace jfa {

struct Digest {
  static constexpr std::size_t kBytes = 32;
  std::array<std::uint8_t, kBytes> bytes{};

  /// 64 lower-case hexadecimal digits.
  std::string hex() const;
  std::string_view view() const { return {reinterpret_cast<const char*>(bytes.data()), kBytes}; }

  auto operator<=>(const Digest&) const = default;
};

std::optional<Digest> parse_digest(std::string_view hex);

/// Hashes what is appended.
class Sha256 {
 public:
  Sha256();
  ~Sha256();
  Sha256& append(std::string_view bytes);
  Digest finish();

 private:
  struct Context;
  std::unique_ptr<Context> context_;
};

Digest sha256(std::string_view bytes);

}  // namespace jfa

template <>
struct std::hash<jfa::Digest> {
  std::size_t operator()(const jfa::Digest& digest) const noexcept {
    std::size_t value;
    static_assert(sizeof value <= jfa::Digest::kBytes);
    __builtin_memcpy(&value, digest.bytes.data(), sizeof value);
    return value;
  }
};
