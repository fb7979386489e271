#include "reference/window_reach.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "reference/reference_head.h"

namespace jfa::reference {
namespace {

using Rows = std::vector<bool>;  // of one head of one sequence

// Rows beyond those that see a row, or that it sees, that a NaN or an infinity may get to: two tiles.
constexpr std::int64_t kTileReach = 256;

bool is_finite_row(const HostTensor& tensor, std::int64_t row, std::int64_t head) {
  const float* values = tensor.values.data() + tensor.index(row, head, 0);
  return std::all_of(values, values + tensor.head_dim, [](float value) { return std::isfinite(value); });
}

bool is_empty(const Interval& seen) { return seen.begin >= seen.end; }

void unite(Rows& rows, const Rows& others) {
  for (std::size_t i = 0; i < rows.size(); ++i) rows[i] = rows[i] || others[i];
}

// The rows of the other side, `rows` of them, that one of `sources` may reach: the first of them stands at
// `place` there, and they see rows back and ahead of where they stand.
Rows reached_from(const Rows& sources, std::int64_t place, std::int64_t rows,
                  std::optional<std::int64_t> back, std::optional<std::int64_t> ahead) {
  const auto farther = [](std::optional<std::int64_t> side) {  // less than kTileReach
    constexpr std::int64_t kFarthest = std::int64_t{1} << 40;
    return side ? std::optional(std::min(*side, kFarthest) + kTileReach - 1) : side;
  };
  std::vector<std::int64_t> begun(static_cast<std::size_t>(rows + 1));  // less ended, of sources' intervals
  for (std::size_t j = 0; j < sources.size(); ++j) {
    const Interval reached =
        rows_around(place + static_cast<std::int64_t>(j), rows, farther(back), farther(ahead));
    if (!sources[j] || is_empty(reached)) continue;
    ++begun[static_cast<std::size_t>(reached.begin)];
    --begun[static_cast<std::size_t>(reached.end)];
  }
  Rows reached(static_cast<std::size_t>(rows));
  std::int64_t reaching = 0;
  for (std::size_t i = 0; i < reached.size(); ++i) reached[i] = (reaching += begun[i]) > 0;
  return reached;
}

// The head of one sequence in a [rows, heads] array of a whole tensor.
struct HeadOfAll {
  std::vector<bool>& all;
  std::int64_t first_row, heads, head;

  void unite(const Rows& rows) const {
    for (std::size_t i = 0; i < rows.size(); ++i) {
      if (rows[i])
        all[static_cast<std::size_t>((first_row + static_cast<std::int64_t>(i)) * heads + head)] = true;
    }
  }
};

class Finder {
 public:
  explicit Finder(const Problem& problem)
      : problem_(problem),
        groups_(problem.key.heads > 0 ? problem.query.heads / problem.key.heads : 1),
        sequences_(sequences(problem)) {}

  WindowReach of_forward() const {
    WindowReach reach;
    reach.output.resize(static_cast<std::size_t>(output_rows(problem_) * problem_.query.heads));
    for (const Sequence& s : sequences_) {
      for (std::int64_t head = 0; head < problem_.query.heads; ++head) {
        HeadOfAll{reach.output, s.output_row, problem_.query.heads, head}.unite(
            queries_reached_from(s, bad_keys(s, head / groups_, {&problem_.value})));
      }
    }
    return reach;
  }

  WindowReach of_backward(const OutputGradients& incoming) const {
    WindowReach reach;
    reach.query_grad.resize(static_cast<std::size_t>(problem_.query.rows * problem_.query.heads));
    reach.key_grad.resize(static_cast<std::size_t>(problem_.key.rows * problem_.key.heads));
    for (const Sequence& s : sequences_) {
      for (std::int64_t head = 0; head < problem_.query.heads; ++head) {
        const std::int64_t key_head = head / groups_;
        const Rows keys = bad_keys(s, key_head, {&problem_.key, &problem_.value});
        const Rows by_keys = queries_reached_from(s, keys);
        HeadOfAll{reach.query_grad, s.query_row, problem_.query.heads, head}.unite(by_keys);
        // An output that a value has reached is itself what the backward reads.
        Rows queries = bad_queries(s, head, incoming);
        unite(queries, by_keys);
        HeadOfAll{reach.key_grad, s.key_row, problem_.key.heads, key_head}.unite(
            keys_reached_from(s, queries));
      }
    }
    return reach;
  }

