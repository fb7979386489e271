#include "tools/sweep.h"

#include <doctest/doctest.h>

#include "generator/plan.h"

namespace jfa::test {
namespace {

using tools::Sweep;

std::string error_of(const std::string& text) {
  const Result<std::vector<Sweep>> sweeps = tools::parse_sweep_file("s.json", text);
  if (!sweeps) return sweeps.status().message();
  for (const Sweep& sweep : *sweeps) {
    if (const auto specs = tools::expand(sweep); !specs) return specs.status().message();
  }
  return "no error";
}

TEST_CASE("a sweep is every combination, each specialisation once") {
  Sweep sweep;
  sweep.head_dim = {8, 16, 64};  // 8 and 16 share a kernel
  sweep.dtype = {"bf16", "fp16"};
  sweep.window = {"none", "0", "7"};
  sweep.broadcast_q = {false, true};
  sweep.groups = {1, 4};
  sweep.target = {"sm_100f", "sm_103a"};
  const auto specs = tools::expand(sweep);
  REQUIRE(specs.ok());
  CHECK(specs->size() == 2 * 2 * 3 * 2 * 2 * 2);
  CHECK(specs->front().padded_dim == 16);
  CHECK(specs->front().target == Target::sm_100f);
  CHECK(specs->back().padded_dim == 64);
  CHECK(specs->back().visibility == Visibility{7, 7});
  CHECK(specs->back().broadcast_q);
  CHECK(specs->back().groups == 4);
  CHECK(specs->back().dtype == DType::fp16);
  CHECK(specs->back().target == Target::sm_103a);
}

TEST_CASE("bug-pool 38: window 0 and no window are two things in a sweep file") {
  const auto sweeps =
      tools::parse_sweep_file("s.json", R"([{"head_dim": 64, "window": [0, null]}, {"head_dim": 64}])");
  REQUIRE(sweeps.ok());
  const auto specs = tools::expand((*sweeps)[0]);
  REQUIRE(specs.ok());
  REQUIRE(specs->size() == 2);
  CHECK((*specs)[0].visibility == Visibility{0, 0});
  CHECK((*specs)[1].visibility.full());
  CHECK(tools::expand((*sweeps)[1])->front() == (*specs)[1]);
}

TEST_CASE("bug-pool 46: a configuration survives the sweep file, and copies, field by field") {
  const auto sweeps = tools::parse_sweep_file(
      "s.json",
      R"([{"pass": "forward", "head_dim": 40, "window": 7, "broadcast_q": true, "groups": 2, "dtype": "fp16", "target": "sm_100a"}])");
  REQUIRE(sweeps.ok());
  const auto read = tools::expand(sweeps->front());
  REQUIRE(read.ok());
  Configuration configuration{Pass::forward, DType::fp16, 40, 7, true, 2, "sm_100a"};
  const Configuration copy = configuration;
  const KernelSpec direct = specialize(copy).value();
  CHECK(read->front() == direct);
  CHECK(name(read->front()) == name(direct));
  const Configuration moved = std::move(configuration);
  CHECK(specialize(moved).value() == direct);
}

TEST_CASE("sweep files that cannot be used are refused by line, column, entry, field and value") {
  CHECK(error_of("{").find("s.json: not JSON: parse error at line 1, column 2") == 0);
  CHECK(error_of(R"([{"head_dim": 64,}])").find("s.json: not JSON: parse error at line 1, column 18") == 0);
  CHECK(error_of(R"([{"head_dim": 64, "head_dim": 128}])") ==
        "s.json: line 1, column 19: names 'head_dim' twice");
  CHECK(error_of(R"([{"head_dim": 18446744073709551615}])") ==
        "s.json: line 1, column 3: entry 0 has head_dim 18446744073709551615");
  CHECK(error_of("{}") == "s.json: line 1, column 1: not a JSON list of configurations");
  CHECK(error_of("[7]") == "s.json: line 1, column 2: entry 0 is not an object: 7");
  CHECK(error_of("[{}]") == "s.json: line 1, column 2: entry 0 has no head_dim");
  CHECK(error_of(R"([{"head_dim": []}])") == "s.json: line 1, column 3: entry 0 has no head_dim");
  CHECK(error_of(R"([{"head_dim": "64"}])") == "s.json: line 1, column 3: entry 0 has head_dim \"64\"");
  CHECK(error_of(R"([{"head_dim": 64, "window": "wide"}])") ==
        "s.json: line 1, column 19: entry 0 has window \"wide\"");
  CHECK(error_of(R"([{"head_dim": 64, "broadcast_q": 1}])") ==
        "s.json: line 1, column 19: entry 0 has broadcast_q 1");
  CHECK(error_of("[\n  {\"head_dim\": 64},\n  {\"head_dim\": 64, \"colour\": 1}\n]") ==
        "s.json: line 3, column 20: entry 1 has the unknown field 'colour'");
  CHECK(error_of("[{\"groups\": [1, 2,\n  // a comment, with a [ in it\n  \"x\"]}]") ==
        "s.json: line 3, column 3: entry 0 has groups \"x\"");
  CHECK(error_of(R"([{"head_dim": 64, "window": -1}])").find("window -1") != std::string::npos);
  CHECK(error_of(R"([{"head_dim": 64, "dtype": "fp8"}])").find("'fp8'") != std::string::npos);
  CHECK(error_of(R"([{"head_dim": 64, "pass": "back"}])").find("'back'") != std::string::npos);
  CHECK(error_of(R"([{"head_dim": 64, "target": "sm_1"}])").find("'sm_1'") != std::string::npos);
  // What only the generator refuses is named by its entry, too.
  CHECK(error_of("[{\"head_dim\": 64},\n {\"head_dim\": 12}]") ==
        "s.json: line 2, column 2: entry 1: head_dim 12 is not a multiple of 8 between 8 and 128");
}

TEST_CASE("the default set is 96 kernels, each of which there is, and whose name leads back to it") {
  const auto specs = tools::expand(tools::default_sweep());
  REQUIRE(specs.ok());
  CHECK(specs->size() == 96);
  for (const KernelSpec& spec : *specs) {
    CAPTURE(name(spec));
    CHECK(plan(spec).ok());
    CHECK(spec_named(name(spec)) == spec);
  }
  KernelSpec windowed = specs->back();
  windowed.groups = 65536;
  for (const Visibility& visibility :
       {Visibility{0, 0}, Visibility{64, 0}, Visibility{std::nullopt, 3}, Visibility{3, std::nullopt},
        Visibility{7, 7, Alignment::bottom_right}, Visibility{std::nullopt, 0, Alignment::bottom_right}}) {
    windowed.visibility = visibility;
    CHECK(spec_named(name(windowed)) == windowed);
    CHECK(visibility_of(parse_window(window_text(visibility)).value()).value() == visibility);
  }
  windowed.visibility = {64, 64};  // one name for what had it before there were two sides
  CHECK(name(windowed).find("-w64-") != std::string::npos);
  for (const char* no_name :
       {"", "forward", "forward-bf16-d128", "forward-bf16-d128x-sm_100f", "sideways-bf16-d64-sm_100f",
        "forward-bf16-d64-sm_42", "forward-bf16-d64-g1-sm_90a"})
    CHECK_FALSE(spec_named(no_name));
}

TEST_CASE("a window's text, and what is none") {
  const auto visibility = [](const char* text) { return visibility_of(parse_window(text).value()).value(); };
  CHECK(visibility("none").full());
  CHECK(visibility("7") == Visibility{7, 7});
  CHECK(visibility("causal") == Visibility{std::nullopt, 0});
  CHECK(visibility("all:0") == visibility("causal"));
  CHECK(visibility("8:all") == Visibility{8, std::nullopt});
  CHECK(visibility("8:2:top_left") == Visibility{8, 2});
  CHECK(visibility("causal:bottom_right") == Visibility{std::nullopt, 0, Alignment::bottom_right});
  CHECK(visibility("7:bottom_right") == Visibility{7, 7, Alignment::bottom_right});
  CHECK(visibility("all:2000000000") == Visibility{});  // wider than any sequence
  CHECK(visibility("all:all:bottom_right") == Visibility{});
  for (const char* text : {"", "wide", "7:", "all", "all:", "7:8:9", "causal:3", "7:8:middle", "7 : 8", "0x7",
                           "7:bottom_right:8"}) {
    CAPTURE(text);
    const Status status = parse_window(text).status();
    CHECK(status.kind() == ErrorKind::kInvalidArgument);
    CHECK(status.message().find(text) != std::string::npos);
  }
}

TEST_CASE("a sweep that would take for ever is counted and refused, not begun") {
  Sweep sweep;
  for (std::int64_t dim = 8; dim <= 128; dim += 8) sweep.head_dim.push_back(dim);
  sweep.window.clear();
  for (int window = 0; window < 100'000; ++window) sweep.window.push_back(std::to_string(window));
  sweep.groups.clear();
  for (std::int64_t groups = 1; groups < 1000; ++groups) sweep.groups.push_back(groups);
  CHECK(
      tools::expand(sweep).status().message() ==
      "a sweep of 1598400000 configurations (16 head_dim, 100000 window, 999 groups): 100000 are the limit");

  sweep.dtype.assign(100'000, "bf16");
  sweep.pass.assign(200'000, "forward");
  CHECK(tools::expand(sweep).status().message().find("a sweep of 2^64 or more configurations") == 0);

  // Each of them within the limit, all together not.
  sweep = Sweep();
  sweep.head_dim.assign(60'000, 64);
  CHECK(tools::expand(sweep)->size() == 1);
  CHECK(tools::expand(std::vector<Sweep>{sweep, sweep}).status().message() ==
        "a sweep of 60000 configurations (60000 head_dim) beside 60000 before it: 100000 are the limit");
}

}  // namespace
}  // namespace jfa::test
