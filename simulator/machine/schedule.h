// Schedules: which of the orders that PTX allows a run takes, and how one is written down.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace jfa::simulator {

enum class Schedule : std::uint8_t {
  kEager,    // asynchronous operations finish at the instruction that starts them
  kLazy,     // … and move only when no warp can go on, oldest first
  kRandom,   // warps and operations take turns by a seed
  kReverse,  // the last warp goes first, and the newest operation
  kStarve,   // one warp of each CTA, or one engine, moves only when nothing else can; the seed says which
  kLate,     // operations read their source as late as they may, then write at once
  kReplay,   // choices as they were recorded, or given
};

/// "eager", "lazy", "random", "reverse", "starve", "late", "replay".
const char* to_string(Schedule schedule);
std::optional<Schedule> parse_schedule(std::string_view name);
/// All names, joined by ", ".
std::string schedule_names();

/// One decision of a run that was not the default: to go on with the warp that ran last, then with the next
/// one, and to let operations move only when no warp can.
struct Choice {
  std::uint64_t position = 0;  // among the run's decisions, from 0
  std::uint32_t value = 0;     // which of the others, from 1
  bool operator==(const Choice&) const = default;
};

/// "12:3,40:1": positions, which increase, and values. Empty for none.
std::string to_string(const std::vector<Choice>& choices);
std::optional<std::vector<Choice>> parse_choices(std::string_view text);

}  // namespace jfa::simulator