 private:
  bool is_seen(const Sequence& s, std::int64_t j) const {
    return !is_empty(visible_queries(j, s.query_rows, s.key_rows, problem_.window));
  }
  bool sees_any(const Sequence& s, std::int64_t i) const {
    return !is_empty(visible_keys(i, s.query_rows, s.key_rows, problem_.window));
  }

  Rows queries_reached_from(const Sequence& s, const Rows& keys) const {
    const Window& window = *problem_.window;
    return reached_from(keys, -first_place(s.query_rows, s.key_rows, window), s.query_rows, window.right,
                        window.left);
  }
  Rows keys_reached_from(const Sequence& s, const Rows& queries) const {
    const Window& window = *problem_.window;
    return reached_from(queries, first_place(s.query_rows, s.key_rows, window), s.key_rows, window.left,
                        window.right);
  }

  // Keys that take part and are not finite in one of the tensors.
  Rows bad_keys(const Sequence& s, std::int64_t head,
                std::initializer_list<const HostTensor*> tensors) const {
    Rows bad(static_cast<std::size_t>(s.key_rows));
    for (std::int64_t j = 0; j < s.key_rows; ++j) {
      bad[static_cast<std::size_t>(j)] =
          is_seen(s, j) && std::any_of(tensors.begin(), tensors.end(), [&](const HostTensor* tensor) {
            return !is_finite_row(*tensor, s.key_row + j, head);
          });
    }
    return bad;
  }

  // A shared query takes part everywhere once it sees a key of any sequence.
  bool takes_part(const Sequence& s, std::int64_t i) const {
    if (!problem_.broadcast_q) return sees_any(s, i);
    return std::any_of(sequences_.begin(), sequences_.end(),
                       [&](const Sequence& other) { return sees_any(other, i); });
  }

  Rows bad_queries(const Sequence& s, std::int64_t head, const OutputGradients& incoming) const {
    Rows bad(static_cast<std::size_t>(s.query_rows));
    for (std::int64_t i = 0; i < s.query_rows; ++i) {
      const std::int64_t output_row = s.output_row + i;
      const bool sees = sees_any(s, i);
      const auto lse = static_cast<std::size_t>(head * incoming.output.rows + output_row);
      bad[static_cast<std::size_t>(i)] =
          (!is_finite_row(problem_.query, s.query_row + i, head) && takes_part(s, i)) ||
          (sees && !is_finite_row(incoming.output, output_row, head)) ||
          (sees && !incoming.lse.empty() && !std::isfinite(incoming.lse[lse]));
    }
    return bad;
  }

  const Problem& problem_;
  std::int64_t groups_;
  std::vector<Sequence> sequences_;
};

bool hides_any(const Problem& problem) {
  return problem.window && (problem.window->left || problem.window->right);
}

}  // namespace

WindowReach window_reach(const Problem& problem) {
  return hides_any(problem) ? Finder(problem).of_forward() : WindowReach();
}

WindowReach window_reach(const Problem& problem, const OutputGradients& incoming) {
  return hides_any(problem) ? Finder(problem).of_backward(incoming) : WindowReach();
}

bool is_reached(const std::vector<bool>& reach, std::size_t row_and_head, double got, double right) {
  return !std::isfinite(got) && std::isfinite(right) && row_and_head < reach.size() && reach[row_and_head];
}

}  // namespace jfa::reference
