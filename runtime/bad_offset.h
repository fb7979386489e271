// What is said of a bad offset.
#pragma once

#include <cstdint>
#include <string_view>

#include "jfa/status.h"

namespace jfa {

/// As a prepare entry found it.
struct BadOffset {
  int name = 0;  // kernel::OffsetName
  std::int64_t index = 0;
  std::int64_t value = 0;

  bool operator==(const BadOffset&) const = default;
};

/// Whether `name` is one that a prepare entry writes; kernel::kNoOffset is.
bool is_offset_name(int name);

/// kOk for kernel::kNoOffset, else kInvalidArgument with name, index, value and the rule that it breaks.
/// finder: what found it, if that was not the call that is answered.
Status describe(const BadOffset& bad, std::string_view finder = {});

}  // namespace jfa
