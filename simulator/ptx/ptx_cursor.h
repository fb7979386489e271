// A position in a PTX text: skips space and comments, takes words, numbers and punctuation.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "simulator/ptx/ptx.h"

namespace jfa::simulator {

class PtxCursor {
 public:
  explicit PtxCursor(std::string_view text) : text_(text) {}

  bool at_end();
  int line() const { return line_; }
  std::size_t position() const { return position_; }
  std::string_view between(std::size_t from, std::size_t to) const { return text_.substr(from, to - from); }

  /// The next character behind spaces and comments; 0 at the end.
  char peek();
  /// Takes `c` if it is next.
  bool accept(char c);
  void expect(char c);
  /// Letters, digits and _ $ % . ; empty if there are none. With colons: also ::
  std::string_view word(bool colons = false);
  std::string_view peek_word();
  /// An unsigned integer: decimal, hexadecimal, octal, binary, with an optional U.
  std::uint64_t integer();
  /// A signed one.
  std::int64_t signed_integer();
  std::string string_literal();
  /// The rest of the line, without a comment.
  std::string_view rest_of_line();
  /// Skips a `{ … }` whose text does not matter.
  void skip_braces();

  [[noreturn]] void fail(const std::string& message) const;

 private:
  void skip_space();

  std::string_view text_;
  std::size_t position_ = 0;
  int line_ = 1;
};

/// Value of a number as written: 12, -3, 0x1F, 0f3F800000, 0d…, 1.5. False if it is none.
bool parse_number(std::string_view word, Operand& operand);

}  // namespace jfa::simulator
