// Which calls are one class, and which class serves a call.
#include <doctest/doctest.h>

#include <algorithm>
#include <random>

#include "tuning/tuned_classes.h"

namespace jfa {
namespace {

const TunedDevice kGpu{"NVIDIA H200", 132};

KernelSpec spec_of(const char* name) { return spec_named(name).value(); }

TuningRecord record_of(const char* class_name, const char* winner, const TunedDevice& device = kGpu) {
  TuningRecord record;
  record.problem = class_named(class_name).value();
  record.device = device;
  record.winner = parse_tuning(winner).value();
  record.winner_ratio = 0.9;
  return record;
}

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

TEST_CASE("sizes are powers of two, rounded by ratio, lengths are means") {
  CHECK(size_class({1152, 1152 * 256, 1152 * 100, 4}, false) == SizeClass{12, 8, 7});  // 4608, 256, 100
  CHECK(size_class({1, 22, 23, 1}, false) == SizeClass{0, 4, 5});                      // around 16 sqrt 2
  CHECK(size_class({1, 45, 46, 1}, false) == SizeClass{0, 5, 6});
  CHECK(size_class({32, 33, 32 * 8000, 2}, true) == SizeClass{6, 5, 13});  // a shared query is one sequence
  CHECK(size_class({0, 0, 0, 0}, false) == SizeClass{0, 0, 0});
  CHECK(size_class({1 << 30, 1 << 29, 1 << 29, 1 << 15}, false) == SizeClass{31, 0, 0});
}

TEST_CASE("a class has a name, and no other text is one") {
  for (const char* text :
       {"forward-bf16-d128-sm_90a.n12-q9-k9", "backward-fp16-d64-w3-pma-g4-sm_100f.n0-q0-k31"}) {
    REQUIRE(class_named(text).has_value());
    CHECK(name(*class_named(text)) == text);
  }
  for (const char* text : {"", ".", "forward-bf16-d128-sm_90a", "forward-bf16-d128-sm_90a.n12-q9",
                           "forward-bf16-d128-sm_90a.n12-q9-k9-", "forward-bf16-d128-sm_90a.n012-q9-k9",
                           "forward-bf16-d128-sm_90a.n12-q9-k32", "forward-bf16-d128-sm_90a.n-1-q9-k9"})
    CHECK_MESSAGE(!class_named(text), text);
}

TEST_CASE("dtype, window, groups, pass, head_dim and a shared query tell classes apart") {
  const char* const others[] = {
      "forward-fp16-d128-sm_90a.n12-q9-k9",    "forward-bf16-d128-w64-sm_90a.n12-q9-k9",
      "forward-bf16-d128-g4-sm_90a.n12-q9-k9", "backward-bf16-d128-sm_90a.n12-q9-k9",
      "forward-bf16-d64-sm_90a.n12-q9-k9",     "forward-bf16-d128-pma-sm_90a.n12-q9-k9",
      "forward-bf16-d128-w65-sm_90a.n12-q9-k9"};
  const TunedClasses tuned({record_of("forward-bf16-d128-sm_90a.n12-q9-k9", "query_stages=1")}, kGpu,
                           Target::sm_90a);
  CHECK(to_string(tuned.choose(class_named("forward-bf16-d128-sm_90a.n12-q9-k9").value()).tuning) ==
        "query_stages=1");
  for (const char* other : others) {
    const TunedChoice choice = tuned.choose(class_named(other).value());
    CHECK_MESSAGE(choice.tuning.empty(), other);
    CHECK(choice.name.empty());
    CHECK_MESSAGE(has(choice.why, "has no class of"), choice.why);
  }
}

TEST_CASE("the nearest class serves, unless all are far, other devices and targets do not count") {
  const TunedClasses tuned(
      {record_of("forward-bf16-d128-sm_90a.n12-q9-k9", "query_stages=1"),
       record_of("forward-bf16-d128-sm_90a.n12-q7-k7", "query_stages=3"),
       record_of("forward-bf16-d128-sm_90a.n4-q9-k9", "item_stages=3", {"NVIDIA H100", 132}),
       record_of("forward-bf16-d128-sm_90a.n3-q9-k9", "item_stages=3", {"NVIDIA H200", 60}),
       record_of("forward-bf16-d128-sm_100f.n12-q9-k9", "item_stages=4")},
      kGpu, Target::sm_90a);
  const auto chosen = [&](SizeClass size) {
    const TunedChoice choice = tuned.choose({spec_of("forward-bf16-d128-sm_90a"), size});
    CHECK(!choice.why.empty());
    return to_string(choice.tuning);
  };
  CHECK(chosen({12, 9, 9}) == "query_stages=1");
  CHECK(chosen({11, 9, 8}) == "query_stages=1");
  CHECK(chosen({12, 7, 8}) == "query_stages=3");
  CHECK(chosen({12, 8, 8}) == "query_stages=3");  // as far: the smaller one
  CHECK(chosen({10, 11, 11}) == "query_stages=1");
  CHECK(chosen({9, 9, 9}) == "");  // a factor of 8
  CHECK(chosen({4, 9, 9}) == "");
  CHECK(tuned.tunings(spec_of("forward-bf16-d128-sm_90a")) ==
        std::vector<Tuning>{{}, {{{"query_stages", 1}}}, {{{"query_stages", 3}}}});
  CHECK(tuned.tunings(spec_of("backward-bf16-d128-sm_90a")) == std::vector<Tuning>{{}});
}

TEST_CASE("bug-pool 123: all who read one database choose alike, in whatever order its files come") {
  std::vector<TuningRecord> records;
  for (const char* size : {"n12-q9-k9", "n12-q7-k7", "n12-q7-k9", "n10-q9-k9", "n14-q9-k9", "n12-q11-k9"})
    records.push_back(record_of((std::string("forward-bf16-d128-sm_90a.") + size).c_str(),
                                ("split_items=" + std::to_string(records.size())).c_str()));
  const TunedClasses first(records, kGpu, Target::sm_90a);
  std::mt19937 generator(5);
  for (int process = 0; process < 8; ++process) {
    std::ranges::shuffle(records, generator);
    const TunedClasses other(records, kGpu, Target::sm_90a);
    for (std::int8_t items = 8; items < 17; ++items)
      for (std::int8_t rows = 5; rows < 14; ++rows) {
        const ProblemClass problem{spec_of("forward-bf16-d128-sm_90a"), {items, rows, 8}};
        CHECK(first.choose(problem).tuning == other.choose(problem).tuning);
      }
  }
}

}  // namespace
}  // namespace jfa
