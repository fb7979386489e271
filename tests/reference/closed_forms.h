// Attention problems whose answer is known in closed form: the rows of the public bug pool that have one
// (docs/bug-pool.md). The reference is tested against them, and then the kernels.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "tests/reference/problems.h"

namespace jfa::test {

struct ClosedForm {
  int bug = 0;       ///< row of the bug pool
  std::string what;  ///< which of the row's inputs
  Problem problem;
  /// The right output of every element of every row; NaN where none is known.
  std::function<double(std::int64_t row, std::int64_t head, std::int64_t column)> output;
  /// The right LSE of every row and head; NaN where none is known. May be empty.
  std::function<double(std::int64_t row, std::int64_t head)> lse;
  bool exact_output = false;  ///< bit for bit, also in 16 bits
  bool exact_lse = false;
};

/// All inputs of the row; never empty.
std::vector<ClosedForm> closed_forms(int bug);

/// Rows that closed_forms() knows.
std::vector<int> closed_form_bugs();

}  // namespace jfa::test
