#include "tools/tune_configs.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "formats/strict_json.h"
#include "generator/plan/family.h"

namespace jfa::tools {
namespace {

using Json = nlohmann::json;

constexpr JsonRules kConfigRules{.comments = true};
constexpr int kFewValues = 8;  // a range of more is tried in powers of two

bool any_target_has(const std::string& name) {
  return std::ranges::any_of(all_targets(), [&](Target target) {
    return std::ranges::any_of(row_of(target).family->knobs,
                               [&](const Knob& knob) { return knob.name == name; });
  });
}

// The knobs that a specialisation has, with the values that it takes for them by default.
Result<std::vector<ChosenKnob>> knobs_of(const KernelSpec& spec) {
  const Result<KernelPlan> usual = plan(spec);
  if (!usual) return usual.status();
  return usual->knobs;
}

std::vector<int> all_values(const Knob& knob) {
  std::vector<int> values;
  if ((knob.most - knob.least) / knob.step < kFewValues) {
    for (int value = knob.least; value <= knob.most; value += knob.step) values.push_back(value);
    return values;
  }
  values.push_back(knob.least);
  for (int value = 1; value < knob.most; value *= 2)
    if (value > knob.least && (value - knob.least) % knob.step == 0) values.push_back(value);
  values.push_back(knob.most);
  return values;
}

// A tuning of a database must serve whatever the defaults serve.
bool may_refuse_calls(const KernelPlan& planned) {
  return planned.spec.pass == Pass::backward && planned.spec.broadcast_q && planned.backward().two_cta &&
         planned.backward().two_cta->on;
}

// Collects what fits, once.
class Collector {
 public:
  explicit Collector(const KernelSpec& spec) : spec_(spec) { add({}); }

  void add(const Tuning& tuning) {
    if (!seen_.insert(tuning).second) return;
    const Result<KernelPlan> planned = plan(spec_, tuning);
    if (!planned) {
      result_.left_out.push_back({tuning, planned.status().message()});
    } else if (may_refuse_calls(*planned)) {
      result_.left_out.push_back({tuning, "it refuses calls of the same class that the defaults serve"});
    } else if (kept_.insert(planned->tuning).second) {
      result_.tunings.push_back(planned->tuning);
    }
  }
  std::size_t size() const { return seen_.size(); }
  Candidates take() { return std::move(result_); }

