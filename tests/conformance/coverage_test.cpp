// Every instruction that the emitted kernels use, apart from tcgen05, is in some instruction test or sweep.
#include <doctest/doctest.h>

#include <set>

#include "conformance/approximation.h"
#include "conformance/session.h"
#include "simulator/ptx/ptx.h"
#include "tests/command_runner.h"

namespace jfa::conformance {
namespace {

void add_opcodes(const std::string& ptx, std::set<std::string>& opcodes) {
  for (const auto& function : simulator::parse_ptx(ptx).functions)
    for (const auto& statement : function.statements)
      if (!statement.opcode.empty()) opcodes.insert(statement.opcode);
}

std::set<std::string> tested_opcodes() {
  std::set<std::string> opcodes;
  for (const TestCase& test : instruction_cases()) add_opcodes(module_text(test.make(), "sm_100a"), opcodes);
  for (const Sweep& sweep : sweeps()) add_opcodes(module_text(sweep_kernel(sweep), "sm_100a"), opcodes);
  return opcodes;
}

std::set<std::string> emitted_opcodes(const std::string& target) {
  const std::vector<std::vector<std::string>> configurations = {
      {"--head-dim", "64"},
      {"--head-dim", "128", "--dtype", "fp16", "--window", "64"},
      {"--head-dim", "128", "--broadcast-q", "--groups", "4"}};
  std::set<std::string> opcodes;
  for (const char* pass : {"forward", "backward"}) {
    for (const auto& configuration : configurations) {
      std::vector<std::string> command{JFA_TOOL,   "emit", "--format", "ptx",
                                       "--target", target, "--pass",   pass};
      command.insert(command.end(), configuration.begin(), configuration.end());
      const test::CommandResult result = test::run_command(command);
      REQUIRE_MESSAGE(result.exit_code == 0, result.error);
      add_opcodes(result.output, opcodes);
    }
  }
  return opcodes;
}

TEST_CASE("the instructions of emitted kernels are tested one by one") {
  const std::set<std::string> tested = tested_opcodes();
  for (const std::string target : {"sm_90a", "sm_100f"}) {
    CAPTURE(target);
    const std::set<std::string> emitted = emitted_opcodes(target);
    CHECK(emitted.size() > 80);
    for (const std::string& opcode : emitted) {
      // What only a 10.x has no GPU has answered yet; experiments for one are in docs/doubts.md.
      const bool only_blackwell =
          opcode.starts_with("tcgen05.") || opcode.find(".cta_group::") != std::string::npos;
      if (!only_blackwell) CHECK_MESSAGE(tested.contains(opcode), opcode);
    }
  }
}

}  // namespace
}  // namespace jfa::conformance
