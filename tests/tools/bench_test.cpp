// jfa bench: what the shapes file says, the work that it is, and the command on a simulated device.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/command_runner.h"
#include "tools/bench_shapes.h"

namespace {

using namespace jfa;
using namespace jfa::tools;

BenchShape shape_of(const std::string& fields) {
  const auto shapes = parse_shapes("test.json", fmt::format(R"({{"shapes": [{{{}}}]}})", fields));
  REQUIRE_MESSAGE(shapes.ok(), shapes.status().message());
  REQUIRE(shapes->size() == 1);
  return shapes->front();
}

bool is_kept(std::int64_t i, std::int64_t j, std::int64_t queries, std::int64_t keys, const Window& window) {
  const std::int64_t distance = j - i - (window.alignment == Alignment::bottom_right ? keys - queries : 0);
  return (!window.left || distance >= -*window.left) && (!window.right || distance <= *window.right);
}

// Counts one by one.
std::int64_t count_pairs(const BenchProblem& problem) {
  std::int64_t pairs = 0;
  for (std::size_t b = 0; b + 1 < problem.key_offset.size(); ++b) {
    const std::int64_t queries = problem.query_offset[b + 1] - problem.query_offset[b];
    const std::int64_t keys = problem.key_offset[b + 1] - problem.key_offset[b];
    for (std::int64_t i = 0; i < queries; ++i)
      for (std::int64_t j = 0; j < keys; ++j)
        pairs += !problem.shape.window || is_kept(i, j, queries, keys, *problem.shape.window);
  }
  return pairs;
}

constexpr const char* kTinyShapes = R"({"shapes": [
  {"name": "tiny", "kind": "self", "batch": 3, "heads": 2, "groups": 2, "head_dim": 16, "max_kv": 40, "fill_kv": 0.5},
  {"name": "tiny-pma", "kind": "pma", "batch": 2, "heads": 1, "head_dim": 16, "q_len": 5, "max_kv": 30, "fill_kv": 1}
]})";

class Bench {
 public:
  Bench() { std::ofstream(file_) << kTinyShapes; }
  test::CommandResult operator()(std::vector<std::string> arguments) const {
    arguments.insert(arguments.begin(), {JFA_TOOL, "bench"});
    return test::run_command(arguments);
  }
  const std::string& file() const { return file_; }
  std::string path(const std::string& name) const { return directory_ / name; }

 private:
  test::TemporaryDirectory directory_;
  std::string file_ = directory_ / "shapes.json";
};

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("the lengths are those that PyTorch draws") {
  // From torch 2.11: randint(0, 257, (1152,), generator=Generator().manual_seed(17)), and so on.
  const BenchProblem self = draw(shape_of(
      R"("name": "s", "kind": "self", "batch": 1152, "heads": 4, "head_dim": 128, "max_kv": 256, "fill_kv": 0.5)"));
  CHECK(self.key_offset[1] == 105);
  CHECK(self.key_offset[2] == 105 + 79);
  CHECK(self.key_offset[5] == 105 + 79 + 84 + 25 + 236);
  CHECK(self.key_rows() == 151352);
  CHECK(self.output_rows() == 151352);
  CHECK(self.pairs == 26165480);

  const BenchProblem short_ones = draw(shape_of(
      R"("name": "s", "kind": "self", "batch": 2048, "heads": 4, "head_dim": 64, "max_kv": 512, "fill_kv": 0.3)"));
  CHECK(short_ones.key_rows() == 321294);
  CHECK(short_ones.pairs == 66290500);

  const BenchProblem cross = draw(shape_of(
      R"("name": "c", "kind": "cross", "batch": 1152, "heads": 4, "head_dim": 128, "max_q": 1024, "fill_q": 0.5,)"
      R"("max_kv": 256, "fill_kv": 1.0)"));
  CHECK(cross.query_offset[1] == 859);
  CHECK(cross.output_rows() == 582560);
  CHECK(cross.key_rows() == 294912);

  const BenchProblem window = draw(shape_of(
      R"("name": "w", "kind": "self", "batch": 512, "heads": 4, "head_dim": 128, "max_kv": 2048, "fill_kv": 0.5,)"
      R"("window": 128)"));
  CHECK(window.key_offset[1] == 1464);
  CHECK(window.pairs == 126604031);
  CHECK(flops(window, Pass::forward) == 259285055488.0);
  CHECK(bytes(window, Pass::backward) == 4308174000.0);
}

