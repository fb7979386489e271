#include "tools/tune_job.h"

#include <nlohmann/json.hpp>

namespace jfa::tools {
namespace {

using Json = nlohmann::json;

constexpr std::string_view kEventPrefix = "@";

std::string dumped(const Json& json) { return json.dump(-1, ' ', false, Json::error_handler_t::replace); }

}  // namespace

std::string to_text(const TuneJob& job) {
  Json json{{"kind", static_cast<int>(job.kind)},
            {"device", job.device},
            {"pass", static_cast<int>(job.pass)},
            {"shapes_file", job.shapes_file},
            {"shapes", job.shapes},
            {"line_info", job.line_info},
            {"rank", job.rank},
            {"first_round", job.first_round},
            {"rounds", job.rounds},
            {"check_s", job.check_s},
            {"total_s", job.total_s},
            {"sabotage_tuning", job.sabotage_tuning},
            {"sabotage", job.sabotage},
            {"items", Json::array()}};
  for (const TuneJob::Item& item : job.items)
    json["items"].push_back(Json{{"index", item.index},
                                 {"tuning", to_string(item.tuning)},
                                 {"spec", item.spec},
                                 {"checked", item.checked}});
  return dumped(json);
}

Result<TuneJob> parse_job(const std::string& text) {
  try {
    const Json json = Json::parse(text);
    TuneJob job;
    job.kind = static_cast<TuneJob::Kind>(json.at("kind").get<int>());
    job.device = json.at("device").get<std::string>();
    job.pass = static_cast<Pass>(json.at("pass").get<int>());
    job.shapes_file = json.at("shapes_file").get<std::string>();
    job.shapes = json.at("shapes").get<std::vector<std::string>>();
    job.line_info = json.at("line_info").get<bool>();
    job.rank = json.at("rank").get<bool>();
    job.first_round = json.at("first_round").get<std::size_t>();
    job.rounds = json.at("rounds").get<std::size_t>();
    job.check_s = json.at("check_s").get<double>();
    job.total_s = json.at("total_s").get<double>();
    job.sabotage_tuning = json.at("sabotage_tuning").get<std::string>();
    job.sabotage = json.at("sabotage").get<std::string>();
    for (const Json& item : json.at("items")) {
      Result<Tuning> tuning = parse_tuning(item.at("tuning").get<std::string>());
      if (!tuning) return tuning.status();
      job.items.push_back({item.at("index").get<std::size_t>(), *std::move(tuning),
                           item.at("spec").get<std::string>(), item.at("checked").get<bool>()});
    }
    return job;
  } catch (const Json::exception& error) {
    return Status::invalid_argument(std::string("not a job of a sweep: ") + error.what());
  }
}

std::string to_line(const TuneEvent& event) {
  Json json{{"kind", static_cast<int>(event.kind)},
            {"item", event.item},
            {"reason", event.reason},
            {"refused", event.refused},
            {"shape", event.shape},
            {"round", event.round},
            {"ms", event.ms}};
  if (event.same_bits) json["same_bits"] = *event.same_bits;
  return std::string(kEventPrefix) + dumped(json) + "\n";
}

std::optional<TuneEvent> parse_event(const std::string& line) {
  if (!line.starts_with(kEventPrefix)) return std::nullopt;
  try {
    const Json json = Json::parse(line.substr(kEventPrefix.size()));
    TuneEvent event;
    event.kind = static_cast<TuneEvent::Kind>(json.at("kind").get<int>());
    event.item = json.at("item").get<std::size_t>();
    event.reason = json.at("reason").get<std::string>();
    event.refused = json.at("refused").get<bool>();
    event.shape = json.at("shape").get<std::size_t>();
    event.round = json.at("round").get<std::size_t>();
    event.ms = json.at("ms").get<double>();
    if (json.contains("same_bits")) event.same_bits = json["same_bits"].get<bool>();
    return event;
  } catch (const Json::exception&) {
    return std::nullopt;
  }
}

}  // namespace jfa::tools
