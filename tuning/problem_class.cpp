#include "tuning/problem_class.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <charconv>
#include <cstdlib>

namespace jfa {
namespace {

constexpr int kMostBits = 31;

// The power of two that is nearest by ratio; 0 for nothing at all.
std::int8_t rounded_log2(std::int64_t number) {
  const auto n =
      static_cast<std::uint64_t>(std::clamp<std::int64_t>(number, 1, (std::int64_t{1} << kMostBits) - 1));
  const int below = std::bit_width(n) - 1;
  return static_cast<std::int8_t>(n * n >= std::uint64_t{1} << (2 * below + 1) ? below + 1 : below);
}

std::int64_t mean(std::int64_t total, std::int64_t batch) {
  return batch > 0 ? (total + batch / 2) / batch : 0;
}

// "n12" and the like; moves behind it.
bool read_size(std::string_view& text, char letter, std::int8_t* size) {
  if (!text.starts_with(letter)) return false;
  int value = 0;
  const auto [end, error] = std::from_chars(text.data() + 1, text.data() + text.size(), value);
  if (error != std::errc() || value < 0 || value > kMostBits) return false;
  *size = static_cast<std::int8_t>(value);
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  if (text.starts_with('-')) text.remove_prefix(1);
  return true;
}

}  // namespace

SizeClass size_class(const CallSize& size, bool broadcast_q) {
  // Heads are few; a batch has at most 2^31 sequences with a row.
  const std::int64_t heads = std::clamp<std::int64_t>(size.query_heads, 1, 1 << 20);
  const std::int64_t items = std::clamp<std::int64_t>(size.batch, 1, std::int64_t{1} << kMostBits) * heads;
  return {rounded_log2(items),
          rounded_log2(broadcast_q ? size.query_rows : mean(size.query_rows, size.batch)),
          rounded_log2(mean(size.key_rows, size.batch))};
}

std::string name(const ProblemClass& problem) {
  const SizeClass& size = problem.size;
  return fmt::format("{}.n{}-q{}-k{}", name(problem.spec), int{size.items}, int{size.query_rows},
                     int{size.key_rows});
}

std::optional<ProblemClass> class_named(std::string_view text) {
  const std::size_t dot = text.rfind('.');
  if (dot == std::string_view::npos) return std::nullopt;
  const auto spec = spec_named(text.substr(0, dot));
  if (!spec) return std::nullopt;
  ProblemClass problem{*spec, {}};
  std::string_view rest = text.substr(dot + 1);
  if (!read_size(rest, 'n', &problem.size.items) || !read_size(rest, 'q', &problem.size.query_rows) ||
      !read_size(rest, 'k', &problem.size.key_rows))
    return std::nullopt;
  // Whatever was not understood makes another name.
  return name(problem) == text ? std::optional(problem) : std::nullopt;
}

std::string describe(const SizeClass& size) {
  return fmt::format("batch x heads about {}, about {} queries and {} keys a sequence",
                     std::int64_t{1} << size.items, std::int64_t{1} << size.query_rows,
                     std::int64_t{1} << size.key_rows);
}

std::optional<int> distance(const SizeClass& left, const SizeClass& right) {
  int sum = 0;
  for (const int difference :
       {left.items - right.items, left.query_rows - right.query_rows, left.key_rows - right.key_rows}) {
    if (std::abs(difference) > kFarthestClass) return std::nullopt;
    sum += std::abs(difference);
  }
  return sum;
}

}  // namespace jfa
