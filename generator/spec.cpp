#include "generator/spec.h"

#include <fmt/format.h>

#include <array>
#include <charconv>

#include "generator/foreign_text.h"

namespace jfa {
namespace {

struct TargetRow {
  Target target;
  Target virtual_target;
  std::string_view name;
};
constexpr std::array<TargetRow, 8> kTargets{{
    {Target::sm_100f, Target::compute_100f, "sm_100f"},
    {Target::sm_100a, Target::compute_100a, "sm_100a"},
    {Target::sm_103a, Target::compute_103a, "sm_103a"},
    {Target::sm_90a, Target::compute_90a, "sm_90a"},
    {Target::compute_100f, Target::compute_100f, "compute_100f"},
    {Target::compute_100a, Target::compute_100a, "compute_100a"},
    {Target::compute_103a, Target::compute_103a, "compute_103a"},
    {Target::compute_90a, Target::compute_90a, "compute_90a"},
}};

constexpr std::array<int, 5> kPaddedDims{16, 32, 64, 96, 128};

// Sequences are shorter than 2^30 rows, so a wider window hides no pair.
constexpr std::int64_t kWidestWindow = (std::int64_t{1} << 30) - 1;
// A head index is computed in 32 bits; no model comes near.
constexpr std::int64_t kMostGroups = 65536;

}  // namespace

std::string_view to_string(Target target) {
  for (const TargetRow& row : kTargets)
    if (row.target == target) return row.name;
  return "?";
}

std::vector<Target> all_targets() {
  std::vector<Target> targets;
  for (const TargetRow& row : kTargets) targets.push_back(row.target);
  return targets;
}

Result<Target> parse_target(std::string_view name) {
  std::string known;
  for (const TargetRow& row : kTargets) {
    if (row.name == name) return row.target;
    known += known.empty() ? std::string(row.name) : fmt::format(", {}", row.name);
  }
  return Status::invalid_argument(fmt::format("target '{}' is not one of {}", shown(name), known));
}

Result<Target> target_for_device(int major, int minor) {
  if (major == 10 && (minor == 0 || minor == 3)) return Target::sm_100f;
  if (major == 9 && minor == 0) return Target::sm_90a;
  return Status::unsupported(fmt::format(
      "compute capability {}.{} is not supported; kernels exist for 9.0, 10.0 and 10.3", major, minor));
}

bool is_virtual(Target target) { return virtual_target(target) == target; }

Target virtual_target(Target target) {
  for (const TargetRow& row : kTargets)
    if (row.target == target) return row.virtual_target;
  return target;
}

bool is_hopper(Target target) { return virtual_target(target) == Target::compute_90a; }

Result<KernelSpec> specialize(const Configuration& configuration) {
  KernelSpec spec;
  spec.pass = configuration.pass;
  spec.dtype = configuration.dtype;
  const std::int64_t head_dim = configuration.head_dim;
  if (head_dim < 8 || head_dim % 8 != 0 || head_dim > kPaddedDims.back()) {
    return Status::invalid_argument(
        fmt::format("head_dim {} is not a multiple of 8 between 8 and {}", head_dim, kPaddedDims.back()));
  }
  for (int padded : kPaddedDims) {
    if (padded >= head_dim) {
      spec.padded_dim = padded;
      break;
    }
  }
  if (configuration.window) {
    if (*configuration.window < 0) {
      return Status::invalid_argument(
          fmt::format("window {} is negative; leave it out for no window", *configuration.window));
    }
    if (*configuration.window <= kWidestWindow)
      spec.window = static_cast<std::int32_t>(*configuration.window);
  }
  spec.broadcast_q = configuration.broadcast_q;
  if (configuration.groups < 1 || configuration.groups > kMostGroups) {
    return Status::invalid_argument(
        fmt::format("groups {} is not between 1 and {}", configuration.groups, kMostGroups));
  }
  spec.groups = static_cast<int>(configuration.groups);
  Result<Target> target = parse_target(configuration.target);
  if (!target) return target.status();
  spec.target = *target;
  return spec;
}

Configuration configuration_of(const AttentionCall& call, std::string_view target) {
  Configuration configuration;
  configuration.dtype = call.query.dtype;
  configuration.head_dim = call.query.head_dim;
  configuration.window = call.window;
  configuration.broadcast_q = call.broadcast_q;
  configuration.groups = call.key.heads > 0 ? call.query.heads / call.key.heads : 0;
  configuration.target = std::string(target);
  return configuration;
}

std::string name(const KernelSpec& spec) {
  std::string text = fmt::format("{}-{}-d{}", spec.pass == Pass::forward ? "forward" : "backward",
                                 spec.dtype == DType::bf16 ? "bf16" : "fp16", spec.padded_dim);
  if (spec.window) text += fmt::format("-w{}", *spec.window);
  if (spec.broadcast_q) text += "-pma";
  if (spec.groups != 1) text += fmt::format("-g{}", spec.groups);
  return text + fmt::format("-{}", to_string(spec.target));
}

std::optional<KernelSpec> spec_named(std::string_view text) {
  KernelSpec spec;
  std::string_view rest = text;
  for (bool first = true; !rest.empty(); first = false) {
    const std::string_view word = rest.substr(0, rest.find('-'));
    rest.remove_prefix(std::min(word.size() + 1, rest.size()));
    const auto number = [&](auto* value) {
      return std::from_chars(word.data() + 1, word.data() + word.size(), *value).ec == std::errc();
    };
    std::int32_t window = 0;
    if (first) {
      spec.pass = word == "backward" ? Pass::backward : Pass::forward;
    } else if (word == "fp16") {
      spec.dtype = DType::fp16;
    } else if (word == "pma") {
      spec.broadcast_q = true;
    } else if (word.starts_with('w') && number(&window)) {
      spec.window = window;
    } else if (const Result<Target> target = parse_target(word)) {
      spec.target = *target;
    } else if (!(word.starts_with('d') && number(&spec.padded_dim)) && word.starts_with('g')) {
      (void)number(&spec.groups);
    }
  }
  // Whatever was not understood makes another name.
  return name(spec) == text ? std::optional(spec) : std::nullopt;
}

}  // namespace jfa
