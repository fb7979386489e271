// Calls that one tuning is for: a specialisation, and how large the call is as far as the host knows it.
#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "generator/spec.h"

namespace jfa {

/// Sizes in powers of two, each rounded to the nearest one: 5 stands for 23 to 45.
struct SizeClass {
  std::int8_t items = 0;       // batch times query heads
  std::int8_t query_rows = 0;  // of a sequence, on average; with broadcast_q those of the shared query
  std::int8_t key_rows = 0;    // of a sequence, on average

  auto operator<=>(const SizeClass&) const = default;
};

/// What the host knows of a call. Lengths are on the device only, so a class has their mean and nothing else.
struct CallSize {
  std::int64_t batch = 0;
  std::int64_t query_rows = 0;  // of the query tensor: in all, or of the shared query
  std::int64_t key_rows = 0;    // of the key tensor, in all
  std::int64_t query_heads = 0;

  bool operator==(const CallSize&) const = default;
};
SizeClass size_class(const CallSize& size, bool broadcast_q);

struct ProblemClass {
  KernelSpec spec;
  SizeClass size;

  auto operator<=>(const ProblemClass&) const = default;
};

/// Short and unique, for file names and messages: "forward-bf16-d128-sm_90a.n12-q9-k9", n for items.
std::string name(const ProblemClass& problem);
/// The class of that name; nullopt if no class of this version has it.
std::optional<ProblemClass> class_named(std::string_view name);

/// "batch x heads about 4096, about 512 queries and 512 keys a sequence"
std::string describe(const SizeClass& size);

/// How far a class may be from the one that serves it: a factor of four in every size.
inline constexpr int kFarthestClass = 2;
/// Powers of two between them, all sizes together; nullopt if one is further than kFarthestClass.
std::optional<int> distance(const SizeClass& left, const SizeClass& right);

}  // namespace jfa
