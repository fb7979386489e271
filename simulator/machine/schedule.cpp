#include "simulator/machine/schedule.h"

#include <fmt/format.h>

#include <charconv>

namespace jfa::simulator {
namespace {

constexpr Schedule kSchedules[] = {Schedule::kEager,  Schedule::kLazy, Schedule::kRandom, Schedule::kReverse,
                                   Schedule::kStarve, Schedule::kLate, Schedule::kReplay};

template <class T>
bool parse_number(std::string_view text, T& value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return !text.empty() && error == std::errc() && end == text.data() + text.size();
}

}  // namespace

const char* to_string(Schedule schedule) {
  switch (schedule) {
    case Schedule::kEager:
      return "eager";
    case Schedule::kLazy:
      return "lazy";
    case Schedule::kRandom:
      return "random";
    case Schedule::kReverse:
      return "reverse";
    case Schedule::kStarve:
      return "starve";
    case Schedule::kLate:
      return "late";
    case Schedule::kReplay:
      return "replay";
  }
  return "?";
}

std::optional<Schedule> parse_schedule(std::string_view name) {
  for (const Schedule schedule : kSchedules)
    if (name == to_string(schedule)) return schedule;
  return std::nullopt;
}

std::string schedule_names() {
  std::string names;
  for (const Schedule schedule : kSchedules)
    names += fmt::format("{}{}", names.empty() ? "" : ", ", to_string(schedule));
  return names;
}

std::string to_string(const std::vector<Choice>& choices) {
  std::string text;
  for (const Choice& choice : choices)
    text += fmt::format("{}{}:{}", text.empty() ? "" : ",", choice.position, choice.value);
  return text;
}

std::optional<std::vector<Choice>> parse_choices(std::string_view text) {
  std::vector<Choice> choices;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find(','), text.size());
    const std::string_view one = text.substr(0, end);
    const std::size_t colon = one.find(':');
    Choice choice;
    if (colon == std::string_view::npos || !parse_number(one.substr(0, colon), choice.position) ||
        !parse_number(one.substr(colon + 1), choice.value) || choice.value == 0)
      return std::nullopt;
    if (!choices.empty() && choice.position <= choices.back().position) return std::nullopt;
    choices.push_back(choice);
    if (end == text.size()) break;
    text.remove_prefix(end + 1);
    if (text.empty()) return std::nullopt;
  }
  return choices;
}

}  // namespace jfa::simulator
