// Numbers on a command line, without the freedoms of strtoll: no octal, no hexadecimal, and what does not fit
// is refused instead of cut.
#pragma once

#include <charconv>
#include <cmath>
#include <concepts>
#include <limits>
#include <string>
#include <string_view>

namespace jfa::tools {

/// Why `text` is no whole number from `least` to `most`; empty if it is one.
template <std::integral Number>
std::string not_whole(std::string_view text, Number least = std::numeric_limits<Number>::min(),
                      Number most = std::numeric_limits<Number>::max()) {
  const std::string quoted = "'" + std::string(text) + "' is ";
  const bool negative = text.starts_with('-');
  const std::string_view digits = text.substr(negative ? 1 : 0);
  const bool whole = !digits.empty() && digits.find_first_not_of("0123456789") == std::string_view::npos;
  if (!whole || (digits.size() > 1 && digits.starts_with('0'))) return quoted + "not a whole number";
  Number number = 0;  // stays so where an unsigned one has a sign
  const bool fits =
      std::from_chars(text.data(), text.data() + text.size(), number).ec == std::errc() || digits == "0";
  if (fits && number >= least && number <= most) return {};
  return negative || (fits && number < least) ? quoted + "below " + std::to_string(least)
                                              : quoted + "above " + std::to_string(most);
}

/// Why `text` is no finite number above `bound`; empty if it is one.
inline std::string not_finite(std::string_view text,
                              double bound = -std::numeric_limits<double>::infinity()) {
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  const std::string quoted = "'" + std::string(text) + "' is ";
  if (error == std::errc::invalid_argument || end != text.data() + text.size())
    return quoted + "not a number";
  if (error != std::errc() || !std::isfinite(number)) return quoted + "not a finite number";
  return number > bound ? "" : quoted + "not above " + std::to_string(static_cast<long long>(bound));
}

}  // namespace jfa::tools