TEST_CASE("pairs are counted exactly") {
  for (const char* window :
       {"", R"(, "window": 0)", R"(, "window": 3)", R"(, "window": 1000)", R"(, "window": "causal")",
        R"(, "window": "all:2:bottom_right")", R"(, "window": "5:0:bottom_right")"}) {
    for (const char* kind : {R"("kind": "self")", R"("kind": "cross", "max_q": 50, "fill_q": 0.5)",
                             R"("kind": "pma", "q_len": 9)"}) {
      if (std::string_view(kind).find("pma") != std::string_view::npos &&
          std::string_view(window).find("bottom_right") != std::string_view::npos)
        continue;  // is refused
      const BenchProblem problem = draw(shape_of(fmt::format(
          R"("name": "n", {}, "batch": 6, "heads": 1, "head_dim": 8, "max_kv": 20, "fill_kv": 0.5{})", kind,
          window)));
      CHECK(problem.pairs == count_pairs(problem));
    }
  }
}

TEST_CASE("a shared query moves once") {
  const BenchProblem problem = draw(shape_of(
      R"("name": "p", "kind": "pma", "batch": 10, "heads": 4, "groups": 2, "head_dim": 8, "q_len": 3, "max_kv": 7,)"
      R"("fill_kv": 1)"));
  CHECK(problem.query_rows() == 3);
  CHECK(problem.output_rows() == 30);
  CHECK(problem.key_rows() == 70);
  CHECK(problem.pairs == 210);
  CHECK(flops(problem, Pass::forward) == 4.0 * 8 * 210 * 4);
  CHECK(flops(problem, Pass::backward) == 10.0 * 8 * 210 * 4);
  CHECK(bytes(problem, Pass::forward) == 2.0 * 8 * (3 * 4 + 30 * 4 + 2 * 70 * 2));
  CHECK(bytes(problem, Pass::backward) == 2.0 * 8 * (2 * 3 * 4 + 2 * 30 * 4 + 4 * 70 * 2) + 4.0 * 30 * 4);
}

TEST_CASE("a shapes file that is wrong is refused with file, shape and field") {
  const std::string good =
      R"("name": "a", "batch": 2, "heads": 4, "head_dim": 64, "max_kv": 9, "fill_kv": 0.5)";
  const auto refusal = [&](const std::string& text) {
    const auto shapes = parse_shapes("x.json", text);
    REQUIRE(!shapes.ok());
    CHECK(shapes.status().kind() == ErrorKind::kInvalidArgument);
    CHECK(contains(shapes.status().message(), "x.json"));
    return shapes.status().message();
  };
  const auto shape_refusal = [&](const std::string& fields) {
    return refusal(fmt::format(R"({{"shapes": [{{{}}}]}})", fields));
  };
  CHECK(contains(refusal("{"), "not JSON"));
  CHECK(contains(shape_refusal(good + R"(, "kind": "self", "seed": 1, "seed": 2)"), "names 'seed' twice"));
  CHECK(contains(refusal("[]"), "'shapes'"));
  CHECK(contains(refusal(R"({"shapes": [3]})"), "shape 0"));
  CHECK(contains(shape_refusal(good), "kind"));
  CHECK(contains(shape_refusal(good + R"(, "kind": "round")"), "'round'"));
  CHECK(contains(shape_refusal(good + R"(, "kind": "self", "widnow": 3)"), "'widnow'"));
  CHECK(contains(shape_refusal(good + R"(, "kind": "self", "window": -1)"), "window -1"));
  CHECK(contains(shape_refusal(good + R"(, "kind": "self", "window": "-1:0")"), "window.left -1"));
  CHECK(contains(shape_refusal(good + R"(, "kind": "self", "window": "narrow")"), "window 'narrow'"));
  CHECK(contains(shape_refusal(good + R"(, "kind": "pma", "q_len": 1, "window": "3:bottom_right")"),
                 "aligned bottom_right"));
  CHECK(contains(shape_refusal(good + R"(, "kind": "self", "window": 1.5)"), "window 1.5"));
  CHECK(contains(shape_refusal(good + R"(, "kind": "pma")"), "q_len"));
  CHECK(contains(shape_refusal(good + R"(, "kind": "cross", "max_q": 3, "fill_q": 2)"), "fill_q 2"));
  CHECK(contains(shape_refusal(good + R"(, "kind": "self", "groups": 3)"), "3 groups"));
}

