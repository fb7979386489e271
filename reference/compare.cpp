#include "reference/compare.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "reference/error_norm.h"
#include "reference/window_reach.h"

namespace jfa::reference {
namespace {

constexpr double kLseTolerance = 1e-3;

double fp32_ulp(double value) {
  const auto magnitude = static_cast<float>(std::abs(value));
  return std::nextafter(magnitude, std::numeric_limits<float>::infinity()) - magnitude;
}

class Comparer {
 public:
  Comparer(const Problem& problem, const Solution& exact, const Solution& eager, const HostTensor& output,
           const std::vector<float>& lse)
      : problem_(problem),
        exact_(exact),
        eager_(eager),
        output_(output),
        lse_(lse),
        reach_(window_reach(problem).output) {}

  Comparison run() {
    const std::vector<Sequence> all = sequences(problem_);
    for (std::size_t b = 0; b < all.size(); ++b) {
      compare_output(b, all[b]);
      comparison_.reached += count_reached(all[b]);
      if (!lse_.empty()) compare_lse(b, all[b]);
    }
    comparison_.max_abs = ours_.max_abs;
    comparison_.eager_max_abs = eager_norm_.max_abs;
    comparison_.relative_l2 = ratio(ours_.squares, reference_squares_);
    comparison_.eager_relative_l2 = ratio(eager_norm_.squares, reference_squares_);
    comparison_.worst = worst_.text();
    comparison_.within_tolerance = comparison_.worst.empty();
    return comparison_;
  }

 private:
  // Elements that are judged. visit(output row, head, column, element of a Solution)
  template <class Visit>
  void for_each_element(const Sequence& sequence, const Visit& visit) const {
    for (std::int64_t row = sequence.output_row; row < sequence.output_row + sequence.query_rows; ++row) {
      for (std::int64_t head = 0; head < exact_.heads; ++head) {
        for (std::int64_t column = 0; column < exact_.head_dim; ++column) {
          const auto row_and_head = static_cast<std::size_t>(row * exact_.heads + head);
          const std::size_t e =
              row_and_head * static_cast<std::size_t>(exact_.head_dim) + static_cast<std::size_t>(column);
          if (!is_reached(reach_, row_and_head, output_.at(row, head, column), exact_.output[e]))
            visit(row, head, column, e);
        }
      }
    }
  }

  std::int64_t count_reached(const Sequence& sequence) const {
    std::int64_t judged = 0;
    for_each_element(sequence, [&](auto, auto, auto, auto) { ++judged; });
    return sequence.query_rows * exact_.heads * exact_.head_dim - judged;
  }

  bool has_key(std::int64_t row, std::int64_t head) const {
    return exact_.lse[static_cast<std::size_t>(head * exact_.rows + row)] != -kInfinity;
  }

  void compare_output(std::size_t b, const Sequence& sequence) {
    ErrorNorm ours;
    ErrorNorm eager;
    double rounding_squares = 0;
    double reference_squares = 0;
    for_each_element(sequence, [&](std::int64_t row, std::int64_t head, std::int64_t column, std::size_t e) {
      ours.add(distance(output_.at(row, head, column), exact_.output[e]));
      eager.add(distance(eager_.output[e], exact_.output[e]));
      reference_squares += square(exact_.output[e]);
      rounding_squares += square(exact_.rounding[e]);
    });

    // An eager computation that overflowed allows nothing.
    const double twice_eager = std::isfinite(eager.max_abs) ? 2 * eager.max_abs : 0;
    for_each_element(sequence, [&](std::int64_t row, std::int64_t head, std::int64_t column, std::size_t e) {
      const double error = distance(output_.at(row, head, column), exact_.output[e]);
      const double tolerance = has_key(row, head) ? std::max(twice_eager, exact_.rounding[e]) : 0;
      const double allowed = allowed_distance(exact_.output[e], tolerance);
      worst_.consider(error, allowed, [&] {
        return fmt::format(
            "sequence {}, output row {}, head {}, column {}: {:.9g}, right is {:.9g} +- {:.3g}", b, row, head,
            column, output_.at(row, head, column), exact_.output[e], allowed);
      });
    });

    const double l2 = ratio(ours.squares, reference_squares);
    const double eager_l2 = ratio(eager.squares, reference_squares);
    const double allowed_l2 =
        std::max(std::isfinite(eager_l2) ? 2 * eager_l2 : 0, ratio(rounding_squares, reference_squares));
    worst_.consider(l2, allowed_l2, [&] {
      return fmt::format("sequence {}: relative L2 error {:.3g}, allowed {:.3g}", b, l2, allowed_l2);
    });
    ours_.add(ours);
    eager_norm_.add(eager);
    reference_squares_ += reference_squares;
  }

  void compare_lse(std::size_t b, const Sequence& sequence) {
    for (std::int64_t row = sequence.output_row; row < sequence.output_row + sequence.query_rows; ++row) {
      for (std::int64_t head = 0; head < exact_.heads; ++head) {
        const double right = exact_.lse[static_cast<std::size_t>(head * exact_.rows + row)];
        const float got = lse_[static_cast<std::size_t>(head * output_.rows + row)];
        const bool keyless = right == -kInfinity;
        const double error = distance(got, right);
        const double allowed = allowed_distance(right, std::max(kLseTolerance, 4 * fp32_ulp(right)));
        worst_.consider(error, allowed, [&] {
          return fmt::format("sequence {}, LSE of output row {}, head {}: {:.9g}, right is {:.9g} +- {:.3g}",
                             b, row, head, got, right, allowed);
        });
        if (!keyless) comparison_.lse_max_abs = std::max(comparison_.lse_max_abs, error);
      }
    }
  }

  const Problem& problem_;
  const Solution& exact_;
  const Solution& eager_;
  const HostTensor& output_;
  const std::vector<float>& lse_;
  const std::vector<bool> reach_;
  Comparison comparison_;
  ErrorNorm ours_;
  ErrorNorm eager_norm_;
  double reference_squares_ = 0;
  Worst worst_;
};

}  // namespace

Comparison compare(const Problem& problem, const Solution& exact, const Solution& eager,
                   const HostTensor& output, const std::vector<float>& lse) {
  return Comparer(problem, exact, eager, output, lse).run();
}

Comparison judge(const Problem& problem, const HostTensor& output, const std::vector<float>& lse) {
  return compare(problem, solve(problem), solve_eager(problem), output, lse);
}

std::string describe_reached(std::int64_t elements) {
  if (elements == 0) return {};
  return fmt::format("; {} NaN or infinite through the window, not judged", elements);
}

std::string describe(const Comparison& comparison) {
  std::string text = fmt::format(
      "max abs error {:.3e} (eager 16-bit {:.3e}), relative L2 {:.3e} (eager 16-bit {:.3e}), LSE {:.3e}: "
      "{}{}",
      comparison.max_abs, comparison.eager_max_abs, comparison.relative_l2, comparison.eager_relative_l2,
      comparison.lse_max_abs, comparison.within_tolerance ? "within tolerance" : "OUT OF TOLERANCE",
      describe_reached(comparison.reached));
  if (!comparison.worst.empty()) text += "\n" + comparison.worst;
  return text;
}

}  // namespace jfa::reference
