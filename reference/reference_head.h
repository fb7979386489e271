// One head of one sequence on the host: what both directions of the reference share.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "reference/reference.h"

namespace jfa::reference {

inline double scale_of(const Problem& problem) {
  return problem.scale.value_or(1.0 / std::sqrt(static_cast<double>(problem.query.head_dim)));
}

struct Interval {
  std::int64_t begin = 0;
  std::int64_t end = 0;
};

/// Keys that query row i of its sequence sees. No sum here can overflow for a window up to 2^63 - 1.
inline Interval visible_keys(std::int64_t i, std::int64_t key_rows, std::optional<std::int64_t> window) {
  if (!window) return {0, key_rows};
  const std::int64_t begin = i > *window ? i - *window : 0;
  const std::int64_t end = *window >= key_rows - i ? key_rows : i + *window + 1;
  return {std::min(begin, key_rows), std::min(end, key_rows)};
}

/// Rows of one head of a tensor, laid out so that every inner loop runs over contiguous memory and needs no
/// reassociation to be vectorised.
template <class Real>
struct HeadRows {
  std::int64_t rows = 0;
  std::int64_t dim = 0;
  std::vector<Real> values;      // [rows, dim]
  std::vector<Real> transposed;  // [dim, rows]

  HeadRows(const HostTensor& tensor, std::int64_t first_row, std::int64_t rows, std::int64_t head)
      : rows(rows),
        dim(tensor.head_dim),
        values(static_cast<std::size_t>(rows * dim)),
        transposed(static_cast<std::size_t>(rows * dim)) {
    for (std::int64_t j = 0; j < rows; ++j) {
      const float* row_values = tensor.values.data() + tensor.index(first_row + j, head, 0);
      for (std::int64_t d = 0; d < dim; ++d) {
        values[static_cast<std::size_t>(j * dim + d)] = row_values[d];
        transposed[static_cast<std::size_t>(d * rows + j)] = row_values[d];
      }
    }
  }

  const Real* row(std::int64_t j) const { return values.data() + j * dim; }

  /// products[j] = vector . row(j)
  template <class Element>
  void multiply(const Element* vector, Interval visible, std::vector<Real>& products) const {
    std::fill(products.begin() + visible.begin, products.begin() + visible.end, Real{0});
    for (std::int64_t d = 0; d < dim; ++d) {
      const Real factor = vector[d];
      const Real* column = transposed.data() + d * rows;
      for (std::int64_t j = visible.begin; j < visible.end; ++j) products[j] += factor * column[j];
    }
  }
};

}  // namespace jfa::reference
