#include "tests/simulator/tensor_program.h"

#include <doctest/doctest.h>

#include <cstring>

#include "conformance/session.h"

namespace jfa::test {

const std::vector<std::string> kTensorSchedules = {"sim:sm_100a", "sim:sm_100a?schedule=lazy",
                                                   "sim:sm_100a?schedule=random&seed=1"};

TensorOutcome run_tensor_program(const std::string& device, const TensorProgram& program) {
  const std::unique_ptr<conformance::Session> session = conformance::Session::open(device).value();
  const Result<std::vector<std::byte>> output = session->run(conformance::kernel_of(program));
  TensorOutcome outcome;
  outcome.ok = output.ok();
  if (!outcome.ok) {
    outcome.report = output.status().message() + "\n" + output.status().detail();
    return outcome;
  }
  outcome.tensor.resize(output->size() / 4);
  std::memcpy(outcome.tensor.data(), output->data(), output->size());
  return outcome;
}

void check_tensor_program(const TensorProgram& program, const std::vector<std::string>& devices) {
  for (const std::string& device : devices) {
    CAPTURE(device);
    const TensorOutcome outcome = run_tensor_program(device, program);
    REQUIRE_MESSAGE(outcome.ok, outcome.report);
    CHECK(outcome.tensor == program.expected);
  }
}

TensorProgram with_issue(TensorProgram program, const std::string& from, const std::string& to) {
  const std::size_t at = program.issue.find(from);
  REQUIRE_MESSAGE(at != std::string::npos, from);
  program.issue.replace(at, from.size(), to);
  return program;
}

void check_refused(const TensorProgram& program, const std::string& part,
                   const std::vector<std::string>& devices) {
  for (const std::string& device : devices) {
    CAPTURE(device);
    const TensorOutcome outcome = run_tensor_program(device, program);
    CHECK(!outcome.ok);
    const bool found = outcome.report.find(part) != std::string::npos;
    CHECK_MESSAGE(found, outcome.report);
  }
}

}  // namespace jfa::test
