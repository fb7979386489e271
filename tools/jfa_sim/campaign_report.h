// A mutation campaign in words.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "tools/jfa_sim/mutation_campaign.h"

namespace jfa::sim {

/// A row for each operation and change: how many mutants, killed by what, on every schedule, surviving. As a
/// Markdown table, which also reads well on a terminal.
std::string kill_table(const CampaignResult& result);

/// The mutants that went unnoticed on every schedule: PTX statement, lines of `source` (may be empty) that it
/// came from, outermost first. Empty if there is none.
std::string survivors(const CampaignResult& result, const std::string& source);

/// Sites that no run comes to, so that nothing can be said of them. Empty if there is none.
std::string unreached(const CampaignResult& result, const std::string& source);

nlohmann::ordered_json to_json(const CampaignResult& result);

}  // namespace jfa::sim
