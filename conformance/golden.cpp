#include "conformance/golden.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/input_file.h"
#include "formats/strict_json.h"

namespace jfa::conformance {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kFirstBytes = 64;

std::string hexadecimal(std::span<const std::byte> bytes) {
  std::string text;
  for (const std::byte byte : bytes.first(std::min(bytes.size(), kFirstBytes)))
    text += fmt::format("{:02x}", static_cast<unsigned>(byte));
  return text;
}

}  // namespace

GoldenCase golden_case(std::span<const std::byte> output) {
  return {digest(output), output.size(), hexadecimal(output)};
}

std::string difference(const GoldenCase& golden, std::span<const std::byte> output) {
  const GoldenCase here = golden_case(output);
  if (here.bytes != golden.bytes)
    return fmt::format("{} bytes, the golden output has {}", here.bytes, golden.bytes);
  if (here.digest == golden.digest) return {};
  const auto [a, b] =
      std::mismatch(here.first.begin(), here.first.end(), golden.first.begin(), golden.first.end());
  if (a == here.first.end() || b == golden.first.end())
    return fmt::format("digest {} instead of {}; the first {} bytes agree", here.digest, golden.digest,
                       kFirstBytes);
  const auto word = static_cast<std::size_t>(a - here.first.begin()) / 8 * 8;
  return fmt::format("byte {}: {} instead of {}", word / 2, here.first.substr(word, 8),
                     golden.first.substr(word, 8));
}

Result<Golden> read_golden(const std::string& path) {
  const Result<std::string> text = tools::read_text(path);
  if (!text) return text.status();
  const Result<nlohmann::json> parsed = tools::parse_json(path, *text);
  if (!parsed) return parsed.status();
  const nlohmann::json& json = *parsed;
  try {
    Golden golden;
    golden.device = {json.at("gpu"), json.at("target"), json.at("driver_version")};
    golden.date = json.at("date");
    for (const auto& [name, entry] : json.at("cases").items())
      golden.cases[name] = {entry.at("digest"), entry.at("bytes"), entry.at("first")};
    for (const auto& [name, entry] : json.at("sweeps").items()) {
      SweepResult result;
      result.worst_ulp = entry.at("worst_ulp");
      result.worst_input = entry.at("worst_input");
      result.worst_in_bound = entry.at("worst_in_bound");
      result.nearest = entry.at("nearest");
      result.digest = entry.at("digest");
      golden.sweeps[name] = result;
    }
    return golden;
  } catch (const Json::exception& error) {
    return Status::invalid_argument(fmt::format("{}: {}", path, error.what()));
  }
}

std::string golden_text(const Golden& golden) {
  Json cases = Json::object(), sweeps = Json::object();
  for (const auto& [name, entry] : golden.cases)
    cases[name] = {{"digest", entry.digest}, {"bytes", entry.bytes}, {"first", entry.first}};
  for (const auto& [name, entry] : golden.sweeps)
    sweeps[name] = {{"worst_ulp", entry.worst_ulp},
                    {"worst_input", entry.worst_input},
                    {"worst_in_bound", entry.worst_in_bound},
                    {"nearest", entry.nearest},
                    {"digest", entry.digest}};
  const Json json{{"gpu", golden.device.name},
                  {"target", golden.device.target},
                  {"driver_version", golden.device.driver_version},
                  {"date", golden.date},
                  {"cases", cases},
                  {"sweeps", sweeps}};
  return json.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace jfa::conformance
