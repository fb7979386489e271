// Runs conformance/tensor_program.h on a simulated device.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "conformance/tensor_program.h"

namespace jfa::test {

using conformance::TensorProgram;
constexpr std::uint32_t kLanes = conformance::kTensorProgramLanes;

struct TensorOutcome {
  bool ok = false;
  std::string report;                 // what is wrong, unless ok
  std::vector<std::uint32_t> tensor;  // [CTA][128][columns]
};

/// device: "sim:sm_100a?schedule=lazy".
TensorOutcome run_tensor_program(const std::string& device, const TensorProgram& program);

/// The schedules that tests of tensor memory run on.
extern const std::vector<std::string> kTensorSchedules;

/// Requires that the program leaves what it expects in tensor memory, on every device.
void check_tensor_program(const TensorProgram& program,
                          const std::vector<std::string>& devices = kTensorSchedules);
/// The program with a part of its PTX exchanged; requires that it has it.
TensorProgram with_issue(TensorProgram program, const std::string& from, const std::string& to);
/// Checks that the program fails on every device, with a report that has the part.
void check_refused(const TensorProgram& program, const std::string& part,
                   const std::vector<std::string>& devices = {"sim:sm_100a"});

}  // namespace jfa::test
