#include "tuning/record.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <iterator>
#include <limits>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "base/foreign_text.h"

namespace jfa {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::string_view kFormat = "jfa tuning record 1";
constexpr const char* kRecords = "records";

constexpr std::pair<Trial::Outcome, std::string_view> kOutcomes[] = {
    {Trial::Outcome::kPending, "pending"}, {Trial::Outcome::kChecked, "checked"},
    {Trial::Outcome::kTimed, "timed"},     {Trial::Outcome::kStopped, "stopped early"},
    {Trial::Outcome::kRefused, "refused"}, {Trial::Outcome::kFailed, "failed"},
    {Trial::Outcome::kWon, "won"}};

// Six digits are more than any clock has; the rest would only be noise to read.
double rounded(double value) { return std::stod(fmt::format("{:.6g}", value)); }

Json json_of(const TunedShape& shape) {
  return {{"name", shape.name},
          {"batch", shape.size.batch},
          {"query_rows", shape.size.query_rows},
          {"key_rows", shape.size.key_rows},
          {"query_heads", shape.size.query_heads},
          {"lengths", shape.lengths}};
}

Json json_of(const Trial& trial) {
  Json json{{"tuning", to_string(trial.tuning)}, {"outcome", to_string(trial.outcome)}};
  if (!trial.reason.empty()) json["reason"] = trial.reason;
  if (trial.same_bits) json["same_bits"] = *trial.same_bits;
  if (trial.ratio > 0)
    json["ratio"] = {rounded(trial.ratio), rounded(trial.ratio_lower_quartile),
                     rounded(trial.ratio_upper_quartile)};
  Json times = Json::array();
  bool any = false;
  for (const std::vector<double>& of_shape : trial.times_ms) {
    Json list = Json::array();
    for (const double ms : of_shape) list.push_back(rounded(ms));
    any = any || !of_shape.empty();
    times.push_back(std::move(list));
  }
  if (any) json["times_ms"] = std::move(times);
  return json;
}

std::string line_of(const Json& json) { return json.dump(-1, ' ', false, Json::error_handler_t::replace); }

// A list with one element a line.
std::string lines_of(const Json& list) {
  std::string text = "[";
  for (std::size_t i = 0; i < list.size(); ++i) text += (i == 0 ? "\n  " : ",\n  ") + line_of(list[i]);
  return text + "]";
}

Json json_of(const TuningRecord& record) {
  Json json{{"format", kFormat},
            {"class", name(record.problem)},
            {"sizes", describe(record.problem.size)},
            {"device", record.device.name},
            {"multiprocessors", record.device.multiprocessors},
            {"simulated", record.simulated},
            {"driver", record.driver},
            {"compiler", record.compiler},
            {"jfa", record.jfa},
            {"policy", record.policy},
            {"complete", record.complete},
            {"winner", to_string(record.winner)},
            {"winner_ratio", rounded(record.winner_ratio)},
            {"winner_same_bits", record.winner_same_bits}};
  json["shapes"] = Json::array();
  for (const TunedShape& shape : record.shapes) json["shapes"].push_back(json_of(shape));
  json["trials"] = Json::array();
  for (const Trial& trial : record.trials) json["trials"].push_back(json_of(trial));
  json["left_out"] = Json::array();
  for (const LeftOut& left : record.left_out)
    json["left_out"].push_back(Json{{"tuning", to_string(left.tuning)}, {"reason", left.reason}});
  return json;
}

std::string text_of(const Json& record) {
  std::string text = "{";
  for (const auto& [field, value] : record.items()) {
    text += fmt::format("{}\n \"{}\": {}", text.size() == 1 ? "" : ",", field,
                        value.is_array() ? lines_of(value) : line_of(value));
  }
  return text + "\n}";
}

// Reading throws what the JSON library throws, and this; parse_record() catches both.
[[noreturn]] void refuse(const std::string& what) { throw std::invalid_argument(what); }

std::string text_at(const Json& json, const char* field) { return json.at(field).get<std::string>(); }

// Conversions of the JSON library accept 1.5 or 1e300 for an integer; this does not.
std::int64_t integer_at(const Json& json, const char* field) {
  const Json& value = json.at(field);
  if (!value.is_number_integer()) refuse(fmt::format("{} is no whole number", field));
  return value.get<std::int64_t>();
}

Tuning tuning_at(const Json& json, const char* field) {
  Result<Tuning> tuning = parse_tuning(text_at(json, field));
  if (!tuning) refuse(fmt::format("{}: {}", field, tuning.status().message()));
  return *std::move(tuning);
}

Trial trial_of(const Json& json) {
  Trial trial;
  trial.tuning = tuning_at(json, "tuning");
  const std::string outcome = text_at(json, "outcome");
  const auto known =
      std::ranges::find(kOutcomes, outcome, [](const auto& row) { return std::string(row.second); });
  if (known == std::end(kOutcomes)) refuse(fmt::format("outcome '{}' is none", shown(outcome)));
  trial.outcome = known->first;
  trial.reason = json.value("reason", "");
  if (json.contains("same_bits")) trial.same_bits = json["same_bits"].get<bool>();
  if (json.contains("ratio")) {
    const auto ratio = json["ratio"].get<std::vector<double>>();
    if (ratio.size() != 3) refuse("ratio has not three numbers");
    trial.ratio = ratio[0];
    trial.ratio_lower_quartile = ratio[1];
    trial.ratio_upper_quartile = ratio[2];
  }
  if (json.contains("times_ms")) trial.times_ms = json["times_ms"].get<std::vector<std::vector<double>>>();
  return trial;
}

TuningRecord record_of(const Json& json) {
  const std::string format = text_at(json, "format");
  if (format != kFormat) refuse(fmt::format("its format is '{}', not '{}'", shown(format), kFormat));
  TuningRecord record;
  const std::string class_name = text_at(json, "class");
  const auto problem = class_named(class_name);
  if (!problem) refuse(fmt::format("class '{}' is none of this version", shown(class_name)));
  record.problem = *problem;
  record.device.name = text_at(json, "device");
  const std::int64_t multiprocessors = integer_at(json, "multiprocessors");
  if (multiprocessors < 1 || multiprocessors > std::numeric_limits<int>::max())
    refuse("multiprocessors is out of range");
  record.device.multiprocessors = static_cast<int>(multiprocessors);
  record.simulated = json.at("simulated").get<bool>();
  record.driver = text_at(json, "driver");
  record.compiler = text_at(json, "compiler");
  record.jfa = text_at(json, "jfa");
  record.policy = text_at(json, "policy");
  record.complete = json.at("complete").get<bool>();
  record.winner = tuning_at(json, "winner");
  record.winner_ratio = json.at("winner_ratio").get<double>();
  record.winner_same_bits = json.at("winner_same_bits").get<bool>();
  for (const Json& shape : json.at("shapes"))
    record.shapes.push_back({text_at(shape, "name"),
                             {integer_at(shape, "batch"), integer_at(shape, "query_rows"),
                              integer_at(shape, "key_rows"), integer_at(shape, "query_heads")},
                             text_at(shape, "lengths")});
  for (const Json& trial : json.at("trials")) record.trials.push_back(trial_of(trial));
  for (const Json& left : json.at("left_out"))
    record.left_out.push_back({tuning_at(left, "tuning"), text_at(left, "reason")});
  return record;
}

// What the JSON library has to say, without its name and number.
std::string reason_in(const std::exception& error) {
  const std::string_view text = error.what();
  const std::size_t at = text.find("] ");
  return shown(text.starts_with('[') && at != text.npos ? text.substr(at + 2) : text, 200);
}

template <class Make>
auto parsed(std::string_view text, Make make) -> Result<decltype(make(Json()))> {
  try {
    return make(Json::parse(text));
  } catch (const std::exception& error) {
    return Status::invalid_argument("not a tuning record: " + reason_in(error));
  }
}

}  // namespace

