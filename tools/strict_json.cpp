#include "tools/strict_json.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>
#include <vector>

namespace jfa::tools {
namespace {

using Json = nlohmann::json;
using Member = std::function<Status(const std::string& name, const Json& value)>;

constexpr std::size_t kMaxReasonCharacters = 160;

// "[json.exception.parse_error.101] parse error at line 1, column 2: …" without the brackets.
std::string reason_of(const char* what) {
  std::string_view text = what;
  if (const std::size_t at = text.find("] "); text.starts_with('[') && at != std::string_view::npos)
    text.remove_prefix(at + 2);
  return shown(text, kMaxReasonCharacters);
}

// Builds the value event by event. The library's own parser takes the last of two members of one name, and
// its callbacks, which could tell, look over all of an object at the end of each of its members.
class Builder final : public nlohmann::json_sax<Json> {
 public:
  Builder(std::string_view where, const JsonRules& rules, const Member* member)
      : where_(where), rules_(rules), member_(member) {}

  bool null() override { return put(nullptr); }
  bool boolean(bool value) override { return put(value); }
  bool number_integer(std::int64_t value) override { return put(value); }
  bool number_unsigned(std::uint64_t value) override { return put(value); }
  bool number_float(double value, const std::string&) override { return put(value); }
  bool string(std::string& value) override { return put(std::move(value)); }
  bool binary(Json::binary_t& value) override { return put(std::move(value)); }
  bool start_object(std::size_t) override { return open(Json::object()); }
  bool start_array(std::size_t) override { return open(Json::array()); }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }

  bool key(std::string& name) override {
    if (streams()) {
      const auto [place, is_new] = names_.insert(std::move(name));
      name_ = &*place;
      slot_ = &value_;
      return is_new || refuse(fmt::format("names '{}' twice", shown(*place)));
    }
    const auto [place, is_new] =
        open_.back()->get_ref<Json::object_t&>().try_emplace(std::move(name), nullptr);
    slot_ = &place->second;
    return is_new || refuse(fmt::format("names '{}' twice", shown(place->first)));
  }

  bool parse_error(std::size_t, const std::string&, const Json::exception& error) override {
    return refuse(fmt::format("not JSON: {}", reason_of(error.what())));
  }

  Json& root() { return root_; }
  const Status& status() const { return status_; }

 private:
  // Whether the next value is a member to be handed over.
  bool streams() const { return member_ != nullptr && open_.size() == 1 && root_.is_object(); }

  bool refuse(const std::string& what) {
    status_ = Status::invalid_argument(fmt::format("{}: {}", where_, what));
    return false;
  }

  Json& place(Json value) {
    if (open_.empty()) return root_ = std::move(value);
    Json& parent = *open_.back();
    if (!parent.is_array()) return *slot_ = std::move(value);
    parent.push_back(std::move(value));
    return parent.back();
  }
  bool put(Json value) {
    place(std::move(value));
    return !streams() || hand_over();
  }
  bool open(Json container) {
    if (open_.size() >= static_cast<std::size_t>(rules_.max_depth))
      return refuse(fmt::format("nests deeper than {} levels", rules_.max_depth));
    open_.push_back(&place(std::move(container)));
    return true;
  }
  bool close() {
    open_.pop_back();
    return !streams() || hand_over();
  }
  bool hand_over() {
    status_ = (*member_)(*name_, value_);
    return status_.ok();
  }

  std::string_view where_;
  const JsonRules& rules_;
  const Member* member_;
  Status status_;
  Json root_;
  std::vector<Json*> open_;  // the arrays and objects around the next value
  Json* slot_ = nullptr;     // for the value of the last key
  // Of the members that are handed over.
  std::set<std::string> names_;
  const std::string* name_ = nullptr;
  Json value_;
};

Result<Json> build(std::string_view where, std::string_view text, const JsonRules& rules,
                   const Member* member) {
  Builder builder(where, rules, member);
  (void)Json::sax_parse(text, &builder, Json::input_format_t::json, /*strict=*/true, rules.comments);
  if (!builder.status().ok()) return builder.status();
  return std::move(builder.root());
}

}  // namespace

Result<Json> parse_json(std::string_view where, std::string_view text, const JsonRules& rules) {
  return build(where, text, rules, nullptr);
}

Status parse_json_members(std::string_view where, std::string_view text, const JsonRules& rules,
                          const Member& member) {
  const Result<Json> root = build(where, text, rules, &member);
  if (!root || root->is_object()) return root.status();
  return Status::invalid_argument(fmt::format("{}: not a JSON object: {}", where, shown(text)));
}

std::string shown(std::string_view text, std::size_t limit) {
  std::size_t length = std::min(text.size(), limit);
  // No character is cut in two: continuation bytes of UTF-8 are 10xxxxxx.
  while (length > 0 && length < text.size() && (static_cast<unsigned char>(text[length]) & 0xc0) == 0x80)
    --length;
  std::string result;
  for (const char c : text.substr(0, length))
    result += static_cast<unsigned char>(c) < 0x20 || c == 0x7f ? '?' : c;
  return length < text.size() ? result + "…" : result;
}

std::string shown_json(const Json& value) {
  return shown(value.dump(-1, ' ', false, Json::error_handler_t::replace));
}

}  // namespace jfa::tools
