// Elements of 4 and 6 bits in a byte each, as tensor memory holds them for kinds f8f6f4 and mxf8f6f4: in the
// low bits, those of 4 bits two bits up. So mma.sync has them in registers, by CUTLASS; doubt 34.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

namespace jfa::simulator {

/// How far up in its byte an element of 4, 6 or 8 bits lies.
constexpr std::uint32_t container_shift(std::uint32_t bits) { return bits == 4 ? 2 : 0; }

/// Moves elements from the low bits of their bytes to where they lie in tensor memory.
inline void to_containers(std::uint32_t bits, std::span<std::byte> elements) {
  for (std::byte& element : elements) element <<= container_shift(bits);
}

/// And back. Returns the first byte with other bits set, if there is one.
inline std::optional<std::size_t> from_containers(std::uint32_t bits, std::span<std::byte> elements) {
  const auto mask = static_cast<std::byte>((1u << bits) - 1);
  for (std::size_t i = 0; i < elements.size(); ++i) {
    const std::byte element = elements[i] >> container_shift(bits);
    if (((element & mask) << container_shift(bits)) != elements[i]) return i;
    elements[i] = element;
  }
  return std::nullopt;
}

}  // namespace jfa::simulator
