// The eviction decision, as a table of cases.
#include "cache/trim.h"

#include <doctest/doctest.h>

#include <string>

using jfa::entries_to_evict;
using jfa::TrimCandidate;
using jfa::TrimPolicy;

namespace {

constexpr std::int64_t kNow_s = 1'000'000;

struct TrimCase {
  const char* what;
  std::vector<TrimCandidate> candidates;  // stamps relative to now
  TrimPolicy policy;
  std::vector<std::size_t> evicted;
};

TrimPolicy policy(std::uint64_t max_bytes, std::uint64_t target_bytes, std::uint64_t make_room_bytes = 0) {
  TrimPolicy policy;
  policy.max_bytes = max_bytes;
  policy.target_bytes = target_bytes;
  policy.make_room_bytes = make_room_bytes;
  return policy;
}

const std::vector<TrimCase> kCases = {
    {"nothing stored", {}, policy(100, 90), {}},
    {"under the cap", {{40, -5000}, {40, -100}}, policy(100, 90), {}},
    {"exactly at the cap", {{50, -5000}, {50, -100}}, policy(100, 90), {}},
    {"one byte above: the oldest goes", {{51, -100}, {50, -5000}}, policy(100, 90), {1}},
    {"down to the target, oldest first",
     {{30, -300}, {30, -500}, {30, -400}, {30, -200}},
     policy(100, 60),
     {1, 2}},
    {"no further than the target", {{10, -500}, {100, -400}, {100, -300}}, policy(205, 200), {0}},
    {"equal stamps go by index", {{60, -500}, {60, -500}, {60, -500}}, policy(150, 120), {0}},
    {"a stamp of 69 s ago stays: it may have been used 59 s ago", {{200, -69}}, policy(100, 90), {}},
    {"a stamp of 70 s ago goes", {{200, -70}}, policy(100, 90), {0}},
    {"young ones stay though the cap is passed", {{80, -5000}, {80, -10}, {80, -20}}, policy(100, 90), {0}},
    {"a stamp in the future is just used", {{80, 86400}, {80, -100}}, policy(100, 90), {1}},
    {"all in the future: nothing goes", {{80, 10}, {80, 20}}, policy(100, 90), {}},
    {"stamps before 1970", {{80, -2'000'000}, {80, -100}}, policy(100, 90), {0}},
    {"an entry larger than the cap goes alone",
     {{500, -5000}, {10, -6000}, {10, -100}},
     policy(100, 90),
     {1, 0}},
    {"empty files cost nothing and need not go", {{0, -100}, {200, -5000}}, policy(100, 90), {1}},
    {"no cap", {{1000, -5000}}, policy(0, 0), {}},
    {"full disk, no cap: room is made", {{40, -5000}, {40, -4000}, {40, -3000}}, policy(0, 0, 50), {0, 1}},
    {"full disk under the cap", {{40, -5000}, {40, -4000}}, policy(100, 90, 10), {0}},
    {"more room than there is", {{40, -5000}, {40, -10}}, policy(100, 90, 1000), {0}},
    {"cap and room: the larger of the two",
     {{60, -5000}, {60, -4000}, {60, -3000}},
     policy(170, 150, 100),
     {0, 1}},
};

}  // namespace

TEST_CASE("entries_to_evict") {
  for (const TrimCase& row : kCases) {
    CAPTURE(std::string(row.what));
    std::vector<TrimCandidate> candidates = row.candidates;
    for (TrimCandidate& candidate : candidates) candidate.last_use_s += kNow_s;
    CHECK(entries_to_evict(candidates, row.policy, kNow_s) == row.evicted);
  }
}

TEST_CASE("the policy of a cap leaves room for a tenth") {
  CHECK(jfa::trim_policy(1000).max_bytes == 1000);
  CHECK(jfa::trim_policy(1000).target_bytes == 900);
  CHECK(jfa::trim_policy(0).max_bytes == 0);
}
