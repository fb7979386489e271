// JSON from files: nothing is taken silently that can be read in two ways, and any text is safe input.
#pragma once

#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

#include "jfa/status.h"

namespace jfa::tools {

struct JsonRules {
  int max_depth = 64;  // of arrays and objects within each other
  bool comments = false;
};

/// Errors: kInvalidArgument beginning with `where`, for what is not JSON (line and column), an object that
/// names a key twice, and what nests deeper than allowed.
Result<nlohmann::json> parse_json(std::string_view where, std::string_view text, const JsonRules& rules = {});

/// The same of an object, whose members are handed over one by one and not kept; time and memory are linear
/// in the text but for the names, which are sorted. Stops at the first error of `member`. Also refuses what
/// is no object.
Status parse_json_members(
    std::string_view where, std::string_view text, const JsonRules& rules,
    const std::function<Status(const std::string& name, const nlohmann::json& value)>& member);

/// Foreign text on its way into a message of one line: cut, and without control characters.
std::string shown(std::string_view text, std::size_t limit = 60);
std::string shown_json(const nlohmann::json& value);

}  // namespace jfa::tools
