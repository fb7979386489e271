#include "simulator/driver/options.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <optional>
#include <set>
#include <string_view>

#include "base/foreign_text.h"
#include "simulator/machine/habits.h"

namespace jfa::simulator {
namespace {

constexpr int kMaxSms = 1024;
constexpr std::string_view kTargets[] = {"sm_100a", "sm_100f", "sm_90a"};

// The checkers, or a rule of PTX; null if the option is none of these.
bool RunOptions::*find_switch(std::string_view name) {
  if (name == "checks") return &RunOptions::checks;
  for (const PtxRule& rule : ptx_rules())
    if (rule.name == name) return rule.member;
  return nullptr;
}

std::string rule_names() {
  std::string names;
  for (const PtxRule& rule : ptx_rules()) names += fmt::format(", {}", rule.name);
  return names;
}

std::optional<std::uint64_t> parse_number(std::string_view text) {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (text.empty() || error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

Status parse_option(std::string_view key, std::string_view text, DeviceOptions& options) {
  RunOptions& run = options.run;
  const auto refuse = [&](std::string_view rule) {
    return Status::invalid_argument(
        fmt::format("simulated device: option {}={}: {}", shown(key), shown(text), rule));
  };
  const std::optional<std::uint64_t> number = parse_number(text);
  if (bool RunOptions::*const member = find_switch(key)) {
    if (!number || *number > 1) return refuse("must be 0 or 1");
    run.*member = *number == 1;
  } else if (key == "habits") {
    if (!take_habits(text, run)) return refuse(fmt::format("must be one of {}", habit_names()));
  } else if (key == "timing") {
    if (!number || *number > 1) return refuse("must be 0 or 1");
    options.timing = *number == 1;
  } else if (key == "sms") {
    if (!number || *number < 1 || *number > kMaxSms) return refuse("must be a number from 1 to 1024");
    run.sms = static_cast<int>(*number);
  } else if (key == "schedule") {
    const std::optional<Schedule> schedule = parse_schedule(text);
    if (!schedule) return refuse(fmt::format("must be one of {}", schedule_names()));
    run.schedule = *schedule;
  } else if (key == "seed") {
    if (!number) return refuse("must be a number");
    run.seed = *number;
  } else if (key == "choices") {
    const std::optional<std::vector<Choice>> choices = parse_choices(text);
    if (!choices) return refuse("must be positions, which increase, and values, as in 12:3,40:1");
    run.choices = *choices;
  } else if (key == "dynamic_alignment") {
    if (!number || *number < 16 || *number > 1024 || (*number & (*number - 1)) != 0)
      return refuse("must be a power of two from 16 to 1024");
    run.dynamic_shared_alignment = static_cast<std::uint32_t>(*number);
  } else {
    return refuse(fmt::format(
        "unknown; known are sms, timing, schedule, seed, choices, checks, habits, dynamic_alignment{}",
        rule_names()));
  }
  return {};
}

}  // namespace

Result<DeviceOptions> parse_device_name(const std::string& name) {
  constexpr std::string_view kPrefix = "sim:";
  std::string_view rest = name;
  if (!rest.starts_with(kPrefix)) {
    return Status::invalid_argument(
        fmt::format("simulated device '{}': the name must start with sim:", shown(name)));
  }
  rest.remove_prefix(kPrefix.size());
  const std::size_t question = rest.find('?');
  DeviceOptions options;
  options.name = name;
  options.target_name = rest.substr(0, question);
  const bool known =
      std::find(std::begin(kTargets), std::end(kTargets), options.target_name) != std::end(kTargets);
  if (!known) {
    return Status::invalid_argument(fmt::format("simulated device: unknown target '{}'; known are {}",
                                                shown(options.target_name), fmt::join(kTargets, ", ")));
  }
  options.target = *parse_target(options.target_name);
  if (question == std::string_view::npos) return options;
  rest.remove_prefix(question + 1);
  std::set<std::string_view> seen;
  while (true) {
    const std::size_t end = rest.find('&');
    const std::string_view option = rest.substr(0, end);
    const std::size_t equals = option.find('=');
    if (equals == std::string_view::npos) {
      return Status::invalid_argument(
          fmt::format("simulated device: '{}' is not of the form option=value", shown(option)));
    }
    const std::string_view key = option.substr(0, equals);
    if (!seen.insert(key).second)
      return Status::invalid_argument(fmt::format("simulated device: option {} is given twice", shown(key)));
    Status status = parse_option(key, option.substr(equals + 1), options);
    if (!status.ok()) return status;
    if (end == std::string_view::npos) break;
    rest.remove_prefix(end + 1);
  }
  if (options.timing && options.run.schedule != Schedule::kEager)
    return Status::invalid_argument("simulated device: option timing=1 needs schedule=eager");
  // The model plays what all of the device's SMs have done, and knows at most a pair.
  if (options.timing && options.run.sms > 2)
    return Status::invalid_argument(
        fmt::format("simulated device: option timing=1 needs sms=1 or sms=2, not {}", options.run.sms));
  return options;
}

}  // namespace jfa::simulator