 private:
  const KernelSpec& spec_;
  std::set<Tuning> seen_, kept_;
  Candidates result_;
};

}  // namespace

TuneConfigs TuneConfigs::every_knob() {
  TuneConfigs configs;
  Entry entry;
  for (const Target target : all_targets())
    for (const Knob& knob : row_of(target).family->knobs) entry.each[std::string(knob.name)] = {};
  configs.entries_.push_back(std::move(entry));
  return configs;
}

Result<TuneConfigs> TuneConfigs::parse(std::string_view file, std::string_view text) {
  const Result<Json> json = parse_json(file, text, kConfigRules);
  if (!json) return json.status();
  if (!json->is_array())
    return Status::invalid_argument(
        fmt::format("{}: not a JSON list of entries", json_place(file, text, kConfigRules, {})));
  TuneConfigs configs;
  for (std::size_t i = 0; i < json->size(); ++i) {
    const Json& given = (*json)[i];
    const auto refuse = [&](std::string_view what, std::vector<std::string> path = {}) {
      path.insert(path.begin(), std::to_string(i));
      return Status::invalid_argument(
          fmt::format("{}: entry {} {}", json_place(file, text, kConfigRules, path), i, what));
    };
    if (!given.is_object()) return refuse("is not an object");
    Entry entry;
    entry.where = fmt::format("{}: entry {}", file, i);
    const auto read_knob = [&](std::map<std::string, Values>& knobs, const std::string& name,
                               const Json& value, std::vector<std::string> path) -> Status {
      if (!any_target_has(name)) return refuse(fmt::format("names '{}': no knob", shown(name)), path);
      Values values;
      if (value != "all") {
        const Json list = value.is_array() ? value : Json::array({value});
        for (const Json& item : list) {
          if (!item.is_number_integer() || item < -1'000'000 || item > 1'000'000)
            return refuse(fmt::format("has {} {}: not a whole number", name, shown_json(item)), path);
          values.push_back(item.get<int>());
        }
        if (values.empty()) return refuse(fmt::format("has no value for {}", name), path);
      }
      knobs[name] = std::move(values);
      return {};
    };
    const auto read_texts = [&](std::vector<std::string>& texts, const std::string& name, const Json& value,
                                std::initializer_list<std::string_view> known) -> Status {
      for (const Json& item : value.is_array() ? value : Json::array({value})) {
        if (!item.is_string() || std::ranges::find(known, item.get<std::string>()) == known.end())
          return refuse(fmt::format("has {} {}", name, shown_json(item)), {name});
        texts.push_back(item.get<std::string>());
      }
      return {};
    };
    for (const auto& [field, value] : given.items()) {
      Status status;
      if (field == "pass") {
        status = read_texts(entry.pass, field, value, {"forward", "backward"});
      } else if (field == "target") {
        status = read_texts(entry.target, field, value, {"sm90", "sm100"});
      } else if (field == "broadcast_q") {
        if (!value.is_boolean()) return refuse("has broadcast_q that is neither true nor false", {field});
        entry.broadcast_q.push_back(value.get<bool>());
      } else if (field == "each") {
        if (!value.is_object()) return refuse("has an 'each' that is no object", {field});
        for (const auto& [name, values] : value.items()) {
          status = read_knob(entry.each, name, values, {field, name});
          if (!status.ok()) break;
        }
      } else {
        status = read_knob(entry.product, field, value, {field});
      }
      if (!status.ok()) return status;
    }
    configs.entries_.push_back(std::move(entry));
  }
  return configs;
}

bool TuneConfigs::is_for(const Entry& entry, const KernelSpec& spec) {
  const std::string_view pass = spec.pass == Pass::forward ? "forward" : "backward";
  const auto has = [](const auto& list, const auto& value) {
    return list.empty() || std::ranges::find(list, value) != list.end();
  };
  return has(entry.pass, pass) && has(entry.broadcast_q, spec.broadcast_q) &&
         has(entry.target, row_of(spec.target).family->folder);
}

Result<Candidates> TuneConfigs::candidates(const KernelSpec& spec) const {
  const Result<std::vector<ChosenKnob>> knobs = knobs_of(spec);
  if (!knobs) return knobs.status();
  const auto values_of = [&](const std::string& name, const Values& given) {
    const auto found = std::ranges::find(*knobs, name, [](const ChosenKnob& it) { return it.knob.name; });
    if (found == knobs->end()) return Values();  // another specialisation's, or another target's
    return given.empty() ? all_values(found->knob) : given;
  };
  Collector collector(spec);
  for (const Entry& entry : entries_) {
    if (!is_for(entry, spec)) continue;
    for (const auto& [name, given] : entry.each)
      for (const int value : values_of(name, given)) collector.add(Tuning{{{name, value}}});
    std::vector<Tuning> combinations{Tuning()};
    for (const auto& [name, given] : entry.product) {
      const Values values = values_of(name, given);
      if (values.empty()) continue;
      if (combinations.size() * values.size() + collector.size() > kMostCandidates)
        return Status::invalid_argument(fmt::format("{}: more than {} combinations of knobs for {}",
                                                    entry.where, kMostCandidates, jfa::name(spec)));
      std::vector<Tuning> more;
      for (const Tuning& combination : combinations) {
        for (const int value : values) {
          more.push_back(combination);
          more.back().values[name] = value;
        }
      }
      combinations = std::move(more);
    }
    for (const Tuning& combination : combinations) collector.add(combination);
  }
  return collector.take();
}

}  // namespace jfa::tools
