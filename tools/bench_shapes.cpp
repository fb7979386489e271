#include "tools/bench_shapes.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <random>
#include <utility>

#include "formats/strict_json.h"
#include "generator/visibility.h"
#include "reference/reference_head.h"
#include "tools/sweep.h"

namespace jfa::tools {
namespace {

using Json = nlohmann::json;
using Kind = BenchShape::Kind;

// Beyond it PyTorch's generator takes two draws for one number.
constexpr std::int64_t kLengthLimit = std::int64_t{1} << 28;
constexpr std::int64_t kRowLimit = std::int64_t{1} << 30;
constexpr const char* kShapes = "shapes";

// Reads one shape; remembers the first error.
class ShapeReader {
 public:
  ShapeReader(std::string_view file, std::string_view text, std::size_t index, const Json& entry)
      : file_(file), text_(text), index_(index), name_(fmt::format("shape {}", index)), entry_(entry) {}

  Result<BenchShape> read() {
    if (!entry_.is_object()) {
      refuse("is not an object");
      return error_;
    }
    BenchShape shape;
    text("name", &shape.name);
    name_ += fmt::format(" '{}'", shown(shape.name));
    std::string kind;
    text("kind", &kind);
    number("batch", 1, &shape.batch);
    number("heads", 1, &shape.heads);
    optional_number("groups", 1, &shape.groups);
    number("head_dim", 1, &shape.head_dim);
    if (entry_.contains("dtype")) {
      std::string dtype;
      text("dtype", &dtype);
      const Result<DType> parsed = parse_dtype(dtype);
      if (!parsed) refuse(fmt::format("has dtype '{}': bf16 and fp16 are known", shown(dtype)), "dtype");
      if (parsed) shape.dtype = *parsed;
    }
    number("max_kv", 0, &shape.max_kv);
    fill("fill_kv", &shape.fill_kv);
    if (kind == "pma") {
      shape.kind = Kind::kPma;
      number("q_len", 1, &shape.q_len);
    } else if (kind == "cross") {
      shape.kind = Kind::kCross;
      number("max_q", 0, &shape.max_q);
      fill("fill_q", &shape.fill_q);
    } else if (kind != "self") {
      refuse(fmt::format("has kind '{}': self, cross and pma are known", shown(kind)), "kind");
    }
    if (entry_.contains("window")) window(&shape.window);
    std::int64_t seed = shape.seed;
    optional_number("seed", 0, &seed);
    shape.seed = static_cast<std::uint32_t>(seed);
    if (error_.ok()) check(shape);
    if (!error_.ok()) return error_;
    return shape;
  }

 private:
  void refuse(std::string_view what, std::string_view field = {}) {
    if (!error_.ok()) return;
    std::vector<std::string> path{kShapes, std::to_string(index_)};
    if (!field.empty()) path.emplace_back(field);
    error_ =
        Status::invalid_argument(fmt::format("{}: {} {}", json_place(file_, text_, {}, path), name_, what));
  }

  const Json* find(const char* field) {
    known_.push_back(field);
    const auto found = entry_.find(field);
    if (found != entry_.end()) return &*found;
    refuse(fmt::format("has no {}", field));
    return nullptr;
  }

  void text(const char* field, std::string* value) {
    const Json* json = find(field);
    if (!json) return;
    if (json->is_string()) {
      *value = json->get<std::string>();
    } else {
      refuse(fmt::format("has {} {}: not a text", field, shown_json(*json)), field);
    }
  }

  void number(const char* field, std::int64_t least, std::int64_t* value) {
    const Json* json = find(field);
    if (!json) return;
    if (json->is_number_integer() && *json >= least && *json < kLengthLimit) {
      *value = json->get<std::int64_t>();
    } else {
      refuse(fmt::format("has {} {}: not a whole number from {} to 2^28", field, shown_json(*json), least),
             field);
    }
  }

  // A number, or text as the commands' --window takes it.
  void window(std::optional<Window>* value) {
    const char* const field = "window";
    const Json& json = entry_.at(field);
    if (!json.is_string()) {
      std::int64_t both = 0;
      number(field, 0, &both);
      *value = both;
      return;
    }
    known_.push_back(field);
    const Result<std::optional<Window>> parsed = parse_window(json.get_ref<const std::string&>());
    const Status status = parsed ? visibility_of(*parsed).status() : parsed.status();
    if (!status.ok()) {
      refuse(fmt::format("has {}", status.message()), field);
      return;
    }
    *value = *parsed;
  }

  void optional_number(const char* field, std::int64_t least, std::int64_t* value) {
    known_.push_back(field);
    if (entry_.contains(field)) number(field, least, value);
  }

  void fill(const char* field, double* value) {
    const Json* json = find(field);
    if (!json) return;
    if (json->is_number() && *json > 0 && *json <= 1) {
      *value = json->get<double>();
    } else {
      refuse(fmt::format("has {} {}: not above 0 and at most 1", field, shown_json(*json)), field);
    }
  }

