#include "reference/compare_backward.h"

#include <fmt/format.h>

#include <vector>

#include "reference/compare.h"
#include "reference/error_norm.h"

namespace jfa::reference {
namespace {

// Rows that are judged together.
struct Region {
  std::string name;
  std::int64_t begin = 0;
  std::int64_t end = 0;
};

// The sequences of one side, and the rows behind them.
std::vector<Region> regions_of(const std::vector<std::int64_t>& offsets, std::int64_t rows) {
  std::vector<Region> regions;
  for (std::size_t b = 0; b + 1 < offsets.size(); ++b)
    regions.push_back({fmt::format("sequence {}", b), offsets[b], offsets[b + 1]});
  regions.push_back({"no sequence", offsets.back(), rows});
  return regions;
}

class GradientComparer {
 public:
  GradientComparer(const Gradient& exact, const Gradient& eager, const HostTensor& gradient,
                   const std::vector<bool>& reach)
      : exact_(exact), eager_(eager), gradient_(gradient), reach_(reach) {}

  GradientComparison run(const std::vector<Region>& regions) {
    for (const Region& region : regions) compare(region);
    return {ours_.max_abs,       ratio(ours_.squares, reference_squares_),
            eager_norm_.max_abs, ratio(eager_norm_.squares, reference_squares_),
            worst_.text(),       reached_};
  }

 private:
  bool reached(std::size_t e) const {
    return is_reached(reach_, e / static_cast<std::size_t>(gradient_.head_dim), gradient_.values[e],
                      exact_.values[e]);
  }

  void compare(const Region& region) {
    const std::size_t begin = gradient_.index(region.begin, 0, 0);
    const std::size_t end = gradient_.index(region.end, 0, 0);
    ErrorNorm ours;
    ErrorNorm eager;
    double rounding_squares = 0;
    double reference_squares = 0;
    for (std::size_t e = begin; e < end; ++e) {
      if (reached(e)) {
        ++reached_;
        continue;
      }
      ours.add(distance(gradient_.values[e], exact_.values[e]));
      eager.add(distance(eager_.values[e], exact_.values[e]));
      reference_squares += square(exact_.values[e]);
      rounding_squares += square(exact_.rounding[e]);
    }

    // An eager computation that overflowed allows nothing.
    const double twice_eager = std::isfinite(eager.max_abs) ? 2 * eager.max_abs : 0;
    for (std::size_t e = begin; e < end; ++e) {
      if (reached(e)) continue;
      const bool exactly_zero = exact_.values[e] == 0 && exact_.rounding[e] == 0;
      const double allowed =
          allowed_distance(exact_.values[e], exactly_zero ? 0 : std::max(twice_eager, exact_.rounding[e]));
      worst_.consider(distance(gradient_.values[e], exact_.values[e]), allowed, [&] {
        const auto element = static_cast<std::int64_t>(e);
        const std::int64_t row_elements = gradient_.heads * gradient_.head_dim;
        return fmt::format("{}, row {}, head {}, column {}: {:.9g}, right is {:.9g} +- {:.3g}", region.name,
                           element / row_elements, element / gradient_.head_dim % gradient_.heads,
                           element % gradient_.head_dim, gradient_.values[e], exact_.values[e], allowed);
      });
    }

    const double l2 = ratio(ours.squares, reference_squares);
    const double eager_l2 = ratio(eager.squares, reference_squares);
    const double allowed_l2 =
        std::max(std::isfinite(eager_l2) ? 2 * eager_l2 : 0, ratio(rounding_squares, reference_squares));
    worst_.consider(l2, allowed_l2, [&] {
      return fmt::format("{}: relative L2 error {:.3g}, allowed {:.3g}", region.name, l2, allowed_l2);
    });
    ours_.add(ours);
    eager_norm_.add(eager);
    reference_squares_ += reference_squares;
  }

  const Gradient& exact_;
  const Gradient& eager_;
  const HostTensor& gradient_;
  const std::vector<bool>& reach_;
  std::int64_t reached_ = 0;
  ErrorNorm ours_;
  ErrorNorm eager_norm_;
  double reference_squares_ = 0;
  Worst worst_;
};

std::string describe(const char* name, const GradientComparison& comparison) {
  std::string text = fmt::format(
      "{} max abs error {:.3e} (eager 16-bit {:.3e}), relative L2 {:.3e} (eager 16-bit {:.3e}): {}{}", name,
      comparison.max_abs, comparison.eager_max_abs, comparison.relative_l2, comparison.eager_relative_l2,
      comparison.worst.empty() ? "within tolerance" : "OUT OF TOLERANCE",
      describe_reached(comparison.reached));
  if (!comparison.worst.empty()) text += "\n" + comparison.worst;
  return text;
}

}  // namespace

BackwardComparison compare(const Problem& problem, const BackwardSolution& exact,
                           const BackwardSolution& eager, const HostGradients& gradients,
                           const WindowReach& reach) {
  const std::vector<Region> queries = problem.broadcast_q
                                          ? std::vector<Region>{{"the shared query", 0, problem.query.rows}}
                                          : regions_of(problem.query_offset, problem.query.rows);
  const std::vector<Region> keys = regions_of(problem.key_offset, problem.key.rows);
  return {GradientComparer(exact.query, eager.query, gradients.query, reach.query_grad).run(queries),
          GradientComparer(exact.key, eager.key, gradients.key, reach.key_grad).run(keys),
          GradientComparer(exact.value, eager.value, gradients.value, reach.key_grad).run(keys)};
}

BackwardComparison judge(const Problem& problem, const OutputGradients& incoming,
                         const HostGradients& gradients) {
  return compare(problem, solve_backward(problem, incoming), solve_backward_eager(problem, incoming),
                 gradients, window_reach(problem, incoming));
}

std::string describe(const BackwardComparison& comparison) {
  return fmt::format("{}\n{}\n{}", describe("query_grad", comparison.query),
                     describe("key_grad", comparison.key), describe("value_grad", comparison.value));
}

}  // namespace jfa::reference
