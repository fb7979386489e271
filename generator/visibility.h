// Which keys a query sees, as a kernel is specialised for it.
#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <string>

#include "jfa/attention.h"

namespace jfa {

/// A Window that has one form only: a side that hides nothing of any sequence is unbounded, and what hides
/// nothing at all is aligned at the top left.
struct Visibility {
  std::optional<std::int32_t> left;
  std::optional<std::int32_t> right;
  Alignment alignment = Alignment::top_left;

  /// Every query sees every key of its sequence.
  bool full() const { return !left && !right; }
  auto operator<=>(const Visibility&) const = default;
};

/// kInvalidArgument naming the side and its value if it is negative.
Result<Visibility> visibility_of(const std::optional<Window>& window);

/// As users write it: "none", "W" for W on both sides, "causal", or "L:R", each a number or "all"; with
/// ":bottom_right" behind it for that alignment.
std::string window_text(const Visibility& visibility);
/// Reads the same. kInvalidArgument: the text, and what is wrong with it.
Result<std::optional<Window>> parse_window(std::string_view text);

}  // namespace jfa
