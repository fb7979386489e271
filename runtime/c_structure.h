// Structures of the C interface that grow: their first field, struct_bytes, says what the caller knows of.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string_view>

#include "jfa/status.h"

namespace jfa {

/// The structure's first field. kInvalidArgument: it is below first_bytes, the structure's size in the first
/// version of the header that has it, or no structure of this library's age can be so large.
inline Status read_struct_bytes(std::string_view name, const void* given, std::uint64_t first_bytes,
                                std::uint64_t* bytes) {
  constexpr std::uint64_t kMostBytes = 4096;
  std::memcpy(bytes, given, sizeof *bytes);
  if (*bytes < first_bytes)
    return Status::invalid_argument(
        fmt::format("{}.struct_bytes is {}: its first version has {} bytes", name, *bytes, first_bytes));
  if (*bytes > kMostBytes)
    return Status::invalid_argument(
        fmt::format("{}.struct_bytes is {}: above {}, which no version has", name, *bytes, kMostBytes));
  return {};
}

/// Copies a structure of the caller's version into one of ours. Fields that the caller does not know of get
/// 0, their default; what this library does not know of must be 0.
/// kInvalidArgument: as read_struct_bytes(), or an unknown field is set.
template <class Structure>
Status read_structure(std::string_view name, const Structure* given, std::uint64_t first_bytes,
                      Structure* structure) {
  std::uint64_t bytes = 0;
  if (Status status = read_struct_bytes(name, given, first_bytes, &bytes); !status.ok()) return status;
  const auto* data = reinterpret_cast<const unsigned char*>(given);
  for (std::uint64_t i = sizeof(Structure); i < bytes; ++i) {
    if (data[i] != 0)
      return Status::invalid_argument(
          fmt::format("{0}.struct_bytes is {1}: byte {2} is {3:#x}, of a field that this library, whose {0} "
                      "has {4} bytes, does not know",
                      name, bytes, i, data[i], sizeof(Structure)));
  }
  *structure = {};
  std::memcpy(structure, given, std::min<std::uint64_t>(bytes, sizeof(Structure)));
  return {};
}

/// Fills the caller's structure, whose struct_bytes is set, from one of ours: what the caller does not know
/// of is left out, what this library does not know of gets 0. kInvalidArgument: struct_bytes is below
/// first_bytes, or no structure of this library's age can be so large.
template <class Structure>
Status write_structure(std::string_view name, const Structure& structure, std::uint64_t first_bytes,
                       Structure* given) {
  std::uint64_t bytes = 0;
  if (Status status = read_struct_bytes(name, given, first_bytes, &bytes); !status.ok()) return status;
  auto* data = reinterpret_cast<unsigned char*>(given);
  const std::uint64_t known = std::min<std::uint64_t>(bytes, sizeof(Structure));
  std::memcpy(data + sizeof bytes, reinterpret_cast<const unsigned char*>(&structure) + sizeof bytes,
              known - sizeof bytes);
  std::fill(data + known, data + bytes, 0);
  return {};
}

}  // namespace jfa
