#include "tools/jfa_sim/campaign_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

namespace jfa::sim {
namespace {

using Json = nlohmann::ordered_json;
using simulator::Mutant;
using simulator::SyncSite;

struct Tally {
  std::size_t mutants = 0, killed = 0, everywhere = 0;
  std::size_t reported = 0, hung = 0, differs = 0;  // how the killed first died, in the order of schedules

  void add(const MutantResult& result) {
    ++mutants;
    everywhere += result.killed_everywhere() ? 1 : 0;
    const auto death = std::find_if(result.outcomes.begin(), result.outcomes.end(),
                                    [](const Outcome& outcome) { return outcome.killed(); });
    if (death == result.outcomes.end()) return;
    ++killed;
    reported += death->kind == Outcome::Kind::kReported || death->kind == Outcome::Kind::kRefused ? 1 : 0;
    hung += death->kind == Outcome::Kind::kHung ? 1 : 0;
    differs += death->kind == Outcome::Kind::kDiffers ? 1 : 0;
  }
};

using Row = std::pair<std::pair<std::string, std::string>, Tally>;

std::vector<Row> tallies(const CampaignResult& result) {
  std::vector<Row> rows;
  for (const MutantResult& one : result.results) {
    const Mutant& mutant = result.mutations.mutants[one.mutant];
    const std::pair key{result.mutations.sites[mutant.site].operation, mutant.change};
    auto row = std::find_if(rows.begin(), rows.end(), [&](const Row& it) { return it.first == key; });
    if (row == rows.end()) row = rows.insert(rows.end(), {key, {}});
    row->second.add(one);
  }
  std::stable_sort(rows.begin(), rows.end(),
                   [](const Row& a, const Row& b) { return a.first.first < b.first.first; });
  return rows;
}

std::string line_of(const std::string& source, int line) {
  std::size_t from = 0;
  for (; line > 1 && from != std::string::npos; --line) {
    from = source.find('\n', from);
    if (from != std::string::npos) ++from;
  }
  if (from == std::string::npos) return {};
  const std::string text = source.substr(from, source.find('\n', from) - from);
  const std::size_t first = text.find_first_not_of(" \t");
  return first == std::string::npos ? std::string() : text.substr(first);
}

std::string place(const SyncSite& site, const std::string& source) {
  std::string text = fmt::format("{}, PTX line {}: `{}`\n", site.entry, site.ptx_line, site.text);
  for (auto it = site.source.rbegin(); it != site.source.rend(); ++it) {
    const std::string code = line_of(source, it->line);
    text +=
        code.empty() ? fmt::format("    line {}\n", it->line) : fmt::format("    {}: {}\n", it->line, code);
  }
  return text;
}

const char* name(Outcome::Kind kind) {
  switch (kind) {
    case Outcome::Kind::kUnnoticed:
      return "unnoticed";
    case Outcome::Kind::kReported:
      return "reported";
    case Outcome::Kind::kHung:
      return "hung";
    case Outcome::Kind::kDiffers:
      return "differs";
    case Outcome::Kind::kRefused:
      return "refused";
  }
  return "?";
}

// Of the entries whose mutants were asked for.
std::vector<const SyncSite*> unreached_sites(const CampaignResult& result) {
  std::vector<const SyncSite*> sites;
  for (std::size_t i = 0; i < result.reached.size(); ++i) {
    const SyncSite& site = result.mutations.sites[i];
    if (!result.reached[i] && (result.entry.empty() || site.entry == result.entry)) sites.push_back(&site);
  }
  return sites;
}

}  // namespace

std::string kill_table(const CampaignResult& result) {
  constexpr const char* kRow = "| {:<26} | {:<15} | {:>7} | {:>8} | {:>4} | {:>7} | {:>14} | {:>8} |\n";
  std::string text = fmt::format(kRow, "operation", "change", "mutants", "reported", "hung", "differs",
                                 "every schedule", "survived");
  text += fmt::format("|{:-<28}|{:-<17}|{:->9}|{:->10}|{:->6}|{:->9}|{:->16}|{:->10}|\n", "", "", ":", ":",
                      ":", ":", ":", ":");
  const auto add = [&](const std::string& operation, const std::string& change, const Tally& t) {
    text += fmt::format(kRow, operation, change, t.mutants, t.reported, t.hung, t.differs, t.everywhere,
                        t.mutants - t.killed);
  };
  Tally all;
  for (const auto& [key, tally] : tallies(result)) add(key.first, key.second, tally);
  for (const MutantResult& one : result.results) all.add(one);
  add("all", "", all);
  return text;
}

std::string survivors(const CampaignResult& result, const std::string& source) {
  std::string text;
  for (const MutantResult& one : result.results) {
    if (one.killed()) continue;
    const Mutant& mutant = result.mutations.mutants[one.mutant];
    const SyncSite& site = result.mutations.sites[mutant.site];
    text += fmt::format("{}, {}: {}", site.operation, mutant.change, place(site, source));
  }
  return text;
}

std::string unreached(const CampaignResult& result, const std::string& source) {
  std::string text;
  for (const SyncSite* site : unreached_sites(result))
    text += fmt::format("{}: {}", site->operation, place(*site, source));
  return text;
}

Json to_json(const CampaignResult& result) {
  Json schedules = Json::array();
  for (const auto& schedule : result.schedules) schedules.push_back(describe(schedule));
  const auto site_json = [](const SyncSite& site) {
    Json lines = Json::array();
    for (const auto& place : site.source) lines.push_back(place.line);
    return Json{{"entry", site.entry},
                {"operation", site.operation},
                {"ptx_line", site.ptx_line},
                {"source_lines", lines},
                {"statement", site.text}};
  };
  Json mutants = Json::array();
  for (const MutantResult& one : result.results) {
    const Mutant& mutant = result.mutations.mutants[one.mutant];
    Json json = site_json(result.mutations.sites[mutant.site]);
    json["change"] = mutant.change;
    json["replacement"] = mutant.replacement;
    json["killed"] = one.killed();
    json["killed_everywhere"] = one.killed_everywhere();
    json["outcomes"] = Json::array();
    for (const Outcome& outcome : one.outcomes)
      json["outcomes"].push_back({{"kind", name(outcome.kind)}, {"why", outcome.why}});
    mutants.push_back(std::move(json));
  }
  Json unreached = Json::array();
  for (const SyncSite* site : unreached_sites(result)) unreached.push_back(site_json(*site));
  return {{"schedules", schedules},
          {"compared_buffers", result.compared},
          {"mutants", mutants},
          {"unreached", unreached}};
}

}  // namespace jfa::sim