std::string_view to_string(Trial::Outcome outcome) {
  return std::ranges::find(kOutcomes, outcome, [](const auto& row) { return row.first; })->second;
}

std::string name(const TuningRecord& record) {
  std::string device;
  for (const char c : record.device.name) {
    const auto letter = static_cast<unsigned char>(c);
    if (std::isalnum(letter) != 0 || c == '_') {
      device += static_cast<char>(std::tolower(letter));
    } else if (!device.empty() && !device.ends_with('-')) {
      device += '-';
    }
  }
  if (device.ends_with('-')) device.pop_back();
  return fmt::format("{}-{}.{}", device, record.device.multiprocessors, name(record.problem));
}

std::string to_text(const TuningRecord& record) { return text_of(json_of(record)) + "\n"; }

Result<TuningRecord> parse_record(std::string_view text) { return parsed(text, record_of); }

std::string to_text(const std::vector<TuningRecord>& records) {
  std::string text = fmt::format("{{\"{}\": [", kRecords);
  for (std::size_t i = 0; i < records.size(); ++i)
    text += (i == 0 ? "\n" : ",\n") + text_of(json_of(records[i]));
  return text + "\n]}\n";
}

Result<std::vector<TuningRecord>> parse_records(std::string_view text) {
  return parsed(text, [](const Json& json) {
    std::vector<TuningRecord> records;
    if (!json.contains(kRecords)) {
      records.push_back(record_of(json));
    } else {
      for (const Json& record : json[kRecords]) records.push_back(record_of(record));
    }
    return records;
  });
}

}  // namespace jfa
