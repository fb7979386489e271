// What the commands say of an option's values beside their type.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

#include "tools/number_text.h"

namespace jfa::tools {

/// The option takes whole numbers, each from `least` to `most`; to be used for every option of an integer.
template <std::integral Number>
CLI::Option* whole(CLI::Option* option, Number least = std::numeric_limits<Number>::min(),
                   Number most = std::numeric_limits<Number>::max()) {
  return option->check([=](const std::string& text) { return not_whole<Number>(text, least, most); });
}

/// ... finite numbers above `bound`; for every option of a floating-point number.
inline CLI::Option* finite(CLI::Option* option, double bound = -std::numeric_limits<double>::infinity()) {
  return option->check([=](const std::string& text) { return not_finite(text, bound); });
}

/// The option takes any number of values, with blanks or commas between them.
inline CLI::Option* list(CLI::Option* option) { return option->delimiter(','); }

}  // namespace jfa::tools
