// The table of all environment variables that are read: for `jfa doctor`, and for the pages that tests
// compare with it.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace jfa {

struct Variable {
  std::string_view name;
  std::string_view values;  // that are allowed
  std::string_view default_value;
  std::string_view meaning;
};

std::span<const Variable> variables();

/// Whether a variable called so is meant for us: it begins with "JFA_" in any case.
bool looks_like_ours(std::string_view name);

/// For a name that looks like ours: empty if it is in the table, else "JFA_X is not a variable of jfa", with
/// the one that was probably meant, if there is one.
std::string complaint_about(std::string_view name);

}  // namespace jfa
