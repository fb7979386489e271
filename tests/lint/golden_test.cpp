// What the machine code of our hot loops does, against tests/golden/lint.json: every entry of a few
// configurations. A change of a kernel that changes these figures shows here, for better or worse. To take
// over what it does now:
//
//   build/release/tests/lint_golden_test --no-skip --test-case='write the golden figures'
//
// The figures are those of one build of NVRTC. Another one makes other code, so there they are not compared.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "base/input_file.h"
#include "formats/strict_json.h"
#include "generator/emit.h"
#include "generator/plan.h"
#include "runtime/compile.h"
#include "runtime/nvrtc.h"
#include "tests/command_runner.h"
#include "tools/lint/lint.h"
#include "tools/sweep.h"

namespace jfa::lint {
namespace {

using Json = nlohmann::json;

const std::string kGolden = "tests/golden/lint.json";
const std::string kRewrite =
    "lint_golden_test --no-skip --test-case='write the golden figures' takes over what the kernels do now";

// All of them are in bench/kernels.json too, whose test leaves them in the same cache.
std::vector<KernelSpec> configurations() {
  std::vector<KernelSpec> specs;
  for (const char* target : {"sm_100f", "sm_90a"}) {
    const auto add = [&](tools::KernelFields fields) {
      fields.target = target;
      specs.push_back(tools::specialize(fields).value());
    };
    add({.head_dim = 128});
    add({.head_dim = 64});
    add({.head_dim = 128, .window = "128"});
    add({.pass = "backward", .head_dim = 128});
    add({.pass = "backward", .head_dim = 128, .broadcast_q = true});
  }
  return specs;
}

// Name and figures of every configuration.
std::vector<std::pair<std::string, Figures>> all_figures() {
  std::vector<std::pair<std::string, Figures>> figures;
  for (const KernelSpec& spec : configurations()) {
    const SharedImage image = compile(emit(plan(spec).value())).value();
    figures.emplace_back(image->name, lint(image->name, image->cubin).value());
  }
  return figures;
}

std::string golden_of(const std::vector<std::pair<std::string, Figures>>& figures) {
  const auto nvrtc = Nvrtc::instance().value();
  std::string text = fmt::format("{{\n\"nvrtc\": {},\n\"build\": {},\n\"kernels\": {{",
                                 Json(nvrtc->version()).dump(), Json(nvrtc->identity()).dump());
  const char* separator = "\n";
  for (const auto& [name, of_kernel] : figures) {
    text += fmt::format("{}{}: {}", separator, Json(name).dump(), json_of(of_kernel));
    separator = ",\n";
  }
  return text + "\n}}\n";
}

// What differs from golden to now, as JSON patches, each behind what it is a patch of.
std::string difference(const Json& golden, const Json& now) {
  const Json &before = golden["loops"], &after = now["loops"];
  if (before.size() != after.size()) return fmt::format("{} loops, and now {}", before.size(), after.size());
  std::string text;
  for (std::size_t i = 0; i < before.size(); ++i) {
    if (before[i] != after[i])
      text += fmt::format("loop {} ({}): {}; ", i, before[i]["role"].get<std::string>(),
                          Json::diff(before[i], after[i]).dump());
  }
  return text.empty() ? Json::diff(golden, now).dump() : text;
}

void compare(const std::string& kernel, const Json& golden, const Json& now) {
  CHECK_MESSAGE(golden.size() == now.size(), kernel << ": entries; " << kRewrite);
  for (const auto& item : golden.items()) {
    const std::string& entry = item.key();
    REQUIRE_MESSAGE(now.contains(entry), kernel << " has no entry " << entry << "; " << kRewrite);
    const bool same = item.value() == now[entry];
    CHECK_MESSAGE(same, kernel << ", " << entry << ": " << difference(item.value(), now[entry]) << kRewrite);
  }
}

TEST_CASE("write the golden figures" * doctest::skip()) {
  std::ofstream file(kGolden);
  file << golden_of(all_figures());
  CHECK(file.flush().good());
}

TEST_CASE("the machine code of hot loops does what tests/golden/lint.json says") {
  const Json golden = tools::parse_json(kGolden, tools::read_text(kGolden).value()).value();
  const Json now = tools::parse_json("figures", golden_of(all_figures())).value();
  if (golden["build"] != now["build"]) {
    MESSAGE("not compared: " << kGolden << " was made by NVRTC " << golden["nvrtc"] << ", " << golden["build"]
                             << "; this is NVRTC " << now["nvrtc"] << ", " << now["build"]);
    return;
  }
  CHECK(golden["kernels"].size() == now["kernels"].size());
  for (const auto& item : golden["kernels"].items()) {
    const std::string& kernel = item.key();
    REQUIRE_MESSAGE(now["kernels"].contains(kernel), kernel);
    compare(kernel, item.value(), now["kernels"][kernel]);
  }
}

TEST_CASE("the lint knows all instructions of our kernels, and finds their roles") {
  for (const auto& kernel : all_figures()) {
    CAPTURE(kernel.first);
    bool attends = false;
    for (const EntryFigures& entry : kernel.second.entries) {
      CAPTURE(entry.name);
      CHECK(entry.unknown.empty());
      CHECK(entry.irreducible_loops == 0);
      CHECK(!entry.loops.empty());
      for (const LoopFigures& loop : entry.loops) attends |= loop.role == Role::attend;
    }
    CHECK(attends);
  }
}

TEST_CASE("jfa emit --format lint shows it, as a table and as JSON") {
  const auto emitted = [](const std::string& target, const std::string& format) {
    return test::run_command({JFA_TOOL, "emit", "--target", target, "--head-dim", "64", "--format", format});
  };
  const test::CommandResult table = emitted("sm_90a", "lint");
  CAPTURE(table.error);
  CHECK(table.exit_code == 0);
  CHECK(table.output.find("\njfa_forward: ") != std::string::npos);
  CHECK(table.output.find(" attend ") != std::string::npos);
  const test::CommandResult json = emitted("sm_90a", "lint-json");
  CHECK(json.exit_code == 0);
  CHECK(tools::parse_json("lint-json", json.output).value().at("jfa_forward").at("loops").size() > 3);
  const test::CommandResult refused = emitted("compute_90a", "lint");
  CHECK(refused.exit_code == 2);
  CHECK(refused.error.find("--format lint: target 'compute_90a' is virtual") != std::string::npos);
}

}  // namespace
}  // namespace jfa::lint
