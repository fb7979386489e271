// One thing that `jfa conformance` does on a device, and what came of it.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "conformance/golden.h"
#include "conformance/session.h"

namespace jfa::conformance {

struct Item {
  std::string name;
  std::string group;
  const TestCase* test = nullptr;  // or else
  const Sweep* sweep = nullptr;
};

/// Instruction tests, sweeps, then the experiments for doubts: those whose name or group contains `only`.
std::vector<Item> items(const std::string& only = {});

enum class Verdict {
  kPassed,  // as expected: by the test itself, by golden answers, or by the simulator of the same target
  kFailed,
  kSkipped,  // the device does not have what it needs
  kRan,      // nothing to compare with
};
const char* to_string(Verdict verdict);

struct ItemResult {
  Verdict verdict = Verdict::kRan;
  std::string message;  // compared with what; what differs
  std::string detail;   // a report, a log
  GoldenCase answer;    // of a test that gave one
  SweepResult sweep;    // of a sweep
  bool device_lost = false;
};

/// golden may be null. Results are compared with the test's own expectation; else with golden answers; else,
/// on a GPU, with the simulator of its target.
ItemResult run_item(Session& session, const Item& item, const Golden* golden);

nlohmann::ordered_json to_json(const ItemResult& result);
ItemResult result_from_json(const nlohmann::ordered_json& json);

}  // namespace jfa::conformance
