#include "formats/strict_json.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>
#include <set>
#include <span>
#include <utility>
#include <variant>
#include <vector>

#include "base/foreign_text.h"

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

// How far a parser has read, for whoever gets its events.
class Source {
 public:
  struct Iterator {
    using iterator_category = std::input_iterator_tag;
    using value_type = char;
    using difference_type = std::ptrdiff_t;
    using pointer = const char*;
    using reference = const char&;

    const char* at = nullptr;
    const char** reached = nullptr;

    reference operator*() const { return *at; }
    Iterator& operator++() {
      *reached = ++at;
      return *this;
    }
    Iterator operator++(int) {
      const Iterator before = *this;
      ++*this;
      return before;
    }
    bool operator==(const Iterator& other) const { return at == other.at; }
    bool operator!=(const Iterator& other) const { return at != other.at; }
  };

  explicit Source(std::string_view text) : text_(text), reached_(text.data()), token_(text.data()) {}
  Source(const Source&) = delete;
  Source& operator=(const Source&) = delete;

  template <class Sax>
  void parse(Sax& sax, const JsonRules& rules) {
    const char* const end = text_.data() + text_.size();
    (void)Json::sax_parse(Iterator{text_.data(), &reached_}, Iterator{end, &reached_}, &sax,
                          Json::input_format_t::json, /*strict=*/true, rules.comments);
  }

  /// To be called at every event: its token begins where the one before it ended, but for blanks, comments
  /// and separators. A number is only seen to end one character behind it, which is one of these.
  void next_token() {
    token_ = previous_end_ != nullptr ? previous_end_ : text_.data();
    skip_to_token();
    previous_end_ = reached_;
  }

  /// "line 3, column 12", of the last event.
  std::string place() const {
    const std::string_view before(text_.data(), static_cast<std::size_t>(token_ - text_.data()));
    const auto lines = std::count(before.begin(), before.end(), '\n');
    const std::size_t line_end = before.rfind('\n');
    const std::size_t line_begin = line_end == std::string_view::npos ? 0 : line_end + 1;
    return fmt::format("line {}, column {}", lines + 1, before.size() - line_begin + 1);
  }

 private:
  std::string_view rest() const { return text_.substr(static_cast<std::size_t>(token_ - text_.data())); }
  // What opens a line comment or a longer one ends it.
  void skip_to_token() {
    while (true) {
      const std::string_view left = rest();
      const std::size_t blanks = std::min(left.find_first_not_of(" \t\r\n,:\xef\xbb\xbf"), left.size());
      token_ += blanks;
      const std::string_view end = rest().starts_with("//") ? "\n" : rest().starts_with("/*") ? "*/" : "";
      if (end.empty()) return;
      const std::size_t found = rest().find(end, 2);
      if (found == std::string_view::npos) return;
      token_ += found + end.size();
    }
  }

  std::string_view text_;
  const char* reached_;
  const char* previous_end_ = nullptr;
  const char* token_;
};

// Builds the value event by event. The library's own parser takes the last of two members of one name, and
// its callbacks, which could tell, look over all of an object at the end of each of its members.
class Builder final : public nlohmann::json_sax<Json> {
 public:
  Builder(std::string_view where, Source& source, const JsonRules& rules, const Member* member)
      : where_(where), source_(source), rules_(rules), member_(member) {}

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
    source_.next_token();
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
    status_ = Status::invalid_argument(fmt::format("{}: not JSON: {}", where_, reason_of(error.what())));
    return false;
  }

  Json& root() { return root_; }
  const Status& status() const { return status_; }

 private:
  // Whether the next value is a member to be handed over.
  bool streams() const { return member_ != nullptr && open_.size() == 1 && root_.is_object(); }

  bool refuse(const std::string& what) {
    status_ = Status::invalid_argument(fmt::format("{}: {}: {}", where_, source_.place(), what));
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
    source_.next_token();
    place(std::move(value));
    return !streams() || hand_over();
  }
  bool open(Json container) {
    source_.next_token();
    if (open_.size() >= static_cast<std::size_t>(rules_.max_depth))
      return refuse(fmt::format("nests deeper than {} levels", rules_.max_depth));
    open_.push_back(&place(std::move(container)));
    return true;
  }
  bool close() {
    source_.next_token();
    open_.pop_back();
    return !streams() || hand_over();
  }
  bool hand_over() {
    status_ = (*member_)(*name_, value_);
    return status_.ok();
  }

  std::string_view where_;
  Source& source_;
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

// Stops at the value of a path.
class Finder final : public nlohmann::json_sax<Json> {
 public:
  Finder(Source& source, std::span<const std::string> path) : source_(source), path_(path) {}

  bool null() override { return value(); }
  bool boolean(bool) override { return value(); }
  bool number_integer(std::int64_t) override { return value(); }
  bool number_unsigned(std::uint64_t) override { return value(); }
  bool number_float(double, const std::string&) override { return value(); }
  bool string(std::string&) override { return value(); }
  bool binary(Json::binary_t&) override { return value(); }
  bool start_object(std::size_t) override { return open({}); }
  bool start_array(std::size_t) override { return open(std::size_t{0}); }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }
  bool key(std::string& name) override {
    source_.next_token();
    at_.back() = name;
    return !is_at_path();
  }
  bool parse_error(std::size_t, const std::string&, const Json::exception&) override { return false; }

 private:
  using Step = std::variant<std::monostate, std::string, std::size_t>;  // an object's member, an array's

  bool is_at_path() const {
    return std::equal(at_.begin(), at_.end(), path_.begin(), path_.end(),
                      [](const Step& step, const std::string& name) {
                        if (const auto* index = std::get_if<std::size_t>(&step))
                          return std::to_string(*index) == name;
                        const auto* member = std::get_if<std::string>(&step);
                        return member != nullptr && *member == name;
                      });
  }
  // False at the end of the search.
  bool begin() {
    source_.next_token();
    return !is_at_path();
  }
  void end() {
    if (at_.empty()) return;
    if (auto* index = std::get_if<std::size_t>(&at_.back())) ++*index;
  }
  bool value() {
    if (!begin()) return false;
    end();
    return true;
  }
  bool open(Step first) {
    if (!begin()) return false;
    at_.push_back(std::move(first));
    return true;
  }
  bool close() {
    source_.next_token();
    at_.pop_back();
    end();
    return true;
  }

  Source& source_;
  std::span<const std::string> path_;
  std::vector<Step> at_;
};

Result<Json> build(std::string_view where, std::string_view text, const JsonRules& rules,
                   const Member* member) {
  Source source(text);
  Builder builder(where, source, rules, member);
  source.parse(builder, rules);
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

std::string json_place(std::string_view where, std::string_view text, const JsonRules& rules,
                       const std::vector<std::string>& path) {
  Source source(text);
  Finder finder(source, path);
  source.parse(finder, rules);
  return fmt::format("{}: {}", where, source.place());
}

std::string shown(std::string_view text, std::size_t limit) { return jfa::shown(text, limit); }

std::string shown_json(const Json& value) {
  return shown(value.dump(-1, ' ', false, Json::error_handler_t::replace));
}

}  // namespace jfa::tools