  // What the single fields cannot tell.
  void check(const BenchShape& shape) {
    for (const auto& [field, value] : entry_.items()) {
      if (std::find(known_.begin(), known_.end(), field) == known_.end())
        refuse(fmt::format("has the unknown field '{}'", shown(field)), field);
    }
    if (shape.heads % shape.groups != 0)
      refuse(fmt::format("has {} heads, not a multiple of its {} groups", shape.heads, shape.groups));
    if (shape.kind == Kind::kPma && shape.window && shape.window->alignment == Alignment::bottom_right)
      refuse("has a window that is aligned bottom_right, of a shared query", "window");
    const std::int64_t longest = std::max({shape.max_kv, shape.max_q, shape.q_len});
    if (longest > 0 && shape.batch >= kRowLimit / longest)
      refuse(fmt::format("may have 2^30 rows or more: batch {} of length {}", shape.batch, longest));
  }

  std::string_view file_;
  std::string_view text_;
  std::size_t index_;
  std::string name_;
  const Json& entry_;
  std::vector<std::string> known_;
  Status error_;
};

std::vector<std::int32_t> prefix_sums(const std::vector<std::int64_t>& lengths) {
  std::vector<std::int32_t> sums{0};
  for (std::int64_t length : lengths) sums.push_back(sums.back() + static_cast<std::int32_t>(length));
  return sums;
}

std::vector<std::int64_t> draw_lengths(std::mt19937& generator, std::int64_t batch, std::int64_t max,
                                       double fill) {
  std::vector<std::int64_t> lengths(static_cast<std::size_t>(batch), max);
  if (fill >= 1) return lengths;
  const double longest = static_cast<double>(max);
  const std::int64_t low = fill >= 0.5 ? static_cast<std::int64_t>((2 * fill - 1) * longest) : 1;
  const std::int64_t high =
      std::max<std::int64_t>(fill >= 0.5 ? max : static_cast<std::int64_t>(2 * fill * longest), 1);
  for (std::int64_t& length : lengths)
    length = low + static_cast<std::int64_t>(generator()) % (high - low + 1);
  return lengths;
}

// Pairs of one sequence that the window keeps.
std::int64_t pairs_of(std::int64_t queries, std::int64_t keys, const std::optional<Window>& window) {
  if (!window) return queries * keys;
  std::int64_t pairs = 0;
  for (std::int64_t i = 0; i < queries; ++i) {
    const reference::Interval seen = reference::visible_keys(i, queries, keys, window);
    pairs += std::max<std::int64_t>(seen.end - seen.begin, 0);
  }
  return pairs;
}

}  // namespace

Result<std::vector<BenchShape>> parse_shapes(std::string_view file, std::string_view text) {
  const Result<Json> json = parse_json(file, text);
  if (!json) return json.status();
  const auto list = json->find(kShapes);
  if (!json->is_object() || list == json->end() || !list->is_array())
    return Status::invalid_argument(
        fmt::format("{}: has no list '{}'", json_place(file, text, {}, {}), kShapes));
  std::vector<BenchShape> shapes;
  for (const Json& entry : *list) {
    Result<BenchShape> shape = ShapeReader(file, text, shapes.size(), entry).read();
    if (!shape) return shape.status();
    shapes.push_back(std::move(*shape));
  }
  return shapes;
}

std::int64_t BenchProblem::query_rows() const {
  return shape.kind == Kind::kPma ? shape.q_len : query_offset.back();
}

BenchProblem draw(const BenchShape& shape) {
  std::mt19937 generator(shape.seed);
  const std::vector<std::int64_t> keys = draw_lengths(generator, shape.batch, shape.max_kv, shape.fill_kv);
  std::vector<std::int64_t> queries = keys;
  if (shape.kind == Kind::kPma) queries.assign(keys.size(), shape.q_len);
  if (shape.kind == Kind::kCross) queries = draw_lengths(generator, shape.batch, shape.max_q, shape.fill_q);

  BenchProblem problem{shape, prefix_sums(queries), prefix_sums(keys)};
  for (std::size_t i = 0; i < keys.size(); ++i) problem.pairs += pairs_of(queries[i], keys[i], shape.window);
  return problem;
}

double flops(const BenchProblem& problem, Pass pass) {
  const double forward = 4.0 * static_cast<double>(problem.shape.head_dim * problem.shape.heads) *
                         static_cast<double>(problem.pairs);
  return pass == Pass::forward ? forward : 2.5 * forward;
}

double bytes(const BenchProblem& problem, Pass pass) {
  const BenchShape& shape = problem.shape;
  const auto tensor = [&](std::int64_t rows, std::int64_t heads) {
    return 2.0 * static_cast<double>(rows) * static_cast<double>(heads * shape.head_dim);
  };
  const double query = tensor(problem.query_rows(), shape.heads);
  const double output = tensor(problem.output_rows(), shape.heads);
  const double key = tensor(problem.key_rows(), shape.key_heads());
  if (pass == Pass::forward) return query + output + 2 * key;
  const double lse = 4.0 * static_cast<double>(problem.output_rows() * shape.heads);
  return 2 * query + 2 * output + 4 * key + lse;
}

}  // namespace jfa::tools
