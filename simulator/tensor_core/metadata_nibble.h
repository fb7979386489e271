// Four bits of sparse metadata: which elements of a group along k are there. Of 8- and 16-bit elements two of
// four stay, of 32-bit elements one of two.
#pragma once

#include <cstdint>

namespace jfa::simulator {

/// Elements along k that a nibble speaks of.
constexpr std::uint32_t metadata_group(std::uint32_t bytes_per_element) {
  return bytes_per_element == 4 ? 2 : 4;
}

struct MetadataNibble {
  std::uint32_t positions[2] = {};  ///< in the group, in the order of A's elements
  std::uint32_t count = 0;          ///< elements of A: 1 of a group of two, 2 of a group of four
  const char* wrong = nullptr;      ///< what the nibble must be and is not; null: it means something
};

/// ascending: two positions must ascend; else they must only differ.
constexpr MetadataNibble decode_metadata_nibble(std::uint32_t nibble, std::uint32_t group, bool ascending) {
  // A position among two is coded as a pair of positions of halves among four.
  constexpr std::uint32_t kFirstOfTwo = 0b0100, kSecondOfTwo = 0b1110;
  if (group == 2) {
    const bool valid = nibble == kFirstOfTwo || nibble == kSecondOfTwo;
    return {{nibble == kSecondOfTwo ? 1u : 0u}, 1, valid ? nullptr : "it must be 0x4 or 0xe"};
  }
  const std::uint32_t first = nibble & 3, second = nibble >> 2;
  if (ascending) return {{first, second}, 2, first < second ? nullptr : "its two positions must ascend"};
  return {{first, second}, 2, first != second ? nullptr : "its two positions must differ"};
}

}  // namespace jfa::simulator
