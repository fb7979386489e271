// A part of work that several machines share: "0/4" … "3/4".
#pragma once

#include <charconv>
#include <cstdint>
#include <optional>
#include <string>

namespace jfa::tools {

struct Shard {
  std::uint32_t index = 0;
  std::uint32_t count = 0;
};

inline std::optional<Shard> parse_shard(const std::string& text) {
  Shard shard;
  const char* const end = text.data() + text.size();
  const auto index = std::from_chars(text.data(), end, shard.index);
  if (index.ec != std::errc() || index.ptr == end || *index.ptr != '/') return std::nullopt;
  const auto count = std::from_chars(index.ptr + 1, end, shard.count);
  if (count.ec != std::errc() || count.ptr != end || shard.index >= shard.count) return std::nullopt;
  return shard;
}

}  // namespace jfa::tools
