// Golden vectors: what a GPU answered, kept so that the simulator can be held against it without one.
#pragma once

#include <map>
#include <span>
#include <string>

#include "base/status.h"
#include "conformance/approximation.h"
#include "conformance/session.h"

namespace jfa::conformance {

struct GoldenCase {
  std::string digest;  // of all bytes
  std::size_t bytes = 0;
  std::string first;  // the first bytes in hexadecimal, to see where a difference begins
};

/// One GPU's answers, by name of the case or sweep.
struct Golden {
  DeviceFacts device;
  std::string date;  // "2026-11-29"
  std::map<std::string, GoldenCase> cases;
  std::map<std::string, SweepResult> sweeps;
};

GoldenCase golden_case(std::span<const std::byte> output);

/// Empty if the output is the golden one, else what differs first.
std::string difference(const GoldenCase& golden, std::span<const std::byte> output);

/// Errors: kUnavailable, kInvalidArgument with the path and what is wrong.
Result<Golden> read_golden(const std::string& path);
/// Such a file.
std::string golden_text(const Golden& golden);

}  // namespace jfa::conformance
