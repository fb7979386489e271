// Which tunings a sweep tries: what a configs file says of the knobs, for one specialisation.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "generator/plan.h"
#include "tuning/record.h"

namespace jfa::tools {

/// What is tried of a specialisation. Candidates are what plan() calls unusual of them, so no two are the
/// same kernel; the defaults, which are empty, come first.
struct Candidates {
  std::vector<Tuning> tunings;
  std::vector<LeftOut> left_out;  // that plan() refuses
};

/// A JSON list of entries. An entry is an object of knobs, each with a value, a list of values, or "all" (a
/// wide range: powers of two): every combination is tried. "each": {…} in place of knobs: every value alone.
/// "pass", "broadcast_q", "target": only for such specialisations.
class TuneConfigs {
 public:
  /// Every knob's values alone: what is swept without a file.
  static TuneConfigs every_knob();
  /// Errors name file, line and entry.
  static Result<TuneConfigs> parse(std::string_view file, std::string_view text);

  /// kInvalidArgument: more than kMostCandidates.
  Result<Candidates> candidates(const KernelSpec& spec) const;

  static constexpr std::size_t kMostCandidates = 10'000;

 private:
  using Values = std::vector<int>;  // empty: all
  struct Entry {
    std::vector<std::string> pass;
    std::vector<bool> broadcast_q;
    std::vector<std::string> target;  // folders of families: sm90
    std::map<std::string, Values> product, each;
    std::string where;
  };
  static bool is_for(const Entry& entry, const KernelSpec& spec);
  std::vector<Entry> entries_;
};

}  // namespace jfa::tools
