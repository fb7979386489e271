#include "tools/sweep.h"

#include <fmt/format.h>

#include <array>
#include <charconv>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>

#include "formats/strict_json.h"
#include "generator/dtype.h"
#include "tools/number_text.h"

namespace jfa::tools {
namespace {

using Json = nlohmann::json;

constexpr JsonRules kRules{.comments = true};

// One entry of a sweep file.
class EntryReader {
 public:
  EntryReader(std::string_view file, std::string_view text, std::size_t index)
      : file_(file), text_(text), index_(index) {}

  Result<Sweep> read(const Json& entry, const std::vector<std::string>& targets) const {
    if (!entry.is_object()) return error(fmt::format("is not an object: {}", shown_json(entry)));
    Sweep sweep;
    sweep.target = targets;
    for (const auto& [field, value] : entry.items()) {
      if (Status status = read_field(sweep, field, value); !status.ok()) return status;
    }
    if (sweep.head_dim.empty()) return error("has no head_dim");
    return sweep;
  }

 private:
  // path: from the entry to what is wrong in it.
  Status error(std::string_view what, std::vector<std::string> path = {}) const {
    path.insert(path.begin(), std::to_string(index_));
    return Status::invalid_argument(
        fmt::format("{}: entry {} {}", json_place(file_, text_, kRules, path), index_, what));
  }

  Status read_field(Sweep& sweep, const std::string& field, const Json& value) const {
    const auto as_text = [](const Json& item) { return item.get<std::string>(); };
    const auto is_number = [](const Json& item) {
      return item.is_number_integer() &&
             (!item.is_number_unsigned() || item.get<std::uint64_t>() <= std::uint64_t{INT64_MAX});
    };
    const auto as_number = [](const Json& item) { return item.get<std::int64_t>(); };
    const auto as_window = [](const Json& item) {
      return item.is_null() ? "none" : item.is_string() ? item.get<std::string>() : item.dump();
    };
    if (field == "pass") return read_values(sweep.pass, field, value, &Json::is_string, as_text);
    if (field == "dtype") return read_values(sweep.dtype, field, value, &Json::is_string, as_text);
    if (field == "target") return read_values(sweep.target, field, value, &Json::is_string, as_text);
    if (field == "head_dim") return read_values(sweep.head_dim, field, value, is_number, as_number);
    if (field == "groups") return read_values(sweep.groups, field, value, is_number, as_number);
    if (field == "broadcast_q") {
      const auto as_bool = [](const Json& item) { return item.get<bool>(); };
      return read_values(sweep.broadcast_q, field, value, &Json::is_boolean, as_bool);
    }
    if (field == "window") {
      const auto is_window = [](const Json& item) {
        return item.is_null() || item.is_number_integer() ||
               (item.is_string() && parse_window(item.get_ref<const std::string&>()).ok());
      };
      return read_values(sweep.window, field, value, is_window, as_window);
    }
    return error(fmt::format("has the unknown field '{}'", shown(field)), {field});
  }

  template <class Value, class Is, class Convert>
  Status read_values(std::vector<Value>& values, const std::string& field, const Json& json, const Is& is,
                     const Convert& convert) const {
    const Json* const begin = json.is_array() ? json.get_ref<const Json::array_t&>().data() : &json;
    values.clear();
    for (const Json& item : std::span(begin, json.is_array() ? json.size() : 1)) {
      if (!std::invoke(is, item)) {
        std::vector<std::string> path{field};
        if (json.is_array()) path.push_back(std::to_string(values.size()));
        return error(fmt::format("has {} {}", field, shown_json(item)), std::move(path));
      }
      values.push_back(convert(item));
    }
    if (values.empty()) return error(fmt::format("has no {}", field), {field});
    return {};
  }

