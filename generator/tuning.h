// What may be chosen of a kernel beyond its specialisation: every knob has a name, a range and a default.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "generator/spec.h"
#include "jfa/tuning.h"

namespace jfa {

/// One knob of a target: one that all have (generator/plan/knobs.h) or one of its plan file.
struct Knob {
  /// Which specialisations have it. kOwnQuery, kSharedQuery: backwards without and with broadcast_q.
  enum class Scope { kForward, kBackward, kOwnQuery, kSharedQuery };
  /// A default that depends on the specialisation: as many as fit, or what suits the target.
  static constexpr int kByPlan = -1;

  Scope scope;
  std::string_view name;
  int least, most;  // legal values: least, least + step … most; whether one fits is for the plan to say
  int step;
  int usual;  // the default
  std::string_view what;
};

/// A knob with the value that a plan took for it.
struct ChosenKnob {
  Knob knob;
  int value = 0;
};

/// The values of a tuning for one specialisation.
class Choices {
 public:
  /// kInvalidArgument: a name that is no knob of this specialisation, a value outside the knob's range.
  static Result<Choices> make(std::span<const Knob> knobs, const KernelSpec& spec, const Tuning& tuning);

  /// The value, given or usual. by_plan: the default of a knob that leaves it to the plan. Notes what was
  /// taken.
  int take(std::string_view name, int by_plan = 0);
  /// All that were taken, in the order of the list.
  std::vector<ChosenKnob> chosen() const;
  /// The values among those given that differ from the defaults.
  Tuning unusual() const;

 private:
  struct Choice {
    Knob knob;
    bool given = false;
    bool taken = false;
    int value = 0;
    int usual = 0;  // resolved
  };
  std::vector<Choice> choices_;
};

/// A target's tuning without the values that concern other specialisations than this one.
Tuning relevant(const Tuning& tuning, const KernelSpec& spec);

}  // namespace jfa
