#include "generator/tuning.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <stdexcept>

#include "generator/plan/family.h"

namespace jfa {
namespace {

bool concerns(const Knob& knob, const KernelSpec& spec) {
  switch (knob.scope) {
    case Knob::Scope::kForward:
      return spec.pass == Pass::forward;
    case Knob::Scope::kBackward:
      return spec.pass == Pass::backward;
    case Knob::Scope::kOwnQuery:
      return spec.pass == Pass::backward && !spec.broadcast_q;
    case Knob::Scope::kSharedQuery:
      return spec.pass == Pass::backward && spec.broadcast_q;
  }
  return false;
}

std::string range_of(const Knob& knob) {
  return knob.step == 1 ? fmt::format("from {} to {}", knob.least, knob.most)
                        : fmt::format("from {} to {} in steps of {}", knob.least, knob.most, knob.step);
}

}  // namespace

Result<Tuning> parse_tuning(std::string_view text) {
  Tuning tuning;
  while (!text.empty()) {
    const std::string_view piece = text.substr(0, text.find(','));
    text.remove_prefix(std::min(text.size(), piece.size() + 1));
    const std::size_t equals = piece.find('=');
    const std::string_view name = piece.substr(0, equals);
    const std::string_view digits = equals == piece.npos ? std::string_view() : piece.substr(equals + 1);
    int value = 0;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
    if (name.empty() || digits.empty() || error != std::errc() || end != digits.data() + digits.size())
      return Status::invalid_argument(
          fmt::format("tuning: '{}' is not name=value with a whole number", piece));
    if (!tuning.values.emplace(name, value).second)
      return Status::invalid_argument(fmt::format("tuning: '{}' is named twice", name));
  }
  return tuning;
}

std::string to_string(const Tuning& tuning) {
  std::string text;
  for (const auto& [name, value] : tuning.values)
    text += fmt::format("{}{}={}", text.empty() ? "" : ",", name, value);
  return text;
}

Result<Choices> Choices::make(std::span<const Knob> knobs, const KernelSpec& spec, const Tuning& tuning) {
  Choices choices;
  for (const Knob& knob : knobs)
    if (concerns(knob, spec)) choices.choices_.push_back({knob});
  for (const auto& [name, value] : tuning.values) {
    const auto choice =
        std::ranges::find(choices.choices_, name, [](const Choice& it) { return it.knob.name; });
    if (choice == choices.choices_.end()) {
      std::string known;
      for (const Choice& it : choices.choices_)
        known += fmt::format("{}{}", known.empty() ? "" : ", ", it.knob.name);
      return Status::invalid_argument(
          fmt::format("tuning: '{}' is no knob of {}; its knobs are {}", name, jfa::name(spec), known));
    }
    const Knob& knob = choice->knob;
    if (value < knob.least || value > knob.most || (value - knob.least) % knob.step != 0)
      return Status::invalid_argument(fmt::format("tuning: {}={} is not {}", name, value, range_of(knob)));
    choice->given = true;
    choice->value = value;
  }
  return choices;
}

int Choices::take(std::string_view name, int by_plan) {
  const auto found = std::ranges::find(choices_, name, [](const Choice& it) { return it.knob.name; });
  // A defect in a plan file, never the user's.
  if (found == choices_.end()) throw std::out_of_range("no knob is named " + std::string(name));
  Choice& choice = *found;
  choice.usual = choice.knob.usual == Knob::kByPlan ? by_plan : choice.knob.usual;
  if (!choice.given) choice.value = choice.usual;
  choice.taken = true;
  return choice.value;
}

std::vector<ChosenKnob> Choices::chosen() const {
  std::vector<ChosenKnob> chosen;
  for (const Choice& choice : choices_) {
    if (!choice.taken) continue;
    chosen.push_back({choice.knob, choice.value});
    chosen.back().knob.usual = choice.usual;
  }
  return chosen;
}

Tuning Choices::unusual() const {
  Tuning tuning;
  for (const Choice& choice : choices_)
    if (choice.taken && choice.value != choice.usual) tuning.values.emplace(choice.knob.name, choice.value);
  return tuning;
}

Tuning relevant(const Tuning& tuning, const KernelSpec& spec) {
  Tuning own;
  for (const auto& value : tuning.values) {
    bool known = false, concerned = false;
    for (const Knob& knob : row_of(spec.target).family->knobs) {
      known |= knob.name == value.first;
      concerned |= knob.name == value.first && concerns(knob, spec);
    }
    if (concerned || !known) own.values.insert(value);  // plan() refuses what nobody knows
  }
  return own;
}

}  // namespace jfa
