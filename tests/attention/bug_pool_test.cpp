// Rows of the public bug pool (docs/bug-pool.md) that end in a kernel: run on the simulator, or on
// JFA_TEST_DEVICE.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <cmath>
#include <limits>
#include <span>

#include "reference/float16.h"
#include "tests/attention/harness.h"
#include "tests/reference/closed_forms.h"
#include "tools/device_buffer.h"

namespace jfa::test {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

Problem random_problem(const std::vector<std::int64_t>& query_lengths,
                       const std::vector<std::int64_t>& key_lengths, Heads heads, std::int64_t head_dim,
                       std::uint64_t seed) {
  Problem problem = flat_problem(query_lengths, key_lengths, heads, head_dim);
  randomize(problem, seed);
  return problem;
}

// The output against the form's own answer: bit for bit where that is promised, else within one rounding of P
// and of the result.
void check_output(const ClosedForm& form, const RunResult& result) {
  for (std::int64_t row = 0; row < result.output.rows; ++row) {
    for (std::int64_t head = 0; head < result.output.heads; ++head) {
      for (std::int64_t column = 0; column < result.output.head_dim; ++column) {
        const double right = form.output(row, head, column);
        if (std::isnan(right)) continue;
        const double got = result.output.at(row, head, column);
        const double allowed =
            form.exact_output ? 0 : 4 * unit_roundoff(form.problem.dtype) * std::abs(right);
        if (!(std::abs(got - right) <= allowed)) {
          FAIL_CHECK("row " << row << " head " << head << " column " << column << ": " << got
                            << " instead of " << right);
          return;
        }
      }
    }
  }
}

void check_lse(const ClosedForm& form, const RunResult& result) {
  for (std::int64_t row = 0; row < result.output.rows; ++row) {
    for (std::int64_t head = 0; head < result.output.heads; ++head) {
      const double right = form.lse(row, head);
      if (std::isnan(right)) continue;
      const float got = result.lse[static_cast<std::size_t>(head * result.output.rows + row)];
      CAPTURE(row);
      CAPTURE(head);
      if (std::isinf(right) || form.exact_lse) {
        CHECK(static_cast<double>(got) == right);
      } else {
        const double ulp = std::nextafter(std::abs(got), kInfinity) - std::abs(got);
        CHECK(std::abs(got - right) <= std::max(1e-3, 4 * ulp));
      }
    }
  }
}

void check_closed_forms(int bug) {
  for (const ClosedForm& form : closed_forms(bug)) {
    CAPTURE(form.what);
    const RunResult result = check_attention(test_device(), form.problem);
    check_output(form, result);
    if (form.lse) check_lse(form, result);
  }
}

// Bit patterns of two results are the same.
bool same_bits(const RunResult& a, const RunResult& b) {
  const auto bits = [](const std::vector<float>& values) { return std::as_bytes(std::span(values)); };
  const auto equal = [&](const std::vector<float>& x, const std::vector<float>& y) {
    return std::equal(bits(x).begin(), bits(x).end(), bits(y).begin(), bits(y).end());
  };
  return equal(a.output.values, b.output.values) && equal(a.lse, b.lse);
}

TEST_CASE("bug-pool 1: scores far below every sentinel") { check_closed_forms(1); }
TEST_CASE("bug-pool 2: one very negative score is still the only one") { check_closed_forms(2); }
TEST_CASE("bug-pool 3: the LSE is a natural logarithm") { check_closed_forms(3); }
TEST_CASE("bug-pool 7: a large score outside the window has no weight") { check_closed_forms(7); }
TEST_CASE("bug-pool 11: every element in its place") { check_closed_forms(11); }
TEST_CASE("bug-pool 16: longest query 1, and a sequence without any") { check_closed_forms(16); }
TEST_CASE("bug-pool 17: fewer tokens than sequences") { check_closed_forms(17); }
TEST_CASE("bug-pool 34: lengths below and beside a tile") { check_closed_forms(34); }
TEST_CASE("bug-pool 37: the window includes both ends") { check_closed_forms(37); }
TEST_CASE("bug-pool 38: window 0 is the diagonal") { check_closed_forms(38); }
TEST_CASE("bug-pool 42: rows behind the last key") { check_closed_forms(42); }
TEST_CASE("bug-pool 43: queries without keys") { check_closed_forms(43); }
TEST_CASE("bug-pool 44: grouped heads with a window") { check_closed_forms(44); }
TEST_CASE("bug-pool 47: longer than the window") { check_closed_forms(47); }
TEST_CASE("bug-pool 48: the first keys are all masked") { check_closed_forms(48); }

TEST_CASE("bug-pool 3: partial attentions merge by their LSE") {
  const Problem whole = random_problem({5}, {200}, {1, 1}, 64, 3);
  const auto part = [&](std::int64_t begin, std::int64_t end) {
    Problem problem = whole;
    problem.key_offset = {0, end - begin};
    for (HostTensor* tensor : {&problem.key, &problem.value}) {
      HostTensor rows(end - begin, tensor->heads, tensor->head_dim);
      std::copy_n(tensor->values.begin() + static_cast<std::ptrdiff_t>(tensor->index(begin, 0, 0)),
                  rows.values.size(), rows.values.begin());
      *tensor = rows;
    }
    return check_attention(test_device(), problem);
  };
  const RunResult right = check_attention(test_device(), whole);
  const RunResult a = part(0, 70);
  const RunResult b = part(70, 200);
  for (std::int64_t row = 0; row < 5; ++row) {
    const auto r = static_cast<std::size_t>(row);
    const double merged = std::log(std::exp(a.lse[r]) + std::exp(b.lse[r]));
    CHECK(std::abs(merged - right.lse[r]) <= 1e-3);
    for (std::int64_t column = 0; column < 64; ++column) {
      const double output = a.output.at(row, 0, column) * std::exp(a.lse[r] - merged) +
                            b.output.at(row, 0, column) * std::exp(b.lse[r] - merged);
      CHECK(std::abs(output - right.output.at(row, 0, column)) <= 0.01);
    }
  }
}

TEST_CASE("bug-pool 6: what an earlier kernel left on the chip does not matter") {
  for (const std::int64_t head_dim : {64, 128}) {
    Problem poison = flat_problem({256, 256}, {512, 512}, {1, 1}, head_dim);
    for (HostTensor* tensor : {&poison.query, &poison.key, &poison.value}) {
      std::fill(tensor->values.begin(), tensor->values.end(), kNaN);
    }
    const Problem small = random_problem({1, 1}, {1, 1}, {1, 1}, head_dim, 6);
    for (int repeat = 0; repeat < 3; ++repeat) {
      REQUIRE(run_attention(test_device(), poison).status.ok());
      const RunResult result = check_attention(test_device(), small);
      CHECK(result.output.values == small.value.values);
      for (const float lse : result.lse) CHECK(std::isfinite(lse));
    }
  }
}

TEST_CASE("bug-pool 18: sequences without queries or keys, beside long ones") {
  check_attention(test_device(), random_problem({0, 140, 65, 0}, {300, 190, 65, 257}, {2, 2}, 128, 18));
  Problem problem = flat_broadcast_problem(4, {0, 64, 0, 3072}, {1, 1}, 128);
  randomize(problem, 18);
  check_attention(test_device(), problem);
}

TEST_CASE("bug-pool 19: a sequence with queries and no keys returns") {
  const RunResult result = check_attention(test_device(), random_problem({64, 64}, {0, 64}, {1, 1}, 128, 19));
  for (std::size_t row = 0; row < 64; ++row) {
    CHECK(result.lse[row] == -kInfinity);
    CHECK(result.output.at(static_cast<std::int64_t>(row), 0, 0) == 0);
  }
}

TEST_CASE("bug-pool 21: empty workloads") {
  check_attention(test_device(), random_problem({}, {}, {2, 2}, 64, 21));
  check_attention(test_device(), random_problem({0, 0}, {5, 3}, {2, 2}, 64, 21));
  const RunResult result = check_attention(test_device(), random_problem({3, 2}, {0, 0}, {2, 2}, 64, 21));
  for (const float value : result.output.values) CHECK(value == 0);
  for (const float lse : result.lse) CHECK(lse == -kInfinity);
}

TEST_CASE("bug-pool 22: PMA with no sequence") {
  Problem problem = flat_broadcast_problem(4, {}, {2, 2}, 128);
  randomize(problem, 22);
  check_attention(test_device(), problem);
  problem.output_offset = {0};
  CHECK(check_attention(test_device(), problem).output.rows == 0);
}

TEST_CASE("bug-pool 23: every sequence equals its solo run") {  // a quarter of the lengths, for the
                                                                // simulator's sake
  const std::vector<std::int64_t> lengths{318, 323, 336, 319, 326, 335, 88};
  const Problem problem = random_problem(lengths, lengths, {1, 1}, 128, 23);
  check_attention(test_device(), problem);  // against fp64, which knows each sequence by itself
}

TEST_CASE("bug-pool 24: strides of dimensions of extent 1 are ignored") {
  Problem problem = random_problem({1}, {1}, {32, 8}, 128, 24);
  problem.scale = -1;
  for (const std::int64_t row_stride : {1, 0, 999}) {
    RunOptions options;
    for (auto* strides : {&options.query, &options.key, &options.value, &options.output}) {
      *strides = Strides{row_stride, 128};
    }
    const RunResult result = check_attention(test_device(), problem, options);
    for (std::int64_t head = 0; head < 32; ++head) {
      for (std::int64_t column = 0; column < 128; ++column) {
        CHECK(result.output.at(0, head, column) == problem.value.at(0, head / 4, column));
      }
    }
  }
}

TEST_CASE("bug-pool 26: nothing leaks between sequences, and missing offsets are refused") {
  check_closed_forms(26);
  Problem problem = random_problem({2, 3}, {2, 3}, {1, 1}, 64, 26);
  problem.query_offset.clear();
  check_refused(test_device(), problem, {"query_offset.count 0"});
  problem = random_problem({2, 3}, {2, 3}, {1, 1}, 64, 26);
  problem.key_offset.clear();
  check_refused(test_device(), problem, {"key_offset.count 0"}, {.output_rows = 5});
}

TEST_CASE("bug-pool 27: head counts that do not divide are refused by both their numbers") {
  for (const Heads heads : {Heads{33, 2}, Heads{3, 2}, Heads{2, 3}, Heads{2, 0}}) {
    const Problem problem = random_problem({4}, {4}, heads, 64, 27);
    check_refused(test_device(), problem,
                  {fmt::format("query.heads {}", heads.query), fmt::format("key.heads {}", heads.key_value)});
  }
}

TEST_CASE("bug-pool 28: corrupted offsets are refused with index and value") {
  struct Case {
    std::vector<std::int64_t> offsets;
    const char* what;
  };
  for (const Case& bad :
       {Case{{0, 5, 3, 9}, "[2] is 3"}, Case{{0, -4}, "[1] is -4"}, Case{{-1, 3}, "[0] is -1"}}) {
    for (const OffsetType type : {OffsetType::int32, OffsetType::int64}) {
      const std::vector<std::int64_t> good(bad.offsets.size() - 1, 3);
      const RunOptions options{.query_offset = type, .key_offset = type};
      Problem problem = random_problem(good, good, {1, 1}, 64, 28);
      problem.query_offset = bad.offsets;
      check_refused(test_device(), problem, {fmt::format("query_offset{}", bad.what)}, options);
      problem = random_problem(good, good, {1, 1}, 64, 28);
      problem.key_offset = bad.offsets;
      check_refused(test_device(), problem, {fmt::format("key_offset{}", bad.what)}, options);
    }
  }
  Problem problem = random_problem({3}, {3}, {1, 1}, 64, 28);  // wider than 32 bits
  problem.key_offset = {0, (std::int64_t{1} << 32) + 3};
  check_refused(test_device(), problem, {"key_offset[1] is 4294967299"}, {.key_offset = OffsetType::int64});
}

TEST_CASE("bug-pool 28: output rows that overlap are refused with index and value") {
  Problem problem = flat_broadcast_problem(4, {3, 5}, {1, 1}, 64);
  randomize(problem, 28);
  problem.output_offset = {1, 4, 9};  // sequence 0 needs rows 1 … 4
  check_refused(test_device(), problem, {"output_offset[1] is 4"});
  problem.output_offset = {1, 6, 12};
  check_refused(test_device(), problem, {"output_offset[2] is 12"}, {.output_rows = 11});
  problem.output_offset = {1, 6, 11};
  check_attention(test_device(), problem);
}

TEST_CASE("bug-pool 29: offsets of the whole batch on a slice of it") {
  Problem problem = random_problem({80, 20}, {80, 20}, {1, 1}, 64, 29);
  problem.query_offset = problem.key_offset = {0, 80, 160};
  check_refused(test_device(), problem, {"query_offset[2] is 160"});
  problem.query_offset = {0, 80, 100};
  check_refused(test_device(), problem, {"key_offset[2] is 160"});
}

TEST_CASE("bug-pool 31: spare rows behind the last offset") {
  Problem problem = random_problem({144, 288, 514}, {144, 288, 514}, {2, 2}, 64, 31);
  problem.query_offset.back() = problem.key_offset.back() = 944;  // of 946 rows
  for (HostTensor* tensor : {&problem.query, &problem.key, &problem.value}) {
    std::fill(tensor->values.begin() + static_cast<std::ptrdiff_t>(tensor->index(944, 0, 0)),
              tensor->values.end(), kNaN);
  }
  const RunResult result = check_attention(test_device(), problem);
  CHECK(std::isnan(result.output.at(944, 0, 0)));  // untouched: still poison
  CHECK(std::isnan(result.output.at(945, 1, 63)));
}

TEST_CASE("bug-pool 32: every head_dim is right or refused") {
  const std::vector<std::int64_t> dims = supported_head_dims();
  for (const std::int64_t head_dim : {8, 24, 40, 72, 96, 120, 136}) {
    CAPTURE(head_dim);
    const bool listed = std::find(dims.begin(), dims.end(), head_dim) != dims.end();
    CHECK(listed == (head_dim <= 128));
    const Problem problem = random_problem({33, 7}, {33, 7}, {2, 2}, head_dim, 32);
    if (listed) {
      check_attention(test_device(), problem);
    } else {
      check_refused(test_device(), problem, {fmt::format("head_dim {}", head_dim)});
    }
  }
  check_refused(test_device(), random_problem({4}, {4}, {2, 2}, 12, 32), {"12"});
}

TEST_CASE("bug-pool 39: a negative window is refused") {
  Problem problem = random_problem({9}, {9}, {1, 1}, 64, 39);
  problem.window = -3;
  check_refused(test_device(), problem, {"window -3"});
}

TEST_CASE("bug-pool 41: windows that cover everything equal no window") {
  Problem problem = random_problem({65}, {65}, {1, 1}, 64, 41);
  const RunResult right = check_attention(test_device(), problem);
  for (const std::int64_t window : {std::int64_t{64}, std::int64_t{65}, std::int64_t{INT32_MAX}, INT64_MAX}) {
    CAPTURE(window);
    problem.window = window;
    const RunResult result = check_attention(test_device(), problem);
    for (std::size_t i = 0; i < right.output.values.size(); ++i) {
      const float value = right.output.values[i];
      CHECK(std::abs(result.output.values[i] - value) <= 4 * unit_roundoff(DType::bf16) * std::abs(value));
    }
    for (std::size_t i = 0; i < right.lse.size(); ++i) CHECK(std::abs(result.lse[i] - right.lse[i]) <= 1e-5);
  }
}

TEST_CASE("bug-pool 53: workspace is sized from totals, in 64 bits") {
  AttentionCall call;
  const std::int64_t batch = 4096;
  const std::int64_t rows = 131072 + batch - 1;
  call.query = Tensor::packed(4096, rows, 32, 128, DType::bf16);
  call.key = call.value = Tensor::packed(4096, 64 * batch, 32, 128, DType::bf16);
  call.query_offset = call.key_offset = {4096, batch + 1, OffsetType::int32};
  const std::uint64_t total_bytes = static_cast<std::uint64_t>(rows) * 32 * 128 * 4;
  CHECK(workspace_bytes(call).value() <= total_bytes);
}

TEST_CASE("bug-pool 57: bases off their alignment are refused, and the next call works") {
  const Problem problem = random_problem({5}, {7}, {2, 2}, 64, 57);
  for (const std::uint64_t shift : {2, 8}) {
    RunOptions options;
    options.shift_query_bytes = shift;
    check_refused(test_device(), problem, {"query.address", "16"}, options);
  }
  check_attention(test_device(), problem);
}

TEST_CASE("bug-pool 61: the same bits twice, from a poisoned workspace") {
  const Problem problem = random_problem({70, 3, 130}, {200, 3, 65}, {8, 2}, 64, 61);
  const RunOptions options{.deterministic = true};
  CHECK(same_bits(check_attention(test_device(), problem, options),
                  check_attention(test_device(), problem, options)));
}

TEST_CASE("bug-pool 64: a neighbour that grows moves a row by one ulp at most") {  // a tenth of the keys
  RunResult results[2];
  for (const int grown : {0, 1}) {
    Problem problem = flat_problem({1, 9 + grown}, {1980, 9 + grown}, {7, 1}, 64);
    Problem first = random_problem({1}, {1980}, {7, 1}, 64, 64);
    randomize(problem, 65);
    std::copy(first.query.values.begin(), first.query.values.end(), problem.query.values.begin());
    std::copy(first.key.values.begin(), first.key.values.end(), problem.key.values.begin());
    std::copy(first.value.values.begin(), first.value.values.end(), problem.value.values.begin());
    results[grown] = check_attention(test_device(), problem);
  }
  for (std::int64_t head = 0; head < 7; ++head) {
    for (std::int64_t column = 0; column < 64; ++column) {
      const float a = results[0].output.at(0, head, column);
      const float b = results[1].output.at(0, head, column);
      CHECK(std::abs(a - b) <= 2 * unit_roundoff(DType::bf16) * std::max(std::abs(a), std::abs(b)));
    }
  }
}

TEST_CASE("bug-pool 66: NaN of an earlier, unrelated run does not come back") {  // 4 of the 64 heads
  Problem problem =
      random_problem({33, 11, 11, 11, 11, 11, 12}, {272, 192, 240, 64, 288, 544, 448}, {4, 1}, 128, 66);
  Problem poison = problem;
  std::fill(poison.value.values.begin(), poison.value.values.end(), kNaN);
  REQUIRE(run_attention(test_device(), poison).status.ok());
  const RunResult once = check_attention(test_device(), problem);
  REQUIRE(run_attention(test_device(), poison).status.ok());
  CHECK(same_bits(once, check_attention(test_device(), problem)));
}

TEST_CASE("bug-pool 78: two kernels of one process do not mix") {
  Problem problem = random_problem({40}, {40}, {2, 2}, 64, 78);
  for (const std::int64_t window : {4, 5}) {
    problem.window = window;
    check_attention(test_device(), problem);
  }
  problem.window.reset();
  for (const double scale : {0.1, 0.2}) {
    problem.scale = scale;
    check_attention(test_device(), problem);
  }
  problem.query_offset.clear();
  problem.broadcast_q = true;
  check_attention(test_device(), problem);
}

TEST_CASE("bug-pool 106: lengths may change between runs without the host's knowing") {
  // One set of tensors of 66 rows; only the device's offsets differ.
  Problem problem = random_problem({33, 33}, {33, 33}, {1, 1}, 64, 106);
  for (const std::vector<std::int64_t>& lengths :
       {std::vector<std::int64_t>{5, 3}, {64, 1}, {0, 64}, {0, 0}, {65, 1}}) {
    problem.query_offset = problem.key_offset = offsets_of(lengths);
    check_attention(test_device(), problem);
  }
  problem.query_offset = problem.key_offset = offsets_of({65, 2});
  check_refused(test_device(), problem, {"query_offset[2] is 67"});
}

}  // namespace
}  // namespace jfa::test
