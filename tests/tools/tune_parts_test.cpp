// The parts of a sweep that need no device: which candidates there are, who is faster, what differs.
#include <doctest/doctest.h>

#include <algorithm>

#include "reference/float16.h"
#include "tools/tune_configs.h"
#include "tools/tune_rank.h"
#include "tools/tune_trial.h"

namespace jfa::tools {
namespace {

using Outcome = Trial::Outcome;

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

Candidates candidates(const char* text, const char* spec) {
  const Result<TuneConfigs> configs = TuneConfigs::parse("sweep.json", text);
  REQUIRE_MESSAGE(configs.ok(), configs.status().message());
  const Result<Candidates> found = configs->candidates(spec_named(spec).value());
  REQUIRE_MESSAGE(found.ok(), found.status().message());
  return *found;
}

std::vector<std::string> texts(const Candidates& candidates) {
  std::vector<std::string> all;
  for (const Tuning& tuning : candidates.tunings) all.push_back(to_string(tuning));
  return all;
}

using Texts = std::vector<std::string>;

Trial timed(const char* tuning, std::vector<double> times, bool same_bits = true) {
  Trial trial;
  trial.tuning = parse_tuning(tuning).value();
  trial.outcome = Outcome::kTimed;
  trial.same_bits = same_bits;
  trial.times_ms = {std::move(times)};
  return trial;
}

std::size_t winner_among(std::vector<Trial> trials) {
  for (Trial& trial : trials) compare_with(trials.front(), trial);
  return winner_of(trials);
}

TEST_CASE("every combination of an entry, every value of 'each' alone, no kernel twice, the defaults first") {
  CHECK(
      texts(candidates(R"([{"query_stages": [1, 2], "item_stages": [2, 3]}, {"each": {"tensor_order": 1}}])",
                       "forward-bf16-d128-sm_90a")) ==
      Texts{"", "query_stages=1", "item_stages=3,query_stages=1", "item_stages=3"});
  CHECK(texts(candidates(R"([{"each": {"query_stages": 1, "item_stages": [2, 3]}}])",
                         "forward-bf16-d128-sm_90a")) == Texts{"", "item_stages=3", "query_stages=1"});
  // Knobs of the other pass, of other queries and of another target are passed over.
  CHECK(texts(candidates(R"([{"streamed_tile": 32, "short_one_pass": 0, "query_stages": 1}])",
                         "forward-bf16-d128-sm_100f")) == Texts{"", "query_stages=1"});
  CHECK(texts(candidates(R"([{"pass": "backward", "item_stages": 3}, {"target": "sm100", "item_stages": 4},
                             {"broadcast_q": true, "query_stages": 1}])",
                         "forward-bf16-d128-sm_90a")) == Texts{""});
}

TEST_CASE("bug-pool 99: what can never fit is left out before anybody compiles it, with the number") {
  const Candidates found =
      candidates(R"([{"query_stages": [1, 4], "item_stages": [2, 99]}])", "forward-bf16-d128-sm_90a");
  CHECK(texts(found) == Texts{"", "query_stages=1"});
  REQUIRE(found.left_out.size() == 3);
  CHECK(has(found.left_out[0].reason, "shared memory"));
  CHECK(has(found.left_out[1].reason, "item_stages=99 is not from 2 to 4"));
}

TEST_CASE("what would refuse a call that the defaults serve is no candidate") {
  const Candidates found = candidates(R"([{"two_cta": [0, 1, 2]}])", "backward-bf16-d128-pma-sm_100f");
  CHECK(texts(found) == Texts{"", "two_cta=0"});
  REQUIRE(found.left_out.size() == 1);
  CHECK(has(found.left_out[0].reason, "refuses calls"));
}

TEST_CASE("without a file every knob is tried alone, also on its way to a wide range's end") {
  const Candidates found =
      TuneConfigs::every_knob().candidates(spec_named("backward-bf16-d128-pma-sm_90a").value()).value();
  const Texts all = texts(found);
  for (const char* one :
       {"broadcast_one_pass=0", "item_stages=4", "query_grad_items=1", "query_grad_items=256"})
    CHECK_MESSAGE(std::ranges::find(all, one) != all.end(), one);
  for (const Tuning& tuning : found.tunings) CHECK(tuning.values.size() <= 1);
}

