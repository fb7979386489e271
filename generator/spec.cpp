#include "generator/spec.h"

#include <fmt/format.h>

#include <array>
#include <charconv>

#include "generator/dtype.h"

namespace jfa {
namespace {

constexpr std::array<int, 5> kPaddedDims{16, 32, 64, 96, 128};

constexpr std::string_view kBottomRightName = "br";

// "-w64" for both sides, "-l128-r0" for one and the other; nothing for an unbounded one.
std::string short_name(const Visibility& visibility) {
  std::string text;
  if (visibility.left && visibility.left == visibility.right) {
    text = fmt::format("-w{}", *visibility.left);
  } else {
    if (visibility.left) text += fmt::format("-l{}", *visibility.left);
    if (visibility.right) text += fmt::format("-r{}", *visibility.right);
  }
  if (visibility.alignment == Alignment::bottom_right) text += fmt::format("-{}", kBottomRightName);
  return text;
}

// A head index is computed in 32 bits; no model comes near.
constexpr std::int64_t kMostGroups = 65536;

}  // namespace

Result<KernelSpec> specialize(const Configuration& configuration) {
  const Result<Target> target = parse_target(configuration.target);
  return target ? specialize(configuration, *target) : target.status();
}

Result<KernelSpec> specialize(const Configuration& configuration, Target target) {
  KernelSpec spec;
  spec.pass = configuration.pass;
  spec.dtype = configuration.dtype;
  spec.target = target;
  if (row_of(spec.dtype).name.empty())
    return Status::invalid_argument(fmt::format("dtype {} is no element type", static_cast<int>(spec.dtype)));
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
  const Result<Visibility> visibility = visibility_of(configuration.window);
  if (!visibility) return visibility.status();
  spec.visibility = *visibility;
  spec.broadcast_q = configuration.broadcast_q;
  if (spec.broadcast_q && spec.visibility.alignment == Alignment::bottom_right) {
    return Status::unsupported(
        fmt::format("window '{}' with broadcast_q: a shared query is aligned top_left only",
                    window_text(spec.visibility)));
  }
  if (configuration.groups < 1 || configuration.groups > kMostGroups) {
    return Status::invalid_argument(
        fmt::format("groups {} is not between 1 and {}", configuration.groups, kMostGroups));
  }
  spec.groups = static_cast<int>(configuration.groups);
  return spec;
}

Configuration configuration_of(const AttentionCall& call) {
  Configuration configuration;
  configuration.dtype = call.query.dtype;
  configuration.head_dim = call.query.head_dim;
  configuration.window = call.window;
  configuration.broadcast_q = call.broadcast_q;
  configuration.groups = call.key.heads > 0 ? call.query.heads / call.key.heads : 0;
  return configuration;
}

std::string name(const KernelSpec& spec) {
  std::string text = fmt::format("{}-{}-d{}", spec.pass == Pass::forward ? "forward" : "backward",
                                 row_of(spec.dtype).name, spec.padded_dim);
  text += short_name(spec.visibility);
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
    std::int32_t side = 0;
    Visibility& visibility = spec.visibility;
    if (first) {
      spec.pass = word == "backward" ? Pass::backward : Pass::forward;
    } else if (const DTypeRow* row = find_dtype(word)) {
      spec.dtype = row->dtype;
    } else if (word == "pma") {
      spec.broadcast_q = true;
    } else if (word.starts_with('w') && number(&side)) {
      visibility.left = visibility.right = side;
    } else if (word.starts_with('l') && number(&side)) {
      visibility.left = side;
    } else if (word.starts_with('r') && number(&side)) {
      visibility.right = side;
    } else if (word == kBottomRightName) {
      visibility.alignment = Alignment::bottom_right;
    } else if (const Result<Target> target = parse_target(word)) {
      spec.target = *target;
    } else if (word.starts_with('d')) {
      (void)number(&spec.padded_dim);
    } else if (word.starts_with('g')) {
      (void)number(&spec.groups);
    }
  }
  // Whatever was not understood makes another name.
  return name(spec) == text ? std::optional(spec) : std::nullopt;
}

}  // namespace jfa
