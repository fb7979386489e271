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

/// Of `rows` rows those from `back` before `place` to `ahead` behind it, nullopt: all of that side. No sum
/// here can overflow for sides up to 2^63 - 1, places between -2^62 and 2^62.
inline Interval rows_around(std::int64_t place, std::int64_t rows, std::optional<std::int64_t> back,
                            std::optional<std::int64_t> ahead) {
  const std::int64_t begin = back && *back < place ? place - *back : 0;
  const std::int64_t end = ahead && *ahead < rows - place ? place + *ahead + 1 : rows;
  return {std::clamp<std::int64_t>(begin, 0, rows), std::clamp<std::int64_t>(end, 0, rows)};
}

/// The key that the first query stands at: negative if it comes before all keys.
inline std::int64_t first_place(std::int64_t query_rows, std::int64_t key_rows,
                                const std::optional<Window>& window) {
  return window && window->alignment == Alignment::bottom_right ? key_rows - query_rows : 0;
}

/// Keys that query row i of its sequence sees, by the definition of Window; empty if begin >= end.
inline Interval visible_keys(std::int64_t i, std::int64_t query_rows, std::int64_t key_rows,
                             const std::optional<Window>& window) {
  if (!window) return {0, key_rows};
  return rows_around(i + first_place(query_rows, key_rows, window), key_rows, window->left, window->right);
}

/// Queries that see key row j of its sequence.
inline Interval visible_queries(std::int64_t j, std::int64_t query_rows, std::int64_t key_rows,
                                const std::optional<Window>& window) {
  if (!window) return {0, query_rows};
  return rows_around(j - first_place(query_rows, key_rows, window), query_rows, window->right, window->left);
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
