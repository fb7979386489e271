#include "tests/simulator_tensor_program.h"

#include <doctest/doctest.h>

#include <cstring>

#include "tools/conformance/session.h"

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

}  // namespace jfa::test
