// Jagged attention computed slowly and plainly on the host, to judge the kernels by: once in fp64, and once
// the way an eager 16-bit framework would, whose error is the yardstick.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "jfa/attention.h"

namespace jfa::reference {

/// A packed [rows, heads, head_dim] tensor. Inputs hold values that the 16-bit type can represent.
struct HostTensor {
  std::int64_t rows = 0;
  std::int64_t heads = 0;
  std::int64_t head_dim = 0;
  std::vector<float> values;

  HostTensor() = default;
  HostTensor(std::int64_t rows, std::int64_t heads, std::int64_t head_dim)
      : rows(rows),
        heads(heads),
        head_dim(head_dim),
        values(static_cast<std::size_t>(rows * heads * head_dim)) {}

  std::size_t index(std::int64_t row, std::int64_t head, std::int64_t column) const {
    return static_cast<std::size_t>((row * heads + head) * head_dim + column);
  }
  float& at(std::int64_t row, std::int64_t head, std::int64_t column) {
    return values[index(row, head, column)];
  }
  float at(std::int64_t row, std::int64_t head, std::int64_t column) const {
    return values[index(row, head, column)];
  }
};

/// An AttentionCall whose tensors and offsets are on the host; the fields mean what they mean there.
struct Problem {
  DType dtype = DType::bf16;
  HostTensor query;
  HostTensor key;
  HostTensor value;
  std::vector<std::int64_t> query_offset;
  std::vector<std::int64_t> key_offset;
  std::optional<std::vector<std::int64_t>> output_offset;
  std::optional<Window> window;
  bool broadcast_q = false;
  std::optional<double> scale;
};

/// Where one sequence's rows begin and how many there are.
struct Sequence {
  std::int64_t query_row = 0;
  std::int64_t query_rows = 0;
  std::int64_t key_row = 0;
  std::int64_t key_rows = 0;
  std::int64_t output_row = 0;
};

std::vector<Sequence> sequences(const Problem& problem);

/// Rows of the output: the last output_offset; without those total_q, or batch * q_len with broadcast_q.
std::int64_t output_rows(const Problem& problem);

struct Solution {
  std::int64_t rows = 0;
  std::int64_t heads = 0;
  std::int64_t head_dim = 0;
  std::vector<double> output;  ///< [rows, heads, head_dim]; 0 in rows that no sequence owns
  std::vector<double> lse;     ///< [heads, rows], natural logarithm; -inf for a row without a key
  /// Like output; solve() only. How far rounding the weights and the result to the 16-bit type, and the
  /// scores to fp32, moves an element when the roundings are independent (three standard deviations).
  std::vector<double> rounding;
};

/// In fp64 from end to end.
Solution solve(const Problem& problem);

/// As an eager 16-bit framework computes it: scores accumulated in fp32 and rounded to 16 bits, scaled and
/// rounded again, softmax in fp32 and rounded, product accumulated in fp32 and rounded.
Solution solve_eager(const Problem& problem);

}  // namespace jfa::reference
