#include "conformance/item.h"

#include <fmt/format.h>

#include <cstring>
#include <nlohmann/json.hpp>

#include "conformance/doubts.h"

namespace jfa::conformance {
namespace {

using Json = nlohmann::ordered_json;
using Bytes = std::vector<std::byte>;

std::string first_difference(const Bytes& got, const Bytes& expected) {
  std::size_t differing = 0, first = 0;
  for (std::size_t i = 0; i + 4 <= expected.size() && i + 4 <= got.size(); i += 4) {
    if (std::memcmp(&got[i], &expected[i], 4) == 0) continue;
    if (differing++ == 0) first = i;
  }
  if (got.size() != expected.size())
    return fmt::format("{} bytes instead of {}", got.size(), expected.size());
  if (differing == 0) return {};
  std::uint32_t a = 0, b = 0;
  std::memcpy(&a, &got[first], 4);
  std::memcpy(&b, &expected[first], 4);
  return fmt::format("{} of {} words differ, the first at byte {}: {:08x} instead of {:08x}", differing,
                     expected.size() / 4, first, a, b);
}

ItemResult verdict_of(const std::string& difference, const std::string& against) {
  if (difference.empty()) return {Verdict::kPassed, against, {}, {}, {}};
  return {Verdict::kFailed, fmt::format("{}: {}", against, difference), {}, {}, {}};
}

// The simulator of the device's own target, opened when it is first wanted.
Session* simulator_for(const Session& session) {
  static std::unique_ptr<Session> simulator;
  if (!simulator) {
    const bool hopper = session.facts().target.starts_with("sm_90");
    Result<std::unique_ptr<Session>> opened = Session::open(hopper ? "sim:sm_90a" : "sim:sm_100a");
    if (opened) simulator = std::move(opened.value());
  }
  return simulator.get();
}

ItemResult failed(const Status& status) {
  ItemResult result{Verdict::kFailed, status.message(), status.detail(), {}, {}};
  result.device_lost = status.kind() == ErrorKind::kDevice;
  return result;
}

ItemResult run_test(Session& session, const TestCase& test, const Golden* golden) {
  const TestKernel kernel = test.make();
  const Result<Bytes> output = session.run(kernel);
  if (kernel.must_fail) {
    if (output) return {Verdict::kFailed, "was to be refused, and ran", {}, golden_case(*output), {}};
    ItemResult result{
        Verdict::kPassed, "refused: " + output.status().message(), output.status().detail(), {}, {}};
    result.device_lost = output.status().kind() == ErrorKind::kDevice;
    return result;
  }
  if (!output) return failed(output.status());
  ItemResult result;
  const auto answer =
      golden != nullptr ? golden->cases.find(test.name) : std::map<std::string, GoldenCase>::const_iterator{};
  if (!kernel.expected.empty()) {
    result = verdict_of(first_difference(*output, kernel.expected), "what the test expects");
  } else if (golden != nullptr && answer != golden->cases.end()) {
    result = verdict_of(difference(answer->second, *output), "golden answer of " + golden->device.name);
  } else if (!session.simulated()) {
    Session* simulator = simulator_for(session);
    const Result<Bytes> simulated =
        simulator != nullptr ? simulator->run(kernel) : Result<Bytes>(Status::internal("no simulator"));
    if (simulated)
      result = verdict_of(first_difference(*output, *simulated), "the simulator");
    else
      result = {Verdict::kFailed,
                "the simulator does not run it: " + simulated.status().message(),
                simulated.status().detail(),
                {},
                {}};
  }
  result.answer = golden_case(*output);
  return result;
}

ItemResult run_sweep(Session& session, const Sweep& sweep) {
  const Result<Bytes> output = session.run(sweep_kernel(sweep));
  if (!output) return failed(output.status());
  ItemResult result;
  result.sweep = judge(sweep, *output);
  result.verdict = result.sweep.worst_in_bound <= 1 ? Verdict::kPassed : Verdict::kFailed;
  result.message = fmt::format(
      "worst error {:.3f} of the bound, {} ulp at input {:#010x}; {:.2f} % are rounded to nearest",
      result.sweep.worst_in_bound, result.sweep.worst_ulp, result.sweep.worst_input,
      100.0 * static_cast<double>(result.sweep.nearest) / kSweepRows);
  return result;
}

}  // namespace

std::vector<Item> items(const std::string& only) {
  std::vector<Item> all;
  const auto add = [&](Item item) {
    if (item.name.find(only) != std::string::npos || item.group.find(only) != std::string::npos)
      all.push_back(std::move(item));
  };
  for (const TestCase& test : instruction_cases()) add({test.name, test.group, &test, nullptr});
  for (const Sweep& sweep : sweeps()) add({sweep.name, "approximation", nullptr, &sweep});
  for (const TestCase& test : experiments()) add({test.name, test.group, &test, nullptr});
  return all;
}

const char* to_string(Verdict verdict) {
  switch (verdict) {
    case Verdict::kPassed:
      return "passed";
    case Verdict::kFailed:
      return "failed";
    case Verdict::kSkipped:
      return "skipped";
    case Verdict::kRan:
      return "ran";
  }
  return "?";
}

ItemResult run_item(Session& session, const Item& item, const Golden* golden) {
  if (item.sweep != nullptr) return run_sweep(session, *item.sweep);
  if (!runs_on(item.test->needs, session.facts().target))
    return {Verdict::kSkipped, "not for " + session.facts().target, {}, {}, {}};
  return run_test(session, *item.test, golden);
}

Json to_json(const ItemResult& result) {
  Json json{{"verdict", to_string(result.verdict)}, {"message", result.message}};
  if (!result.detail.empty()) json["detail"] = result.detail;
  if (!result.answer.digest.empty())
    json["answer"] = {
        {"digest", result.answer.digest}, {"bytes", result.answer.bytes}, {"first", result.answer.first}};
  if (!result.sweep.digest.empty())
    json["sweep"] = {{"worst_ulp", result.sweep.worst_ulp},
                     {"worst_input", result.sweep.worst_input},
                     {"worst_in_bound", result.sweep.worst_in_bound},
                     {"nearest", result.sweep.nearest},
                     {"digest", result.sweep.digest}};
  return json;
}

ItemResult result_from_json(const Json& json) {
  ItemResult result;
  for (const Verdict verdict : {Verdict::kPassed, Verdict::kFailed, Verdict::kSkipped, Verdict::kRan})
    if (json.at("verdict") == to_string(verdict)) result.verdict = verdict;
  result.message = json.at("message");
  result.detail = json.value("detail", "");
  if (json.contains("answer")) {
    const Json& answer = json.at("answer");
    result.answer = {answer.at("digest"), answer.at("bytes"), answer.at("first")};
  }
  if (json.contains("sweep")) {
    const Json& sweep = json.at("sweep");
    result.sweep = {sweep.at("worst_ulp"), sweep.at("worst_input"), sweep.at("worst_in_bound"),
                    sweep.at("nearest"), sweep.at("digest")};
  }
  return result;
}

}  // namespace jfa::conformance
