// Text that somebody else gave, on its way into a message.
#pragma once

#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>

namespace jfa {

/// The bytes of the character of UTF-8 that `text` begins with, 1 to 4; 0 if it begins with none.
inline std::size_t utf8_character(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  if (text.empty()) return 0;
  const unsigned char first = byte(0);
  if (first < 0x80) return 1;
  const std::size_t length = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
  if (first < 0xc2 || first > 0xf4 || text.size() < length) return 0;
  for (std::size_t i = 1; i < length; ++i)
    if ((byte(i) & 0xc0) != 0x80) return 0;
  // Overlong forms, surrogates, and what is above U+10FFFF.
  const bool out_of_range = (first == 0xe0 && byte(1) < 0xa0) || (first == 0xed && byte(1) > 0x9f) ||
                            (first == 0xf0 && byte(1) < 0x90) || (first == 0xf4 && byte(1) > 0x8f);
  return out_of_range ? 0 : length;
}

/// `text` with a question mark for every byte that is no UTF-8.
inline std::string valid_utf8(std::string_view text) {
  std::string valid;
  valid.reserve(text.size());
  while (!text.empty()) {
    const std::size_t length = utf8_character(text);
    valid += length == 0 ? std::string_view("?") : text.substr(0, length);
    text.remove_prefix(std::max<std::size_t>(length, 1));
  }
  return valid;
}

/// For a message of one line: cut behind `limit` bytes, valid UTF-8, and without control characters.
inline std::string shown(std::string_view text, std::size_t limit = 100) {
  std::size_t end = std::min(text.size(), limit);
  // No character is cut in two: continuation bytes are 10xxxxxx.
  while (end > 0 && end < text.size() && (static_cast<unsigned char>(text[end]) & 0xc0) == 0x80) --end;
  std::string result = valid_utf8(text.substr(0, end));
  for (char& c : result)
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = '?';
  return end < text.size() ? result + "…" : result;
}

}  // namespace jfa
