// What NVRTC and ptxas say, as data. Pure text work.
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "cache/image.h"

namespace jfa {

/// The facts of every entry, from the log of `--ptxas-options=-v`.
std::map<std::string, EntryFacts> parse_facts(std::string_view log);

/// The first line that reports an error, without leading blanks; the first line if none does.
std::string first_error(std::string_view log);

/// The text with line numbers, as the compiler counts them.
std::string numbered(std::string_view source);

}  // namespace jfa
