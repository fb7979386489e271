// The shapes that are measured: what a shapes file says, the lengths drawn from it, and the work they are.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "jfa/attention.h"

namespace jfa::tools {

/// One entry of a shapes file.
struct BenchShape {
  /// self: queries and keys have the same lengths; cross: lengths of their own; pma: one shared query.
  enum class Kind { kSelf, kCross, kPma };
  std::string name;
  Kind kind = Kind::kSelf;
  std::int64_t batch = 0;
  std::int64_t heads = 0;   // of the query
  std::int64_t groups = 1;  // query heads per key head
  std::int64_t head_dim = 0;
  DType dtype = DType::bf16;
  std::int64_t max_q = 0;  // cross
  double fill_q = 1;       // cross
  std::int64_t q_len = 0;  // pma
  std::int64_t max_kv = 0;
  double fill_kv = 1;
  std::optional<Window> window;
  std::uint32_t seed = 17;

  std::int64_t key_heads() const { return heads / groups; }
};

/// A shapes file: {"shapes": [{"name": …, "kind": "self", …}, …]}. Errors name the file, the shape and the
/// field.
Result<std::vector<BenchShape>> parse_shapes(std::string_view file, std::string_view text);

/// A shape with its lengths drawn.
struct BenchProblem {
  BenchShape shape;
  std::vector<std::int32_t> query_offset;  // [batch + 1], also of a shared query
  std::vector<std::int32_t> key_offset;    // [batch + 1]
  std::int64_t pairs = 0;                  // (query, key) pairs of one head that the window keeps

  std::int64_t query_rows() const;  // of the query tensor: q_len of a shared query
  std::int64_t output_rows() const { return query_offset.back(); }
  std::int64_t key_rows() const { return key_offset.back(); }
};

/// Draws the lengths. With fill s they are uniform in [(2s - 1) max, max] for s >= 0.5 and in [1, 2 s max]
/// below; 1 makes all of them max. They are those that PyTorch's CPU generator draws from the same seed, so
/// that bench/peers.py measures the same ones.
BenchProblem draw(const BenchShape& shape);

/// Operations of the matrix products: 4 * head_dim for every pair and head, 2.5 times that backward (five
/// products for two; what is computed again does not count).
double flops(const BenchProblem& problem, Pass pass);

/// Bytes that must move once, a shared query counted once. Forward: query, key, value, output. Backward:
/// these, the output's gradient, the LSE and three gradients.
double bytes(const BenchProblem& problem, Pass pass);

}  // namespace jfa::tools