  std::string_view file_;
  std::string_view text_;
  std::size_t index_;
};

}  // namespace

Result<DType> parse_dtype(std::string_view text) {
  if (const DTypeRow* row = find_dtype(text)) return row->dtype;
  return Status::invalid_argument(fmt::format("dtype '{}' is neither bf16 nor fp16", text));
}

Result<Pass> parse_pass(std::string_view text) {
  if (text == "forward") return Pass::forward;
  if (text == "backward") return Pass::backward;
  return Status::invalid_argument(fmt::format("pass '{}' is neither forward nor backward", text));
}

namespace {

struct FieldSize {
  std::string_view field;
  std::size_t values;
};

std::array<FieldSize, 7> field_sizes(const Sweep& sweep) {
  return {{{"target", sweep.target.size()},
           {"pass", sweep.pass.size()},
           {"dtype", sweep.dtype.size()},
           {"head_dim", sweep.head_dim.size()},
           {"window", sweep.window.size()},
           {"broadcast_q", sweep.broadcast_q.size()},
           {"groups", sweep.groups.size()}}};
}

// Also of what would take for ever to go through: the sum of all sweeps, without overflow.
Status check_size(std::span<const Sweep> sweeps) {
  std::uint64_t total = 0;
  for (const Sweep& sweep : sweeps) {
    std::uint64_t combinations = 1;
    bool overflow = false;
    std::string fields;
    for (const auto& [field, values] : field_sizes(sweep)) {
      overflow |= __builtin_mul_overflow(combinations, values, &combinations);
      if (values > 1) fields += fmt::format("{}{} {}", fields.empty() ? "" : ", ", values, field);
    }
    if (!overflow && combinations <= kMaxConfigurations - total) {
      total += combinations;
      continue;
    }
    const std::string count = overflow ? "2^64 or more" : fmt::format("{}", combinations);
    const std::string before = total == 0 ? "" : fmt::format(" beside {} before it", total);
    return Status::invalid_argument(fmt::format("a sweep of {} configurations ({}){}: {} are the limit",
                                                count, fields, before, kMaxConfigurations));
  }
  return {};
}

// Adds those that have not been seen.
Status expand(const Sweep& sweep, std::vector<KernelSpec>& specs, std::set<KernelSpec>& seen) {
  // One counter over all combinations, its lowest digit the last field.
  const auto sizes = field_sizes(sweep);
  std::size_t combinations = 1;
  for (const FieldSize& size : sizes) combinations *= size.values;
  for (std::size_t number = 0; number < combinations; ++number) {
    std::size_t digit[std::size(sizes)];
    std::size_t rest = number;
    for (std::size_t field = std::size(sizes); field-- > 0;) {
      digit[field] = rest % sizes[field].values;
      rest /= sizes[field].values;
    }
    const Result<Pass> pass = parse_pass(sweep.pass[digit[1]]);
    if (!pass) return pass.status();
    const Result<DType> dtype = parse_dtype(sweep.dtype[digit[2]]);
    if (!dtype) return dtype.status();
    const Result<std::optional<Window>> window = parse_window(sweep.window[digit[4]]);
    if (!window) return window.status();
    const Configuration configuration{*pass,
                                      *dtype,
                                      sweep.head_dim[digit[3]],
                                      *window,
                                      sweep.broadcast_q[digit[5]],
                                      sweep.groups[digit[6]],
                                      sweep.target[digit[0]]};
    const Result<KernelSpec> spec = specialize(configuration);
    if (!spec) return spec.status();
    if (seen.insert(*spec).second) specs.push_back(*spec);
  }
  return {};
}

}  // namespace

Result<std::vector<KernelSpec>> expand(std::span<const Sweep> sweeps) {
  if (Status status = check_size(sweeps); !status.ok()) return status;
  std::vector<KernelSpec> specs;
  std::set<KernelSpec> seen;
  for (const Sweep& sweep : sweeps) {
    const Status status = expand(sweep, specs, seen);
    if (status.ok()) continue;
    return sweep.where ? Status(status.kind(), sweep.where() + ": " + status.message()) : status;
  }
  return specs;
}

Result<KernelSpec> specialize(const KernelFields& fields) {
  Sweep sweep;
  sweep.pass = {fields.pass};
  sweep.dtype = {fields.dtype};
  sweep.head_dim = {fields.head_dim};
  sweep.window = {fields.window};
  sweep.broadcast_q = {fields.broadcast_q};
  sweep.groups = {fields.groups};
  sweep.target = {fields.target};
  const Result<std::vector<KernelSpec>> specs = expand(sweep);
  if (!specs) return specs.status();
  return specs->front();
}

Sweep default_sweep() {
  Sweep sweep;
  sweep.pass = {"forward", "backward"};
  sweep.dtype = {"bf16", "fp16"};
  sweep.head_dim = {32, 64, 128};
  sweep.broadcast_q = {false, true};
  sweep.groups = {1, 4};
  for (const TargetRow& row : target_table())
    if (!row.devices.empty()) sweep.target.emplace_back(row.name);
  return sweep;
}

Result<std::vector<KernelSpec>> expand(const Sweep& sweep) { return expand(std::span(&sweep, 1)); }

Result<std::vector<Sweep>> parse_sweep_file(std::string_view file, std::string_view text,
                                            const std::vector<std::string>& targets) {
  const Result<Json> json = parse_json(file, text, kRules);
  if (!json) return json.status();
  if (!json->is_array())
    return Status::invalid_argument(
        fmt::format("{}: not a JSON list of configurations", json_place(file, text, kRules, {})));
  std::vector<Sweep> sweeps;
  const auto kept = std::make_shared<const std::string>(text);
  for (std::size_t i = 0; i < json->size(); ++i) {
    Result<Sweep> sweep = EntryReader(file, text, i).read((*json)[i], targets);
    if (!sweep) return sweep.status();
    sweep->where = [kept, file = std::string(file), i] {
      return fmt::format("{}: entry {}", json_place(file, *kept, kRules, {std::to_string(i)}), i);
    };
    sweeps.push_back(std::move(*sweep));
  }
  return sweeps;
}

}  // namespace jfa::tools
