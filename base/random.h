// Numbers that look random and are the same everywhere.
#pragma once

#include <cstdint>

namespace jfa {

/// The next number of splitmix64, which any state may start.
inline std::uint64_t splitmix64(std::uint64_t& state) {
  std::uint64_t z = state += 0x9e3779b97f4a7c15u;
  z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
  z = (z ^ z >> 27) * 0x94d049bb133111ebu;
  return z ^ z >> 31;
}

}  // namespace jfa
