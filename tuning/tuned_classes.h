// The part of a database that concerns one device: which tuning serves a call.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "tuning/record.h"

namespace jfa {

/// Where a call's tuning comes from.
struct TunedChoice {
  Tuning tuning;     // empty: the defaults
  std::string name;  // of the record that it is from; empty: none is near enough
  std::string why;   // in words
};

/// Does not change once it is made; the same records give the same choices, whatever their order.
class TunedClasses {
 public:
  /// The records of that device and target. Incomplete ones, and those of a simulated device, have winners
  /// like others: the defaults, unless somebody has written others there.
  TunedClasses(const std::vector<TuningRecord>& records, const TunedDevice& device, Target target);

  bool empty() const { return classes_.empty(); }
  /// The winner of the nearest class of the same specialisation; of equally near ones the first by size.
  TunedChoice choose(const ProblemClass& problem) const;
  /// Every winner of a specialisation once, the defaults included.
  std::vector<Tuning> tunings(const KernelSpec& spec) const;

 private:
  struct Winner {
    Tuning tuning;
    double ratio = 1;
    std::string name;
  };
  std::map<KernelSpec, std::map<SizeClass, Winner>> classes_;
};

}  // namespace jfa
