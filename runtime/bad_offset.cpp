#include "runtime/bad_offset.h"

#include <fmt/format.h>

#include <iterator>

#include "templates/attention/parameters.h"

namespace jfa {
namespace {

struct Rule {
  const char* name;
  const char* text;
};

constexpr const char* kInputRule = "offsets never decrease, from 0 or more up to their tensor's rows";
constexpr Rule kRules[] = {
    {"", ""},
    {"query_offset", kInputRule},
    {"key_offset", kInputRule},
    {"output_offset",
     "each lies behind the output rows of the sequence before it, and none beyond the output's rows"}};
static_assert(std::size(kRules) == kernel::kOutputOffset + 1);

}  // namespace

bool is_offset_name(int name) { return name >= 0 && name < static_cast<int>(std::size(kRules)); }

Status describe(const BadOffset& bad, std::string_view finder) {
  if (bad.name == kernel::kNoOffset) return {};
  const Rule& rule = kRules[bad.name];
  return Status::invalid_argument(fmt::format("{}[{}] is {}: {}{}{}", rule.name, bad.index, bad.value,
                                              rule.text, finder.empty() ? "" : "; found by ", finder));
}

}  // namespace jfa
