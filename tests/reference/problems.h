// Builders of attention problems on the host, for the tests.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "reference/reference.h"

namespace jfa::test {

using reference::HostTensor;
using reference::Problem;

/// Prefix sums, the first of them 0.
std::vector<std::int64_t> offsets_of(const std::vector<std::int64_t>& lengths);

struct Heads {
  std::int64_t query = 1;
  std::int64_t key_value = 1;
};

/// All-zero query, key and value: every key that is seen weighs the same.
Problem flat_problem(const std::vector<std::int64_t>& query_lengths,
                     const std::vector<std::int64_t>& key_lengths, Heads heads, std::int64_t head_dim,
                     DType dtype = DType::bf16);

/// The same with one shared query sequence of q_len rows.
Problem flat_broadcast_problem(std::int64_t q_len, const std::vector<std::int64_t>& key_lengths, Heads heads,
                               std::int64_t head_dim, DType dtype = DType::bf16);

/// Fills query, key and value with normal deviates times `scale`, rounded to the 16-bit type. Same seed, same
/// bits.
void randomize(Problem& problem, std::uint64_t seed, double scale = 1.0);

/// Sets every element of every sequence's value rows to value_of(sequence, row within it, head, column).
using ValueOf =
    std::function<double(std::int64_t sequence, std::int64_t j, std::int64_t head, std::int64_t column)>;
void set_value(Problem& problem, const ValueOf& value_of);

/// Normal deviates, the same on every platform.
class Normal {
 public:
  explicit Normal(std::uint64_t seed) : state_(seed) {}
  double operator()();
  std::uint64_t bits();  ///< uniform 64 bits

 private:
  std::uint64_t state_;
};

}  // namespace jfa::test
