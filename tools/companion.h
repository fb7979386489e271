// Commands that are programs of their own: `jfa NAME …` becomes jfa-NAME, which lies beside jfa. They are for
// those who work on the library, and take long to build.
#pragma once

#include <string_view>

namespace jfa::tools {

struct Companion {
  std::string_view name;
  std::string_view summary;
};
inline constexpr Companion kCompanions[] = {
    {"bench", "Times attentions of given shapes on a device"},
    {"tune", "Finds the fastest kernels for given shapes"},
    {"conformance", "Holds a device against what this library assumes of it"},
};

/// The companion that a command line is for, `jfa NAME …` or `jfa help NAME`; empty if none is.
std::string_view companion_of(int argc, const char* const* argv);

/// Becomes jfa-`name` with the rest of the command line. Returns only if there is no such program: the exit
/// status, after a message.
int become_companion(std::string_view name, const char* const* argv);

}  // namespace jfa::tools
