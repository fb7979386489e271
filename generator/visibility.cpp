#include "generator/visibility.h"

#include <fmt/format.h>

#include <charconv>
#include <string_view>

namespace jfa {
namespace {

// Sequences are shorter than 2^30 rows, so a wider side hides no pair.
constexpr std::int64_t kWidestSide = (std::int64_t{1} << 30) - 1;

constexpr std::string_view kNone = "none";
constexpr std::string_view kCausal = "causal";
constexpr std::string_view kAll = "all";
constexpr std::string_view kTopLeft = "top_left";
constexpr std::string_view kBottomRight = "bottom_right";

std::string side_text(const std::optional<std::int32_t>& side) {
  return side ? fmt::format("{}", *side) : std::string(kAll);
}

Result<std::optional<std::int32_t>> side_of(std::string_view name, const std::optional<std::int64_t>& side) {
  if (!side) return std::optional<std::int32_t>();
  if (*side < 0)
    return Status::invalid_argument(
        fmt::format("{} {} is negative; leave it out for no window", name, *side));
  if (*side > kWidestSide) return std::optional<std::int32_t>();
  return std::optional(static_cast<std::int32_t>(*side));
}

}  // namespace

Result<Visibility> visibility_of(const std::optional<Window>& window) {
  Visibility visibility;
  if (!window) return visibility;
  const bool symmetric = window->left == window->right;
  const auto left = side_of(symmetric ? "window" : "window.left", window->left);
  if (!left) return left.status();
  const auto right = side_of("window.right", window->right);
  if (!right) return right.status();
  if (window->alignment != Alignment::top_left && window->alignment != Alignment::bottom_right)
    return Status::invalid_argument(fmt::format("window.alignment {} is neither top_left nor bottom_right",
                                                static_cast<int>(window->alignment)));
  visibility.left = *left;
  visibility.right = *right;
  if (!visibility.full()) visibility.alignment = window->alignment;
  return visibility;
}

std::string window_text(const Visibility& visibility) {
  if (visibility.full()) return std::string(kNone);
  std::string text;
  if (visibility.left == visibility.right) {
    text = side_text(visibility.left);
  } else if (!visibility.left && visibility.right == 0) {
    text = kCausal;
  } else {
    text = side_text(visibility.left) + ":" + side_text(visibility.right);
  }
  return visibility.alignment == Alignment::top_left ? text : text + ":" + std::string(kBottomRight);
}

Result<std::optional<Window>> parse_window(std::string_view text) {
  const auto error = [&](std::string_view word, std::string_view why) {
    const std::string part = word == text ? "" : fmt::format(": '{}'", word);
    return Status::invalid_argument(fmt::format("window '{}'{} {}", text, part, why));
  };
  if (text == kNone) return std::optional<Window>();
  if (text.ends_with(':')) return error(text, "ends with a colon");
  std::string_view rest = text;
  const auto next = [&] {
    const std::string_view word = rest.substr(0, rest.find(':'));
    rest.remove_prefix(std::min(word.size() + 1, rest.size()));
    return word;
  };
  const auto side = [&](std::string_view word) -> Result<std::optional<std::int64_t>> {
    if (word == kAll) return std::optional<std::int64_t>();
    std::int64_t number = 0;
    const auto [end, code] = std::from_chars(word.data(), word.data() + word.size(), number);
    if (code == std::errc::result_out_of_range)
      return error(word,
                   word.starts_with('-') ? "is below -9223372036854775808" : "is above 9223372036854775807");
    if (code != std::errc() || end != word.data() + word.size())
      return error(word,
                   "is no whole number; W, L:R with a number or 'all' each, causal or none is wanted, and "
                   ":bottom_right may follow");
    return std::optional(number);
  };
  const auto alignment = [](std::string_view word) -> std::optional<Alignment> {
    if (word == kTopLeft) return Alignment::top_left;
    if (word == kBottomRight) return Alignment::bottom_right;
    return std::nullopt;
  };
  Window window;
  const std::string_view first = next();
  if (first == kCausal) {
    window = Window::causal();
  } else {
    const auto left = side(first);
    if (!left) return left.status();
    window = Window(*left, *left);
    if (!rest.empty() && !alignment(rest)) {
      const auto right = side(next());
      if (!right) return right.status();
      window.right = *right;
    } else if (first == kAll) {
      return error(text, "lacks its right side: all:R");
    }
  }
  if (!rest.empty()) {
    const std::optional<Alignment> wanted = alignment(rest);
    if (!wanted) return error(rest, "is neither top_left nor bottom_right");
    window.alignment = *wanted;
  }
  return std::optional(window);
}

}  // namespace jfa
