#include "tests/reference/problems.h"

#include <cmath>
#include <numbers>

#include "base/random.h"
#include "reference/float16.h"

namespace jfa::test {

std::vector<std::int64_t> offsets_of(const std::vector<std::int64_t>& lengths) {
  std::vector<std::int64_t> offsets{0};
  for (const std::int64_t length : lengths) offsets.push_back(offsets.back() + length);
  return offsets;
}

Problem flat_problem(const std::vector<std::int64_t>& query_lengths,
                     const std::vector<std::int64_t>& key_lengths, Heads heads, std::int64_t head_dim,
                     DType dtype) {
  Problem problem;
  problem.dtype = dtype;
  problem.query_offset = offsets_of(query_lengths);
  problem.key_offset = offsets_of(key_lengths);
  problem.query = HostTensor(problem.query_offset.back(), heads.query, head_dim);
  problem.key = HostTensor(problem.key_offset.back(), heads.key_value, head_dim);
  problem.value = HostTensor(problem.key_offset.back(), heads.key_value, head_dim);
  return problem;
}

Problem flat_broadcast_problem(std::int64_t q_len, const std::vector<std::int64_t>& key_lengths, Heads heads,
                               std::int64_t head_dim, DType dtype) {
  Problem problem = flat_problem({q_len}, key_lengths, heads, head_dim, dtype);
  problem.query_offset.clear();
  problem.broadcast_q = true;
  return problem;
}

void randomize(Problem& problem, std::uint64_t seed, double scale) {
  Normal normal(seed);
  for (HostTensor* tensor : {&problem.query, &problem.key, &problem.value}) {
    for (float& value : tensor->values) value = round_to(problem.dtype, static_cast<float>(scale * normal()));
  }
}

void set_value(Problem& problem, const ValueOf& value_of) {
  for (std::size_t b = 0; b + 1 < problem.key_offset.size(); ++b) {
    for (std::int64_t row = problem.key_offset[b]; row < problem.key_offset[b + 1]; ++row) {
      for (std::int64_t head = 0; head < problem.value.heads; ++head) {
        for (std::int64_t column = 0; column < problem.value.head_dim; ++column) {
          const double value =
              value_of(static_cast<std::int64_t>(b), row - problem.key_offset[b], head, column);
          problem.value.at(row, head, column) = round_to(problem.dtype, static_cast<float>(value));
        }
      }
    }
  }
}

std::uint64_t Normal::bits() { return splitmix64(state_); }

double Normal::operator()() {  // Box-Muller
  const double radius = std::sqrt(-2 * std::log((static_cast<double>(bits() >> 11) + 1) * 0x1p-53));
  return radius * std::cos(2 * std::numbers::pi * static_cast<double>(bits() >> 11) * 0x1p-53);
}

}  // namespace jfa::test
