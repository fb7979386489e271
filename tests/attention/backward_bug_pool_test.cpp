// Rows of the public bug pool (docs/bug-pool.md) about gradients: run on the simulator, or on
// JFA_TEST_DEVICE.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <cmath>
#include <functional>
#include <limits>

#include "reference/float16.h"
#include "tests/attention/backward_harness.h"
#include "tests/reference/closed_forms.h"

namespace jfa::test {
namespace {

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

Problem random_problem(const std::vector<std::int64_t>& query_lengths,
                       const std::vector<std::int64_t>& key_lengths, Heads heads, std::int64_t head_dim,
                       std::uint64_t seed, DType dtype = DType::bf16) {
  Problem problem = flat_problem(query_lengths, key_lengths, heads, head_dim, dtype);
  randomize(problem, seed);
  return problem;
}

// Every element of rows [begin, end) is `right`, give or take the roundings of weight and result.
void check_rows(const HostTensor& gradient, std::int64_t begin, std::int64_t end, double right,
                double allowed) {
  for (std::int64_t row = begin; row < end; ++row) {
    for (std::int64_t head = 0; head < gradient.heads; ++head) {
      for (std::int64_t column = 0; column < gradient.head_dim; ++column) {
        const double got = gradient.at(row, head, column);
        if (!(std::abs(got - right) <= allowed)) {
          FAIL_CHECK("row " << row << " head " << head << " column " << column << ": " << got
                            << " instead of " << right);
          return;
        }
      }
    }
  }
}
void check_zero(const HostTensor& gradient, std::int64_t begin, std::int64_t end) {
  check_rows(gradient, begin, end, 0, 0);
}

void check_same(const BackwardResult& a, const BackwardResult& b) {
  const std::string difference = first_difference(a.gradients, b.gradients);
  CHECK_MESSAGE(difference.empty(), difference);
}

TEST_CASE("bug-pool 4: the gradient of the LSE counts, alone and beside the output's") {
  const Problem problem = random_problem({4, 70}, {4, 130}, {2, 1}, 64, 4);
  check_backward(test_device(), with_random_gradient(problem, 4, /*lse_gradient=*/true));
  BackwardProblem sum_of_lse = with_constant_gradient(problem, 0);
  sum_of_lse.incoming.lse.assign(static_cast<std::size_t>(2 * 74), 1.0F);
  const HostGradients gradients = check_backward(test_device(), sum_of_lse).gradients;
  check_zero(gradients.value, 0, 134);
  CHECK(std::abs(gradients.query.at(0, 0, 0)) > 0);
  CHECK(std::abs(gradients.key.at(0, 0, 0)) > 0);
}

TEST_CASE("bug-pool 7: a large score outside the window has no gradient") {
  const Problem problem = closed_forms(7).front().problem;
  const BackwardResult result = check_backward(test_device(), with_constant_gradient(problem, 1));
  const HostTensor& value = result.gradients.value;
  check_rows(value, 0, 1, 1.0 / 2 + 1.0 / 3, 0.01);
  check_rows(value, 1, 2, 1.0 / 2 + 2.0 / 3, 0.01);
  check_rows(value, 2, 38, 1, 0.01);
}

TEST_CASE("bug-pool 8: nothing behind a sequence's end takes part") {
  const BackwardProblem problem =
      with_random_gradient(random_problem({5, 0, 17}, {9, 3, 200}, {2, 2}, 64, 8), 8);
  BackwardRunOptions zeros;
  zeros.workspace_byte = 0;
  const BackwardResult result = check_backward(test_device(), problem);
  check_same(result, check_backward(test_device(), problem, zeros));
  check_zero(result.gradients.key, 9, 12);
  check_zero(result.gradients.value, 9, 12);
}

TEST_CASE("bug-pool 9: the smallest problem") {
  Problem problem = flat_problem({1}, {1}, {1, 1}, 16, DType::fp16);
  randomize(problem, 9, 3.0);
  const BackwardResult result = check_backward(test_device(), with_constant_gradient(problem, 1));
  CHECK(result.output.values == problem.value.values);
  check_rows(result.gradients.value, 0, 1, 1, 0);
  check_rows(result.gradients.query, 0, 1, 0, 1e-3);
  check_rows(result.gradients.key, 0, 1, 0, 1e-3);
}

TEST_CASE("bug-pool 12: gradients are accumulated in fp32") {
  for (const DType dtype : {DType::fp16, DType::bf16}) {
    Problem problem = flat_problem({4096}, {1}, {1, 1}, 64, dtype);
    set_value(problem, [](auto, auto, auto, auto) { return 1.0; });
    const BackwardResult result = check_backward(test_device(), with_constant_gradient(problem, 1));
    check_rows(result.gradients.value, 0, 1, 4096, 0);
  }
}

TEST_CASE("bug-pool 18: sequences without queries or keys, beside long ones") {
  const BackwardResult result = check_backward(
      test_device(),
      with_random_gradient(random_problem({0, 140, 65, 0}, {300, 190, 65, 257}, {2, 2}, 128, 18), 18));
  for (const HostTensor* gradient : {&result.gradients.key, &result.gradients.value}) {
    check_zero(*gradient, 0, 300);
    check_zero(*gradient, 555, 812);
  }
  Problem problem = flat_broadcast_problem(4, {0, 64, 0, 1000}, {1, 1}, 128);
  randomize(problem, 18);
  check_backward(test_device(), with_random_gradient(problem, 18));
}

TEST_CASE("bug-pool 19: a sequence with queries and no keys returns") {
  const BackwardResult result = check_backward(
      test_device(), with_random_gradient(random_problem({64, 64}, {0, 64}, {1, 1}, 128, 19), 19));
  check_zero(result.gradients.query, 0, 64);
}

TEST_CASE("bug-pool 21: empty workloads") {
  check_backward(test_device(), with_random_gradient(random_problem({}, {}, {2, 2}, 64, 21), 21));
  BackwardResult result =
      check_backward(test_device(), with_random_gradient(random_problem({0, 0}, {5, 3}, {2, 2}, 64, 21), 21));
  check_zero(result.gradients.key, 0, 8);
  check_zero(result.gradients.value, 0, 8);
  result =
      check_backward(test_device(), with_random_gradient(random_problem({3, 2}, {0, 0}, {2, 2}, 64, 21), 21));
  check_zero(result.gradients.query, 0, 5);
  // No sequence at all, but rows, in every layout that clearing has to get right.
  Problem spare = random_problem({3}, {7}, {2, 2}, 64, 21);
  spare.query_offset = spare.key_offset = {0};
  for (const auto& layout : {packed, head_major, padded}) {
    BackwardRunOptions options;
    options.query_grad = layout(spare.query);
    options.key_grad = options.value_grad = layout(spare.key);
    result = check_backward(test_device(), with_random_gradient(spare, 21), options);
    check_zero(result.gradients.query, 0, 3);
    check_zero(result.gradients.key, 0, 7);
    check_zero(result.gradients.value, 0, 7);
  }
}

TEST_CASE("bug-pool 22: PMA with no sequence") {
  Problem problem = flat_broadcast_problem(4, {}, {2, 2}, 128);
  randomize(problem, 22);
  check_zero(check_backward(test_device(), with_random_gradient(problem, 22)).gradients.query, 0, 4);
  problem.output_offset = {0};
  check_zero(check_backward(test_device(), with_random_gradient(problem, 22)).gradients.query, 0, 4);
}

TEST_CASE("bug-pool 31: spare rows behind the last offset") {
  Problem problem = random_problem({144, 88, 214}, {144, 88, 214}, {2, 2}, 64, 31);
  problem.query_offset.back() = problem.key_offset.back() = 444;  // of 446 rows
  for (HostTensor* tensor : {&problem.query, &problem.key, &problem.value}) {
    std::fill(tensor->values.begin() + static_cast<std::ptrdiff_t>(tensor->index(444, 0, 0)),
              tensor->values.end(), kNaN);
  }
  const HostGradients gradients = check_backward(test_device(), with_random_gradient(problem, 31)).gradients;
  for (const HostTensor* gradient : {&gradients.query, &gradients.key, &gradients.value})
    check_zero(*gradient, 444, 446);
}

TEST_CASE("bug-pool 33: padded columns stay out of the next row") {
  for (const std::int64_t head_dim : {40, 72, 104}) {
    const Problem problem = random_problem({5, 130}, {5, 130}, {1, 1}, head_dim, 33);
    BackwardRunOptions options;
    options.query_grad = options.key_grad = options.value_grad = padded(problem.query);
    check_backward(test_device(), with_random_gradient(problem, 33), options);
  }
}

TEST_CASE("bug-pool 34: lengths below and beside a tile") {
  for (const ClosedForm& form : closed_forms(34)) {
    CAPTURE(form.what);
    const auto queries = static_cast<double>(form.problem.query.rows);
    const auto keys = static_cast<double>(form.problem.key.rows);
    const HostGradients gradients =
        check_backward(test_device(), with_constant_gradient(form.problem, 1)).gradients;
    check_zero(gradients.query, 0, gradients.query.rows);
    check_zero(gradients.key, 0, gradients.key.rows);
    check_rows(gradients.value, 0, gradients.value.rows, queries / keys, 0.01);
  }
}

TEST_CASE("bug-pool 36: an output gradient of any strides") {
  const Problem problem = random_problem({5, 130}, {5, 130}, {2, 2}, 64, 36);
  const BackwardProblem random = with_random_gradient(problem, 36);
  const BackwardResult right = check_backward(test_device(), random);
  const std::int64_t rows = problem.query.rows;
  const GradientStrides layouts[] = {
      {64, 64 * rows, 1},    // head-major: taken as it lies
      {1, 64 * rows, rows},  // a transposed view
      {2 * 2 * 64, 64, 1},   // every second row of a larger buffer: taken as it lies
      {2 * 64 + 4, 64, 1},   // rows off their alignment
      {2 * 64, 1, 2},        // heads innermost
      {-2 * 64, -64, -1},    // backwards
  };
  for (const GradientStrides& strides : layouts) {
    CAPTURE(strides.row);
    CAPTURE(strides.head);
    BackwardRunOptions options;
    options.output_grad = strides;
    check_same(right, check_backward(test_device(), random, options));
  }
  BackwardRunOptions shifted;
  shifted.shift_output_grad_bytes = 2;
  check_same(right, check_backward(test_device(), random, shifted));

  const BackwardProblem constant = with_constant_gradient(problem, 0.5);
  const BackwardResult right_constant = check_backward(test_device(), constant);
  for (const GradientStrides& strides : {GradientStrides{0, 0, 0}, {0, 64, 1}, {128, 0, 1}}) {
    BackwardRunOptions expanded;
    expanded.output_grad = strides;
    check_same(right_constant, check_backward(test_device(), constant, expanded));
  }
}

TEST_CASE("bug-pool 43: queries without keys") {
  const BackwardResult result =
      check_backward(test_device(), with_constant_gradient(closed_forms(43).front().problem, 1));
  check_zero(result.gradients.query, 0, 5);
  check_zero(result.gradients.value, 0, 3);
  check_zero(result.gradients.value, 3 + 21, 203);
  check_zero(result.gradients.key, 3 + 21, 203);
}

TEST_CASE("bug-pool 44: grouped heads with a window") {
  for (const ClosedForm& form : closed_forms(44)) {
    CAPTURE(form.what);
    check_backward(test_device(), with_random_gradient(form.problem, 44));
  }
}

TEST_CASE("bug-pool 48: the first keys are all masked") {
  const BackwardResult result =
      check_backward(test_device(), with_constant_gradient(closed_forms(48).front().problem, 1));
  check_rows(result.gradients.value, 40, 660, 1, 0.01);
}

TEST_CASE("bug-pool 49: a query without keys does not spoil the shared gradient") {
  Problem problem = flat_broadcast_problem(2, {0, 4}, {1, 1}, 128);
  randomize(problem, 49);
  const BackwardProblem both = with_random_gradient(problem, 49);
  const BackwardResult result = check_backward(test_device(), both);
  BackwardProblem alone = both;
  alone.attention.key_offset = {0, 4};
  alone.incoming.output = HostTensor(2, 1, 128);
  std::copy_n(both.incoming.output.values.begin() + 2 * 128, 2 * 128, alone.incoming.output.values.begin());
  check_same(result, check_backward(test_device(), alone));

  std::vector<std::int64_t> lengths(64, 0);
  lengths[41] = 4;
  problem = flat_broadcast_problem(2, lengths, {1, 1}, 128);
  randomize(problem, 49);
  check_backward(test_device(), with_random_gradient(problem, 49));
}

TEST_CASE("bug-pool 28: offsets that lie leave the gradients alone") {
  const auto refused = [](const Problem& problem, const std::string& part) {
    const BackwardResult result = run_backward(test_device(), with_constant_gradient(problem, 1));
    CHECK(result.status.kind() == ErrorKind::kInvalidArgument);
    CHECK_MESSAGE(result.status.message().find(part) != std::string::npos, result.status.message());
    CHECK_FALSE(result.wrote);
    CHECK(result.violations.empty());
  };
  Problem problem = random_problem({5, 4}, {5, 4}, {1, 1}, 64, 28);
  problem.query_offset = {0, 6, 5};
  refused(problem, "query_offset[2] is 5");
  problem.query_offset = {0, 5, 9};
  problem.key_offset = {0, 5, 10};
  refused(problem, "key_offset[2] is 10");
  problem = flat_broadcast_problem(4, {3, 5}, {1, 1}, 64);
  problem.key_offset = {-1, 3, 8};
  refused(problem, "key_offset[0] is -1");
}

TEST_CASE("bug-pool 53: workspace is sized from totals, in 64 bits") {
  AttentionCall call;
  const std::int64_t batch = 4096;
  const std::int64_t rows = 131072 + batch - 1;
  call.query = Tensor::packed(4096, rows, 32, 128, DType::bf16);
  call.key = call.value = Tensor::packed(4096, 64 * batch, 32, 128, DType::bf16);
  call.query_offset = call.key_offset = {4096, batch + 1, OffsetType::int32};
  OutputGradient output_grad = OutputGradient::of(call.query);
  const std::uint64_t direct_bytes = backward_workspace_bytes(call, output_grad).value();
  CHECK(direct_bytes <= static_cast<std::uint64_t>(rows) * 32 * 8);
  output_grad.dim_stride = 0;
  const std::uint64_t copy_bytes = static_cast<std::uint64_t>(rows) * 32 * 128 * 2;
  CHECK(backward_workspace_bytes(call, output_grad).value() == direct_bytes + copy_bytes);
}

TEST_CASE("bug-pool 56: grouped sequences with the LSE as the forward left it") {
  const HostGradients gradients =
      check_backward(test_device(),
                     with_random_gradient(random_problem({7, 130}, {5, 64}, {4, 4}, 64, 56), 56))
          .gradients;
  for (const HostTensor* gradient : {&gradients.query, &gradients.key, &gradients.value})
    CHECK(gradient->at(gradient->rows - 1, 3, 63) != 0);
}

TEST_CASE("bug-pool 61: the same bits every time, whatever the workspace holds and whoever gives it") {
  Problem problems[] = {random_problem({70, 3, 130}, {200, 3, 65}, {8, 2}, 64, 61),
                        flat_broadcast_problem(30, {200, 0, 3, 65, 1}, {4, 2}, 64)};
  randomize(problems[1], 61);
  for (const Problem& problem : problems) {
    const BackwardProblem with_gradient = with_random_gradient(problem, 61);
    const BackwardResult right = check_backward(test_device(), with_gradient);
    BackwardRunOptions options;
    for (const std::uint8_t byte : {0x00, 0x7f, 0xff}) {
      options.workspace_byte = byte;
      check_same(right, run_backward(test_device(), with_gradient, options));
    }
    options.own_workspace = false;
    check_same(right, run_backward(test_device(), with_gradient, options));
  }
}

TEST_CASE("bug-pool 106: lengths may change between runs without the host's knowing") {
  Problem problem = random_problem({33, 33}, {33, 33}, {1, 1}, 64, 106);  // 66 rows; only the offsets differ
  for (const std::vector<std::int64_t>& lengths :
       {std::vector<std::int64_t>{5, 3}, {64, 1}, {0, 64}, {0, 0}, {65, 1}}) {
    problem.query_offset = problem.key_offset = offsets_of(lengths);
    check_backward(test_device(), with_random_gradient(problem, 106));
  }
}

}  // namespace
}  // namespace jfa::test