TEST_CASE("a configs file that is wrong is refused with file, line and entry") {
  const auto refusal = [](const char* text) {
    const Result<TuneConfigs> configs = TuneConfigs::parse("sweep.json", text);
    REQUIRE(!configs.ok());
    CHECK(has(configs.status().message(), "sweep.json: line 1"));
    return configs.status().message();
  };
  CHECK(has(refusal("{}"), "not a JSON list"));
  CHECK(has(refusal("[3]"), "entry 0 is not an object"));
  CHECK(has(refusal(R"([{"tea": 1}])"), "'tea'"));
  CHECK(has(refusal(R"([{"each": {"tea": 1}}])"), "'tea'"));
  CHECK(has(refusal(R"([{"item_stages": 1.5}])"), "item_stages 1.5"));
  CHECK(has(refusal(R"([{"item_stages": []}])"), "no value for item_stages"));
  CHECK(has(refusal(R"([{"pass": "sideways"}])"), "sideways"));
  CHECK(has(refusal(R"([{"broadcast_q": 1}])"), "broadcast_q"));
  std::string many = "[{";
  for (const char* knob : {"split_items", "split_long_items"}) {
    many += std::string(many.size() > 2 ? "," : "") + '"' + knob + "\": [0";
    for (int value = 1; value < 150; ++value) many += "," + std::to_string(value);
    many += "]";
  }
  const Result<Candidates> too_many = TuneConfigs::parse("sweep.json", many + "}]")
                                          .value()
                                          .candidates(spec_named("forward-bf16-d128-sm_90a").value());
  REQUIRE(!too_many.ok());
  CHECK(has(too_many.status().message(), "more than 10000"));
}

TEST_CASE("a winner is faster by one per cent, and in three quarters of its rounds") {
  const Trial usual = timed("", {10, 10, 10, 10});
  CHECK(winner_among({usual, timed("query_stages=1", {9, 9, 9, 9})}) == 1);
  CHECK(winner_among({usual, timed("query_stages=1", {9.95, 9.95, 9.95, 9.95})}) == 0);
  CHECK(winner_among({usual, timed("query_stages=1", {9, 9, 11, 11})}) == 0);
  CHECK(winner_among({usual, timed("query_stages=1", {9, 9, 9, 9}), timed("query_stages=3", {8, 8, 8, 8})}) ==
        2);
  // A clock that drifts meets both.
  CHECK(winner_among({timed("", {10, 12, 14, 16}), timed("query_stages=1", {9, 10.8, 12.6, 14.4})}) == 1);
  CHECK(winner_among({timed("", {16, 14, 12, 10}), timed("query_stages=1", {16, 14, 12, 10})}) == 0);
}

TEST_CASE("of equally fast ones that with the defaults' bits wins, then that with fewer values") {
  const Trial usual = timed("", {10, 10, 10});
  CHECK(winner_among({usual, timed("split_parts=2", {8.99, 8.99, 8.99}, false),
                      timed("query_stages=1", {9, 9, 9})}) == 2);
  CHECK(winner_among({usual, timed("item_stages=3,query_stages=1", {8.99, 8.99, 8.99}),
                      timed("query_stages=1", {9, 9, 9})}) == 2);
}

TEST_CASE("who is not right, failed or missed the rounds does not win") {
  const Trial usual = timed("", {10, 10, 10});
  for (const Outcome outcome :
       {Outcome::kRefused, Outcome::kFailed, Outcome::kStopped, Outcome::kChecked, Outcome::kPending}) {
    Trial fast = timed("query_stages=1", {1, 1, 1});
    fast.outcome = outcome;
    CHECK(winner_among({usual, fast}) == 0);
  }
  Trial missed = timed("query_stages=1", {0, 0, 0});
  CHECK(winner_among({usual, missed}) == 0);
  compare_with(usual, missed);
  CHECK(missed.ratio == 0);
}

TEST_CASE("losers are hopeless sooner the further behind they are") {
  const Trial usual = timed("", {10, 10, 10, 10, 10});
  const auto hopeless = [&](double ms, std::size_t rounds) {
    Trial trial = timed("query_stages=1", {ms, ms, ms, ms, ms});
    compare_with(usual, trial);
    return is_hopeless(trial, 1, rounds);
  };
  CHECK(!hopeless(20, 1));
  CHECK(hopeless(20, 2));
  CHECK(!hopeless(11, 2));
  CHECK(hopeless(11, 3));
  CHECK(!hopeless(10.2, 9));
  CHECK(hopeless(10.5, 9));
}

TEST_CASE("results may differ by roundings, and by nothing else") {
  std::vector<std::uint16_t> usual;
  for (int i = 0; i < 100'000; ++i)
    usual.push_back(float_to_bf16(static_cast<float>((i * 7919) % 1000 - 500) / 300));
  CHECK(difference(usual, usual, DType::bf16).empty());
  std::vector<std::uint16_t> rounded = usual;
  for (std::uint16_t& bits : rounded)
    if ((bits & 0x7fff) != 0) bits ^= 1;
  CHECK(difference(usual, rounded, DType::bf16).empty());
  std::vector<std::uint16_t> one = usual;
  one[77'777] ^= 0x4000;
  CHECK(!difference(usual, one, DType::bf16).empty());
  std::vector<std::uint16_t> stale = usual;
  for (std::size_t i = 99'872; i < stale.size(); ++i) stale[i] = 0xffff;
  CHECK(has(difference(usual, stale, DType::bf16), "not written"));
  std::vector<std::uint16_t> swapped = usual;
  std::swap_ranges(swapped.begin(), swapped.begin() + 128, swapped.begin() + 128);
  CHECK(!difference(usual, swapped, DType::bf16).empty());
}

}  // namespace
}  // namespace jfa::tools
