// Batches whose offsets do not begin at 0 or do not end at the tensors' last row: pieces of longer ones. What
// lies outside belongs to nobody.
#include <doctest/doctest.h>

#include <algorithm>
#include <limits>
#include <string>
#include <vector>

#include "tests/attention/backward_harness.h"
#include "tests/attention/guarded_memory.h"

namespace jfa::test {
namespace {

using Lengths = std::vector<std::int64_t>;

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

// Rows of NaN before and behind all sequences.
struct Surroundings {
  std::int64_t query_before, query_behind;
  std::int64_t key_before, key_behind;
};

HostTensor surrounded(const HostTensor& tensor, std::int64_t before, std::int64_t behind) {
  HostTensor result(before + tensor.rows + behind, tensor.heads, tensor.head_dim);
  std::ranges::fill(result.values, kNaN);
  std::ranges::copy(tensor.values,
                    result.values.begin() + static_cast<std::ptrdiff_t>(result.index(before, 0, 0)));
  return result;
}

void shift(Lengths& offsets, std::int64_t by) {
  for (std::int64_t& offset : offsets) offset += by;
}

Problem surrounded(Problem problem, const Surroundings& rows) {
  if (!problem.broadcast_q) {
    problem.query = surrounded(problem.query, rows.query_before, rows.query_behind);
    shift(problem.query_offset, rows.query_before);
  }
  problem.key = surrounded(problem.key, rows.key_before, rows.key_behind);
  problem.value = surrounded(problem.value, rows.key_before, rows.key_behind);
  shift(problem.key_offset, rows.key_before);
  return problem;
}

// Rows [first, first + part.rows) of `whole` have the bits of `part`, of which none is NaN.
bool holds(const HostTensor& whole, std::int64_t first, const HostTensor& part) {
  return std::equal(part.values.begin(), part.values.end(),
                    whole.values.begin() + static_cast<std::ptrdiff_t>(whole.index(first, 0, 0)));
}

bool all_zero(const HostTensor& tensor, std::int64_t begin, std::int64_t end) {
  const auto place = [&](std::int64_t row) {
    return tensor.values.begin() + static_cast<std::ptrdiff_t>(tensor.index(row, 0, 0));
  };
  return std::all_of(place(begin), place(end), [](float value) { return value == 0; });
}

Problem random_problem(const Lengths& query, const Lengths& key, Heads heads, std::int64_t head_dim) {
  Problem problem = flat_problem(query, key, heads, head_dim);
  randomize(problem, 5);
  return problem;
}

// Some rows, and more than a tile of them on either side.
const Surroundings kSurroundings[] = {{3, 0, 1, 5}, {130, 9, 129, 140}};

TEST_CASE("a first offset that is not 0: the same bits, and rows outside stay untouched") {
  for (const bool windowed : {false, true}) {
    Problem problem = random_problem({5, 130, 0, 9}, {128, 70, 33, 0}, {2, 1}, 64);
    if (windowed) problem.window = 20;
    const RunResult alone = check_attention(test_device(), problem);
    for (const Surroundings& rows : kSurroundings) {
      for (const OffsetType type : {OffsetType::int32, OffsetType::int64}) {
        const RunResult result = check_attention(test_device(), surrounded(problem, rows),
                                                 {.query_offset = type, .key_offset = type});
        CHECK(holds(result.output, rows.query_before, alone.output));
      }
    }
  }
}

TEST_CASE("a first offset that is not 0, of output rows too") {
  Problem problem = random_problem({5, 130}, {128, 70}, {1, 1}, 64);
  problem.output_offset = {7, 20, 155};
  for (const OffsetType type : {OffsetType::int32, OffsetType::int64})
    check_attention(test_device(), surrounded(problem, kSurroundings[1]),
                    {.output_offset = type, .output_rows = 160});
  Problem shared = flat_broadcast_problem(4, {9, 0, 130}, {2, 2}, 64);
  randomize(shared, 6);
  shared.output_offset = {3, 7, 20, 24};
  check_attention(test_device(), surrounded(shared, kSurroundings[0]), {.output_rows = 30});
}

TEST_CASE("a first offset that is not 0: gradients of rows outside are 0, the others the same bits") {
  // Short sequences beside long ones; short ones alone.
  for (const Lengths& keys : {Lengths{128, 190, 33, 0, 7}, Lengths{100, 20, 1, 0, 4}}) {
    const Problem problem = random_problem({5, 130, 0, 9, 40}, keys, {2, 1}, 64);
    const BackwardProblem incoming = with_random_gradient(problem, 7, /*lse_gradient=*/true);
    const HostGradients alone = check_backward(test_device(), incoming).gradients;
    for (const Surroundings& rows : kSurroundings) {
      BackwardProblem piece{surrounded(problem, rows), {}};
      piece.incoming.output = surrounded(incoming.incoming.output, rows.query_before, rows.query_behind);
      const HostTensor& output = piece.incoming.output;
      piece.incoming.lse.assign(static_cast<std::size_t>(output.heads * output.rows), kNaN);
      for (std::int64_t head = 0; head < output.heads; ++head)
        std::copy_n(incoming.incoming.lse.begin() + head * problem.query.rows, problem.query.rows,
                    piece.incoming.lse.begin() + head * output.rows + rows.query_before);
      BackwardRunOptions options;
      options.forward.query_offset = options.forward.key_offset = OffsetType::int64;
      const HostGradients gradients = check_backward(test_device(), piece, options).gradients;
      CHECK(holds(gradients.query, rows.query_before, alone.query));
      CHECK(holds(gradients.key, rows.key_before, alone.key));
      CHECK(holds(gradients.value, rows.key_before, alone.value));
      CHECK(all_zero(gradients.query, 0, rows.query_before));
      CHECK(all_zero(gradients.query, rows.query_before + problem.query.rows, gradients.query.rows));
      for (const HostTensor* gradient : {&gradients.key, &gradients.value}) {
        CHECK(all_zero(*gradient, 0, rows.key_before));
        CHECK(all_zero(*gradient, rows.key_before + problem.key.rows, gradient->rows));
      }
    }
  }
}

TEST_CASE("a first offset that is not 0: a shared query in one pass and in several") {
  for (const std::int64_t query_rows : {20, 130}) {
    CAPTURE(query_rows);
    Problem problem = flat_broadcast_problem(query_rows, {129, 0, 40}, {2, 2}, 64);
    randomize(problem, 8);
    const BackwardProblem incoming = with_random_gradient(problem, 8);
    const HostGradients alone = check_backward(test_device(), incoming).gradients;
    for (const Surroundings& rows : kSurroundings) {
      const HostGradients gradients =
          check_backward(test_device(), {surrounded(problem, rows), incoming.incoming}).gradients;
      CHECK(holds(gradients.key, rows.key_before, alone.key));
      CHECK(holds(gradients.value, rows.key_before, alone.value));
      for (const HostTensor* gradient : {&gradients.key, &gradients.value}) {
        CHECK(all_zero(*gradient, 0, rows.key_before));
        CHECK(all_zero(*gradient, rows.key_before + problem.key.rows, gradient->rows));
      }
    }
  }
}

TEST_CASE("a piece of a longer batch's offsets is that piece of its results") {
  const Problem whole = random_problem({30, 7, 1, 140, 0, 12, 3}, {20, 60, 0, 70, 5, 130, 9}, {2, 2}, 32);
  const RunResult all = check_attention(test_device(), whole);
  const BackwardProblem incoming = with_random_gradient(whole, 9);
  const HostGradients all_gradients = check_backward(test_device(), incoming).gradients;
  BackwardProblem piece = incoming;
  const auto cut = [](Lengths& offsets) { offsets = Lengths(offsets.begin() + 1, offsets.begin() + 6); };
  cut(piece.attention.query_offset);
  cut(piece.attention.key_offset);
  const RunResult result = check_attention(test_device(), piece.attention);
  const HostGradients gradients = check_backward(test_device(), piece).gradients;
  const auto same_rows = [](const HostTensor& a, const HostTensor& b, const Lengths& offsets) {
    return std::equal(a.values.begin() + static_cast<std::ptrdiff_t>(a.index(offsets.front(), 0, 0)),
                      a.values.begin() + static_cast<std::ptrdiff_t>(a.index(offsets.back(), 0, 0)),
                      b.values.begin() + static_cast<std::ptrdiff_t>(b.index(offsets.front(), 0, 0)));
  };
  CHECK(same_rows(result.output, all.output, piece.attention.query_offset));
  CHECK(same_rows(gradients.query, all_gradients.query, piece.attention.query_offset));
  CHECK(same_rows(gradients.key, all_gradients.key, piece.attention.key_offset));
  CHECK(same_rows(gradients.value, all_gradients.value, piece.attention.key_offset));
}

TEST_CASE("an output in the query's place has the bits of one by itself") {
  Device& device = test_device();
  // Grouped heads with a window; few items whose keys are cut into parts.
  Problem grouped = random_problem({150, 1, 20}, {90, 40, 300}, {4, 2}, 40);
  grouped.window = 50;
  for (const Problem& problem : {grouped, random_problem({5, 3}, {1300, 20}, {1, 1}, 64)}) {
    const RunResult apart = check_attention(device, problem);
    TensorOnDevice query(device, problem.query, padded(problem.query), problem.dtype);
    TensorOnDevice key(device, problem.key, std::nullopt, problem.dtype);
    TensorOnDevice value(device, problem.value, std::nullopt, problem.dtype);
    query.fill(problem.query);
    key.fill(problem.key);
    value.fill(problem.value);
    for (TensorOnDevice* tensor : {&query, &key, &value}) tensor->upload();
    const OffsetsOnDevice query_offset(device, problem.query_offset, OffsetType::int32);
    const OffsetsOnDevice key_offset(device, problem.key_offset, OffsetType::int32);
    AttentionCall call;
    call.query = query.tensor();
    call.key = key.tensor();
    call.value = value.tensor();
    call.query_offset = query_offset.offsets();
    call.key_offset = key_offset.offsets();
    call.window = problem.window;
    const Status done = forward(device, call, call.query, 0);
    REQUIRE_MESSAGE(done.ok(), done.message());
    const Status waited = device.synchronize();
    REQUIRE_MESSAGE(waited.ok(), waited.message(), waited.detail());
    HostTensor output;
    Violations violations;
    query.collect("output", std::vector<bool>(static_cast<std::size_t>(problem.query.rows), true), output,
                  violations);
    CHECK(violations.empty());
    CHECK(holds(output, 0, apart.output));
  }
}

}  // namespace
}  // namespace jfa::test
