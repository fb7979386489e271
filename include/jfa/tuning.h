// Values of a kernel's knobs: what may be chosen of it without changing what it computes. docs/tuning.md
// lists the knobs.
#pragma once

#include <compare>
#include <functional>
#include <map>
#include <string>
#include <string_view>

#include "jfa/status.h"

namespace jfa {

/// Values by the names of knobs; a knob that is not named keeps its default.
struct Tuning {
  std::map<std::string, int, std::less<>> values;

  bool empty() const { return values.empty(); }
  auto operator<=>(const Tuning&) const = default;
};

/// Of "name=value,name=value"; kInvalidArgument naming the piece that is none. Empty text: no value.
Result<Tuning> parse_tuning(std::string_view text);
/// The same text again, names in order.
std::string to_string(const Tuning& tuning);

}  // namespace jfa
