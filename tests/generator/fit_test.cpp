// What does not fit a target is refused by name and number, and no number of the plan is repeated by a
// template.
#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <regex>
#include <string>

#include "generator/emit.h"
#include "generator/plan.h"

namespace {

using namespace jfa;

KernelSpec spec_of(Target target, Pass pass, int padded_dim, bool broadcast_q = false) {
  KernelSpec spec;
  spec.target = target;
  spec.pass = pass;
  spec.padded_dim = padded_dim;
  spec.broadcast_q = broadcast_q;
  return spec;
}

Region& find(std::vector<Region>& map, const std::string& type) {
  for (Region& region : map)
    if (region.type == type) return region;
  throw std::out_of_range(type);
}

// What check_fit() says of a 10.x forward after a change; empty if all is well.
std::string forward_after(const std::function<void(EntryPlan&)>& change) {
  KernelPlan plan = jfa::plan(spec_of(Target::sm_100f, Pass::forward, 128)).value();
  change(std::get<ForwardPlan>(plan.entries).main);
  return check_fit(plan).message();
}

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

}  // namespace

TEST_CASE("a wider row is refused by name wherever no kernel has room for it") {
  int refused = 0;
  for (const Target target : {Target::sm_100f, Target::sm_90a}) {
    for (const Pass pass : {Pass::forward, Pass::backward}) {
      for (const bool broadcast_q : {false, true}) {
        const KernelSpec spec = spec_of(target, pass, 192, broadcast_q);
        const Result<KernelPlan> plan = jfa::plan(spec);
        CAPTURE(name(spec));
        REQUIRE_FALSE(plan.ok());
        CHECK(plan.status().kind() == ErrorKind::kUnsupported);
        CHECK(has(plan.status().message(), name(spec)));
        CHECK(has(plan.status().message(), "232448 bytes of shared memory"));
        ++refused;
      }
    }
  }
  CHECK(refused == 8);
  CHECK(jfa::plan(spec_of(Target::sm_90a, Pass::forward, 192)).status().message() ==
        "forward-bf16-d192-sm_90a: jfa_forward: key_value_stages 1 is below the least, 4: 232448 bytes of "
        "shared "
        "memory hold no more");
}

TEST_CASE("a map or a number of threads that the entry does not have is refused") {
  CHECK(forward_after([](EntryPlan&) {}).empty());
  CHECK(has(forward_after([](EntryPlan& entry) { entry.threads = 224; }),
            "threads 224 are not those of its roles, 256"));
  CHECK(has(forward_after([](EntryPlan& entry) { entry.shared_bytes -= 1024; }),
            "are not those of its regions"));
  CHECK(has(forward_after([](EntryPlan& entry) { find(entry.tensor_map, "Accumulator").begin = 16; }),
            "Scores, columns 0 to 256, overlaps Accumulator, columns 16 to 144"));
  CHECK(has(forward_after([](EntryPlan& entry) { find(entry.tensor_map, "Probabilities").begin = 464; }),
            "Probabilities ends at column 528 of 512"));
  CHECK(has(forward_after([](EntryPlan& entry) { find(entry.tensor_map, "Probabilities").begin = 390; }),
            "Probabilities begins at column 390, no multiple of 16"));
  CHECK(has(forward_after([](EntryPlan& entry) { find(entry.shared_map, "KeysAndValues").begin -= 1024; }),
            "overlaps KeysAndValues"));
  CHECK(has(forward_after([](EntryPlan& entry) { find(entry.shared_map, "Queries").begin = 512; }),
            "Queries begins at byte 512, no multiple of 1024"));
}

TEST_CASE("a region may move to any legal place") {
  CHECK(forward_after([](EntryPlan& entry) { find(entry.tensor_map, "Probabilities").begin = 448; }).empty());
  CHECK(forward_after([](EntryPlan& entry) {
          std::swap(find(entry.tensor_map, "Accumulator").begin,
                    find(entry.tensor_map, "Probabilities").begin);
        }).empty());
}

TEST_CASE("a region in the place of another must lie in it") {
  KernelPlan plan = jfa::plan(spec_of(Target::sm_100f, Pass::backward, 64)).value();
  EntryPlan& entry = std::get<BackwardPlan>(plan.entries).short_keys->main;
  CHECK(check_fit(plan).ok());
  find(entry.tensor_map, "Probabilities").begin += 48;
  CHECK(has(check_fit(plan).message(),
            "jfa_backward_short: Probabilities, columns 112 to 144, does not lie in ScoreGrads, columns 64 "
            "to 128"));
}

TEST_CASE("registers and threads of the roles must fit a CTA") {
  KernelPlan plan = jfa::plan(spec_of(Target::sm_90a, Pass::forward, 64)).value();
  EntryPlan& entry = std::get<ForwardPlan>(plan.entries).main;
  entry.roles.front().registers = 64;
  CHECK(has(check_fit(plan).message(), "registers 65792 of the 64512 that 384 threads start with"));
  entry.roles.front().registers = 28;
  CHECK(has(check_fit(plan).message(), "registers 28 of role Load are no multiple of 8 from 24 to 256"));
  entry.roles.front().registers = 16;
  CHECK(has(check_fit(plan).message(), "registers 16 of role Load are no multiple of 8 from 24 to 256"));
  entry.roles.front().registers = 24;
  entry.roles.push_back({"More", "nothing", 32});
  entry.threads += 32 * 32;
  CHECK(has(check_fit(plan).message(), "threads 1408 of 1024"));
}

TEST_CASE("the emitted numbers are those of the plan") {
  KernelPlan plan = jfa::plan(spec_of(Target::sm_100f, Pass::forward, 128)).value();
  const std::string text = emit(plan).text;
  CHECK(has(text, "struct Forward {  // jfa_forward\n  static constexpr int kThreads = 256,"));
  CHECK(has(text, "using Probabilities = TensorTiles<TensorTile<kElement, 128, 128>, 384, 1>;"));
  find(std::get<ForwardPlan>(plan.entries).main.tensor_map, "Probabilities").begin = 448;
  CHECK(has(emit(plan).text, "using Probabilities = TensorTiles<TensorTile<kElement, 128, 128>, 448, 1>;"));
}

TEST_CASE("an emitted source says how it compiles alone: a virtual target has no machine code") {
  for (const Target target : all_targets()) {
    const std::string text = emit(plan(spec_of(target, Pass::forward, 64)).value()).text;
    CHECK(has(text, "nvcc -arch=" + std::string(to_string(target)) +
                        (is_virtual(target) ? " -ptx.\n" : " -cubin.\n")));
  }
}

TEST_CASE("no template repeats a number of the plan") {
  const std::regex repeated(
      R"(__launch_bounds__\(\s*\d|setmaxnreg_(inc|dec)<\d|\bwarp (==|<|>|>=|<=) \d)"
      R"(|k\w*(Column|Stages) = \d+;|k(Tile|Streamed|Consumer|Gradient|Softmax)(Rows|Threads|Warps) = \d+;|kConsumers = \d+;)");
  int files = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(JFA_TEMPLATE_DIR)) {
    if (!entry.is_regular_file()) continue;
    std::ifstream stream(entry.path());
    const std::string text{std::istreambuf_iterator<char>(stream), {}};
    std::smatch match;
    const bool found = std::regex_search(text, match, repeated);
    CHECK_MESSAGE(!found, entry.path().filename().string() << ": " << (found ? match.str() : ""));
    ++files;
  }
  CHECK(files > 30);
}
