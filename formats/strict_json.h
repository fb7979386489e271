// JSON from files: nothing is taken silently that can be read in two ways, and any text is safe input.
#pragma once

#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace jfa::tools {

struct JsonRules {
  int max_depth = 64;  // of arrays and objects within each other
  bool comments = false;
};

/// Errors: kInvalidArgument beginning with `where`, with line and column, for what is not JSON, an object
/// that names a key twice, and what nests deeper than allowed.
Result<nlohmann::json> parse_json(std::string_view where, std::string_view text, const JsonRules& rules = {});

/// The same of an object, whose members are handed over one by one and not kept; time and memory are linear
/// in the text but for the names, which are sorted. Stops at the first error of `member`. Also refuses what
/// is no object.
Status parse_json_members(
    std::string_view where, std::string_view text, const JsonRules& rules,
    const std::function<Status(const std::string& name, const nlohmann::json& value)>& member);

/// "<where>: line 3, column 12": where a value is that text which parse_json() takes has at a path of names
/// and of indices, such as {"shapes", "2", "heads"}; a member of an object begins at its name.
std::string json_place(std::string_view where, std::string_view text, const JsonRules& rules,
                       const std::vector<std::string>& path);

/// Foreign text on its way into a message of one line: cut, and without control characters.
std::string shown(std::string_view text, std::size_t limit = 60);
std::string shown_json(const nlohmann::json& value);

}  // namespace jfa::tools
