// The fp64 reference and the eager computation against answers known in closed form.
#include <doctest/doctest.h>

#include <cmath>

#include "reference/compare.h"
#include "tests/reference/closed_forms.h"

namespace jfa::test {
namespace {

using reference::Solution;

TEST_CASE("the fp64 reference gives every closed form of the bug pool") {
  for (const int bug : closed_form_bugs()) {
    for (const ClosedForm& form : closed_forms(bug)) {
      CAPTURE(form.bug);
      CAPTURE(form.what);
      const Solution solution = reference::solve(form.problem);
      int known = 0;
      for (std::int64_t row = 0; row < solution.rows; ++row) {
        for (std::int64_t head = 0; head < solution.heads; ++head) {
          for (std::int64_t column = 0; column < solution.head_dim; ++column) {
            const double right = form.output(row, head, column);
            if (std::isnan(right)) continue;
            ++known;
            const auto element =
                static_cast<std::size_t>((row * solution.heads + head) * solution.head_dim + column);
            if (std::abs(solution.output[element] - right) > 1e-12 * std::max(1.0, std::abs(right))) {
              FAIL_CHECK("row " << row << " head " << head << " column " << column << ": "
                                << solution.output[element] << " instead of " << right);
            }
          }
          const double right = form.lse ? form.lse(row, head) : std::nan("");
          if (std::isnan(right)) continue;
          const double got = solution.lse[static_cast<std::size_t>(head * solution.rows + row)];
          if (std::isinf(right)) {
            CHECK(got == right);
          } else {
            CHECK(std::abs(got - right) <= 1e-12 * std::max(1.0, std::abs(right)));
          }
        }
      }
      CHECK(known > 0);
    }
  }
}

TEST_CASE("numbers that the bug pool states") {
  const auto lse = [](int bug, std::size_t row) {
    return reference::solve(closed_forms(bug)[0].problem).lse[row];
  };
  const auto output = [](int bug, std::int64_t row) {
    const ClosedForm form = closed_forms(bug)[0];
    return reference::solve(form.problem).output[form.problem.query.index(row, 0, 0)];
  };
  CHECK(lse(1, 0) == doctest::Approx(-70958.481).epsilon(1e-8));
  CHECK(lse(34, 0) == doctest::Approx(10.0794).epsilon(1e-5));
  CHECK(output(43, 5) == doctest::Approx(2));
  CHECK(lse(43, 5) == doctest::Approx(1.60944).epsilon(1e-5));
  CHECK(output(43, 21) == doctest::Approx(16));
  CHECK(output(42, 59) == doctest::Approx(49));
  CHECK(lse(42, 59) == doctest::Approx(0));
  CHECK(output(47, 622) == doctest::Approx(7.51267).epsilon(1e-6));
  CHECK(lse(47, 622) == doctest::Approx(6.24028).epsilon(1e-6));
  CHECK(output(48, 575) == doctest::Approx(7.58537).epsilon(1e-6));
  CHECK(lse(48, 575) == doctest::Approx(3.71357).epsilon(1e-6));
}

TEST_CASE("bug-pool 3: partial attentions merge by their LSE") {
  Problem whole = flat_problem({5}, {200}, {2, 1}, 64);
  randomize(whole, 3);
  const auto part = [&](std::int64_t begin, std::int64_t end) {
    Problem problem = whole;
    problem.key_offset = {0, end - begin};
    for (HostTensor* tensor : {&problem.key, &problem.value}) {
      const HostTensor full = *tensor;
      *tensor = HostTensor(end - begin, full.heads, full.head_dim);
      std::copy(full.values.begin() + static_cast<std::ptrdiff_t>(full.index(begin, 0, 0)),
                full.values.begin() + static_cast<std::ptrdiff_t>(full.index(end, 0, 0)),
                tensor->values.begin());
    }
    return reference::solve(problem);
  };
  const Solution right = reference::solve(whole);
  const Solution a = part(0, 70);
  const Solution b = part(70, 200);
  for (std::int64_t row = 0; row < 5; ++row) {
    for (std::int64_t head = 0; head < 2; ++head) {
      const auto l = static_cast<std::size_t>(head * 5 + row);
      const double merged = std::log(std::exp(a.lse[l]) + std::exp(b.lse[l]));
      CHECK(merged == doctest::Approx(right.lse[l]).epsilon(1e-12));
      for (std::int64_t column = 0; column < 64; ++column) {
        const std::size_t e = whole.query.index(row, head, column);
        const double output =
            a.output[e] * std::exp(a.lse[l] - merged) + b.output[e] * std::exp(b.lse[l] - merged);
        CHECK(std::abs(output - right.output[e]) < 1e-12);
      }
    }
  }
}

// The textbook formula, one element at a time, to catch an indexing mistake that all closed forms are blind
// to.
double direct_output(const Problem& p, const reference::Sequence& s, std::int64_t i, std::int64_t head,
                     std::int64_t column) {
  const std::int64_t key_head = head / (p.query.heads / p.key.heads);
  const double scale = p.scale.value_or(1 / std::sqrt(static_cast<double>(p.query.head_dim)));
  double sum = 0;
  double output = 0;
  for (std::int64_t j = 0; j < s.key_rows; ++j) {
    if (p.window) {
      const bool at_ends = p.window->alignment == Alignment::bottom_right;
      const std::int64_t distance = j - i - (at_ends ? s.key_rows - s.query_rows : 0);
      if (p.window->left && distance < -*p.window->left) continue;
      if (p.window->right && distance > *p.window->right) continue;
    }
    double score = 0;
    for (std::int64_t d = 0; d < p.query.head_dim; ++d) {
      score += double{p.query.at(s.query_row + i, head, d)} * p.key.at(s.key_row + j, key_head, d);
    }
    sum += std::exp(scale * score);
    output += std::exp(scale * score) * p.value.at(s.key_row + j, key_head, column);
  }
  return sum == 0 ? 0 : output / sum;
}

void check_directly(const Problem& problem) {
  const Solution solution = reference::solve(problem);
  REQUIRE(solution.rows == reference::output_rows(problem));
  for (const reference::Sequence& s : reference::sequences(problem)) {
    for (std::int64_t i = 0; i < s.query_rows; ++i) {
      for (std::int64_t head = 0; head < solution.heads; ++head) {
        for (std::int64_t column = 0; column < solution.head_dim; column += 3) {
          const auto e = ((s.output_row + i) * solution.heads + head) * solution.head_dim + column;
          CHECK(std::abs(solution.output[static_cast<std::size_t>(e)] -
                         direct_output(problem, s, i, head, column)) < 1e-12);
        }
      }
    }
  }
}

TEST_CASE("random problems against the formula written out") {
  SUBCASE("self, groups, both signs of the scale") {
    Problem problem = flat_problem({3, 0, 17, 1}, {3, 0, 17, 1}, {6, 2}, 24);
    randomize(problem, 11);
    for (const double scale : {0.2, 0.0, -0.3}) {
      problem.scale = scale;
      check_directly(problem);
    }
  }
  SUBCASE("cross with window") {
    Problem problem = flat_problem({3, 9, 17, 4}, {8, 0, 5, 30}, {2, 2}, 16);
    randomize(problem, 12);
    for (const std::int64_t window : {std::int64_t{0}, std::int64_t{2}, std::int64_t{100}, INT64_MAX}) {
      problem.window = window;
      check_directly(problem);
    }
  }
  SUBCASE("broadcast_q with output_offset") {
    Problem problem = flat_broadcast_problem(5, {8, 0, 3}, {4, 2}, 16);
    randomize(problem, 13);
    check_directly(problem);
    problem.output_offset = {2, 8, 13, 20};
    check_directly(problem);
    CHECK(reference::output_rows(problem) == 20);
  }
}

TEST_CASE("an empty batch has no rows") {
  const Problem problem = flat_broadcast_problem(4, {}, {2, 2}, 128);
  CHECK(reference::solve(problem).output.empty());
  CHECK(reference::judge(problem, HostTensor(0, 2, 128), {}).within_tolerance);
}

}  // namespace
}  // namespace jfa::test
