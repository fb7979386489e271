#include "simulator/ptx/ptx_cursor.h"

#include <cctype>
#include <cstdlib>
#include <cstring>

namespace jfa::simulator {
namespace {

bool is_word(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '$' || c == '%' || c == '.';
}

}  // namespace

void PtxCursor::skip_space() {
  while (position_ < text_.size()) {
    const char c = text_[position_];
    if (c == '\n') {
      ++line_;
      ++position_;
    } else if (c == ' ' || c == '\t' || c == '\r' || c == '\f' || c == '\0') {
      ++position_;
    } else if (text_.compare(position_, 2, "//") == 0) {
      position_ = std::min(text_.find('\n', position_), text_.size());
    } else if (text_.compare(position_, 2, "/*") == 0) {
      const std::size_t end = text_.find("*/", position_ + 2);
      if (end == std::string_view::npos) fail("a comment that does not end");
      for (; position_ < end; ++position_) line_ += text_[position_] == '\n';
      position_ = end + 2;
    } else {
      return;
    }
  }
}

bool PtxCursor::at_end() {
  skip_space();
  return position_ >= text_.size();
}

char PtxCursor::peek() { return at_end() ? '\0' : text_[position_]; }

bool PtxCursor::accept(char c) {
  if (peek() != c) return false;
  ++position_;
  return true;
}

void PtxCursor::expect(char c) {
  if (!accept(c)) fail(std::string("expected '") + c + "'");
}

std::string_view PtxCursor::word(bool colons) {
  skip_space();
  const std::size_t from = position_;
  while (position_ < text_.size()) {
    if (is_word(text_[position_])) {
      ++position_;
    } else if (colons && text_.compare(position_, 2, "::") == 0) {
      position_ += 2;
    } else {
      break;
    }
  }
  return text_.substr(from, position_ - from);
}

std::string_view PtxCursor::peek_word() {
  skip_space();
  const std::size_t from = position_;
  std::size_t end = from;
  while (end < text_.size() && is_word(text_[end])) ++end;
  return text_.substr(from, end - from);
}

std::uint64_t PtxCursor::integer() {
  Operand operand;
  const std::string_view w = word();
  if (!parse_number(w, operand) || operand.kind != Operand::Kind::kInteger)
    fail("expected an integer, found `" + std::string(w) + "`");
  return operand.value;
}

std::int64_t PtxCursor::signed_integer() {
  const bool negative = accept('-');
  if (!negative) accept('+');
  const auto value = static_cast<std::int64_t>(integer());
  return negative ? -value : value;
}

std::string PtxCursor::string_literal() {
  expect('"');
  const std::size_t end = text_.find('"', position_);
  if (end == std::string_view::npos) fail("a string that does not end");
  std::string result(text_.substr(position_, end - position_));
  position_ = end + 1;
  return result;
}

std::string_view PtxCursor::rest_of_line() {
  const std::size_t end = std::min(text_.find('\n', position_), text_.size());
  std::string_view rest = text_.substr(position_, end - position_);
  position_ = end;
  return rest.substr(0, rest.find("//"));
}

void PtxCursor::skip_braces() {
  expect('{');
  const std::size_t end = text_.find('}', position_);
  if (end == std::string_view::npos) fail("a block that does not end");
  for (; position_ < end; ++position_) line_ += text_[position_] == '\n';
  ++position_;
}

void PtxCursor::fail(const std::string& message) const { throw PtxError{line_, message, {}}; }

bool parse_number(std::string_view word, Operand& operand) {
  const bool negative = !word.empty() && word[0] == '-';
  if (negative) word.remove_prefix(1);
  if (word.empty() || std::isdigit(static_cast<unsigned char>(word[0])) == 0) return false;
  std::string text(word);
  char* end = nullptr;
  if (text.size() > 2 && text[0] == '0' &&
      (text[1] == 'f' || text[1] == 'F' || text[1] == 'd' || text[1] == 'D')) {
    const bool single = text[1] == 'f' || text[1] == 'F';
    operand.kind = single ? Operand::Kind::kFloat32 : Operand::Kind::kFloat64;
    operand.value = std::strtoull(text.c_str() + 2, &end, 16);
    if (negative) operand.value ^= single ? 0x8000'0000ull : 0x8000'0000'0000'0000ull;
    return *end == '\0';
  }
  if (text.find('.') != std::string::npos) {
    double value = std::strtod(text.c_str(), &end);
    if (negative) value = -value;
    operand.kind = Operand::Kind::kFloat64;
    std::memcpy(&operand.value, &value, sizeof value);
    return *end == '\0';
  }
  operand.kind = Operand::Kind::kInteger;
  if (text.back() == 'U') text.pop_back();
  const bool binary = text.size() > 2 && text[0] == '0' && (text[1] == 'b' || text[1] == 'B');
  operand.value = binary ? std::strtoull(text.c_str() + 2, &end, 2) : std::strtoull(text.c_str(), &end, 0);
  if (negative) operand.value = 0 - operand.value;
  return *end == '\0';
}

}  // namespace jfa::simulator