TEST_CASE("every shape of a file, on a simulated device") {
  const Bench bench;
  for (const char* pass : {"forward", "backward"}) {
    const std::string json_file = bench.path("out.json");
    const auto result = bench({"--shapes", bench.file(), "--device", "sim:sm_100a", "--repeat", "2", "--pass",
                               pass, "--json", json_file});
    REQUIRE_MESSAGE(result.exit_code == 0, result.output, result.error);
    CHECK(contains(result.output, "tiny-pma"));
    CHECK(contains(result.error, "simulator"));
    const auto json = nlohmann::json::parse(test::read_text(json_file));
    CHECK(json["simulated"] == true);
    CHECK(json["pass"] == pass);
    CHECK(json["copy_gb_per_s"] > 0);
    REQUIRE(json["shapes"].size() == 2);
    for (const auto& shape : json["shapes"]) {
      CHECK(shape["ms"]["min"] > 0);
      CHECK(shape["ms"]["min"] <= shape["ms"]["median"]);
      CHECK(shape["ms"]["median"] <= shape["ms"]["max"]);
      CHECK(shape["tflops"] > 0);
      CHECK(shape["gb_per_s"] > 0);
    }
    CHECK(json["shapes"][1]["name"] == "tiny-pma");
    CHECK(json["shapes"][1]["pairs"] == 2 * 5 * 30);
  }
}

TEST_CASE("a simulated GPU with timing=1 tells times of a model, and says so") {
  const Bench bench;
  const auto result = bench(
      {"--shapes", bench.file(), "--only", "tiny", "--device", "sim:sm_100a?timing=1&checks=0", "--details"});
  REQUIRE_MESSAGE(result.exit_code == 0, result.output, result.error);
  for (const char* text : {"nothing is measured", "not measured on sm_100", "critical chain", "ms on 148 SMs",
                           "jfa_forward: ", "tiny: "})
    CHECK_MESSAGE(contains(result.output, text), text);
  for (const char* device : {"sim:sm_100a?timing=1&schedule=random", "sim:sm_100a?timing=1&sms=3"}) {
    const auto refused = bench({"--shapes", bench.file(), "--device", device});
    CHECK(refused.exit_code == 2);
    CHECK_MESSAGE(contains(refused.error, "timing=1 needs"), refused.error);
  }
}

TEST_CASE("the overhead is measured beside launches that give the same output") {
  const auto result = Bench()({"--overhead", "--device", "sim:sm_100a"});
  REQUIRE_MESSAGE(result.exit_code == 0, result.output, result.error);
  CHECK(contains(result.output, "what jfa adds"));
}

TEST_CASE("what cannot be measured is said") {
  const Bench bench;
  const auto nothing = bench({"--device", "sim:sm_100a"});
  CHECK(nothing.exit_code == 2);
  CHECK(contains(nothing.error, "--shapes"));
  const auto unknown = bench({"--device", "sim:sm_100a", "--shapes", bench.file(), "--only", "huge"});
  CHECK(unknown.exit_code == 2);
  CHECK(contains(unknown.error, "'huge'"));
  const auto absent = bench({"--device", "sim:sm_100a", "--shapes", bench.path("absent.json")});
  CHECK(absent.exit_code == 2);
  CHECK(contains(absent.error, "absent.json"));
  const auto pass = bench({"--device", "sim:sm_100a", "--shapes", bench.file(), "--pass", "sideways"});
  CHECK(pass.exit_code == 2);
  CHECK(contains(pass.error, "sideways"));

  // One shape that no kernel exists for does not keep the others from being measured.
  std::ofstream(bench.file()) << R"({"shapes": [
    {"name": "odd", "kind": "self", "batch": 1, "heads": 1, "head_dim": 12, "max_kv": 4, "fill_kv": 1},
    {"name": "even", "kind": "self", "batch": 1, "heads": 1, "head_dim": 16, "max_kv": 4, "fill_kv": 1}]})";
  const auto partly = bench({"--device", "sim:sm_100a", "--shapes", bench.file(), "--repeat", "1"});
  CHECK(partly.exit_code == 1);
  CHECK(contains(partly.error, "odd: "));
  CHECK(contains(partly.output, "even"));
}
