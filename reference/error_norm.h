// Errors, gathered and put beside what is allowed.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>

namespace jfa::reference {

inline constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// |a - b|. NaN agrees with NaN, and an infinity with itself; beside anything else they are infinitely wrong.
inline double distance(double a, double b) {
  if (a == b || (std::isnan(a) && std::isnan(b))) return 0;
  const double difference = std::abs(a - b);
  return std::isnan(difference) ? kInfinity : difference;
}

/// What a value that is right adds to the square of a norm. NaN and infinities add nothing: they are right or
/// wrong exactly, and relative to them everything else would be nothing.
inline double square(double value) { return std::isfinite(value) ? value * value : 0; }

/// What an element may differ by: `tolerance`, but nothing where the right value is no number.
inline double allowed_distance(double right, double tolerance) {
  return std::isfinite(right) ? tolerance : 0;
}

/// Largest element and sum of squares of an error.
struct ErrorNorm {
  double max_abs = 0;
  double squares = 0;

  void add(double error) {
    max_abs = std::max(max_abs, error);
    squares += error * error;
  }
  void add(const ErrorNorm& other) {
    max_abs = std::max(max_abs, other.max_abs);
    squares += other.squares;
  }
};

/// Relative L2, from two sums of squares.
inline double ratio(double squares, double reference_squares) {
  if (squares == 0) return 0;
  return reference_squares == 0 ? kInfinity : std::sqrt(squares / reference_squares);
}

/// Remembers the element that is furthest beyond its tolerance.
class Worst {
 public:
  template <class Describe>
  void consider(double error, double allowed, const Describe& describe) {
    if (error <= allowed) return;
    const double excess = allowed > 0 ? error / allowed : kInfinity;
    if (!text_.empty() && excess <= excess_) return;
    excess_ = excess;
    text_ = describe();
  }
  const std::string& text() const { return text_; }

 private:
  double excess_ = 0;
  std::string text_;
};

}  // namespace jfa::reference
