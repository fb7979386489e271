// The simulator against what a GPU answered: every instruction test of tests/golden bit for bit,
// approximations within the bound that the PTX ISA states.
#include "conformance/golden.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <set>

namespace jfa::conformance {
namespace {

constexpr const char* kGolden = "tests/golden/h200.json";

const Golden& golden() {
  static const Golden read = read_golden(kGolden).value();
  return read;
}

TEST_CASE("names are unique, and every case has an H200's answer or says what it expects") {
  std::set<std::string> names;
  for (const TestCase& test : instruction_cases()) {
    CHECK_MESSAGE(names.insert(test.name).second, test.name);
    if (runs_on(test.needs, golden().device.target))
      CHECK_MESSAGE((golden().cases.contains(test.name) || !test.make().expected.empty()), test.name);
  }
  CHECK(golden().device.name == "NVIDIA H200");
  CHECK(golden().cases.size() > 1000);
}

TEST_CASE("the simulator answers as the H200 did") {
  for (const char* device : {"sim:sm_90a", "sim:sm_100a"}) {
    CAPTURE(device);
    const std::unique_ptr<Session> session = Session::open(device).value();
    for (const TestCase& test : instruction_cases()) {
      if (!runs_on(test.needs, session->facts().target)) continue;
      CAPTURE(test.name);
      const TestKernel kernel = test.make();
      const Result<std::vector<std::byte>> output = session->run(kernel);
      REQUIRE_MESSAGE(output.ok(), output.status().message() << output.status().detail());
      if (!kernel.expected.empty()) CHECK(*output == kernel.expected);
      const auto answer = golden().cases.find(test.name);
      if (answer != golden().cases.end()) CHECK(difference(answer->second, *output) == "");
    }
  }
}

TEST_CASE("approximations stay within their bounds, on the H200 and in the simulator") {
  const std::unique_ptr<Session> session = Session::open("sim:sm_90a").value();
  for (const Sweep& sweep : sweeps()) {
    CAPTURE(sweep.name);
    const auto answer = golden().sweeps.find(sweep.name);
    REQUIRE(answer != golden().sweeps.end());
    CHECK(answer->second.worst_in_bound <= 1.0);
    const std::vector<std::byte> output = session->run(sweep_kernel(sweep)).value();
    const SweepResult result = judge(sweep, output);
    CHECK(result.worst_in_bound <= 1.0);
    CHECK(result.nearest >
          kSweepRows / 10 * 9);  // the simulator's are the exact results, all but always rounded right
  }
}

TEST_CASE("what differs is named by its place") {
  std::vector<std::byte> output(100, std::byte{1});
  const GoldenCase answer = golden_case(output);
  CHECK(difference(answer, output).empty());
  output[41] = std::byte{2};
  CHECK(difference(answer, output) == "byte 40: 01020101 instead of 01010101");
  output[41] = std::byte{1};
  output[99] = std::byte{2};
  CHECK(difference(answer, output).find("digest") == 0);
  output.pop_back();
  CHECK(difference(answer, output) == "99 bytes, the golden output has 100");
}

TEST_CASE("a sweep's judge sees a result out of bound") {
  const Sweep& sweep = sweeps().front();
  const std::unique_ptr<Session> session = Session::open("sim:sm_90a").value();
  std::vector<std::byte> output = session->run(sweep_kernel(sweep)).value();
  output[4 * 77] ^= std::byte{0x0c};
  const SweepResult result = judge(sweep, output);
  CHECK(result.worst_in_bound > 1.0);
  CHECK(result.worst_input == sweep.first_bits + 77);
}

}  // namespace
}  // namespace jfa::conformance
