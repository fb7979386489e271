// Structures of the C interface that grow: their first field, struct_bytes, says what the caller knows of.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string_view>

#include "jfa/status.h"

namespace jfa {

/// Copies a structure of the caller's version into one of ours. Fields that the caller does not know of get
/// 0, their default; what this library does not know of must be 0.
/// first_bytes: the structure's size in the first version of the header that has it.
/// kInvalidArgument: struct_bytes is below that, or no structure of this library's age can be so large, or an
/// unknown field is set.
template <class Structure>
Status read_structure(std::string_view name, const Structure* given, std::uint64_t first_bytes,
                      Structure* structure) {
  constexpr std::uint64_t kMostBytes = 4096;
  std::uint64_t bytes = 0;
  std::memcpy(&bytes, given, sizeof bytes);
  const auto refuse = [&](std::string_view why) {
    return Status::invalid_argument(fmt::format("{}.struct_bytes is {}: {}", name, bytes, why));
  };
  if (bytes < first_bytes) return refuse(fmt::format("its first version has {} bytes", first_bytes));
  if (bytes > kMostBytes) return refuse(fmt::format("above {}, which no version has", kMostBytes));
  const auto* data = reinterpret_cast<const unsigned char*>(given);
  for (std::uint64_t i = sizeof(Structure); i < bytes; ++i) {
    if (data[i] != 0)
      return refuse(
          fmt::format("byte {} is {:#x}, of a field that this library, whose {} has {} bytes, does "
                      "not know",
                      i, data[i], name, sizeof(Structure)));
  }
  *structure = {};
  std::memcpy(structure, given, std::min<std::uint64_t>(bytes, sizeof(Structure)));
  return {};
}

}  // namespace jfa
