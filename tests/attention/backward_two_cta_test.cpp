// Backwards by clusters of two CTAs: shared queries of any length that fits, sequences of any length that
// fits, what these kernels have edges at, and who takes the rest.
#include <doctest/doctest.h>

#include <algorithm>
#include <limits>
#include <string>
#include <vector>

#include "runtime/device.h"
#include "tests/attention/backward_harness.h"

namespace jfa::test {
namespace {

using Lengths = std::vector<std::int64_t>;

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

// A device of that name, whose calls go to CTA pairs as far as they can, or as `tuning` says. Devices of a
// name are one, with the kernels of its first tuning: another tuning needs another name.
Device pair_device(const std::string& name = "sim:sm_100a?sms=4", const std::string& tuning = "two_cta=2") {
  Device device = Device::open(name).value();
  device.impl().tuning = parse_tuning(tuning).value();
  return device;
}
Device automatic_device() { return pair_device("sim:sm_100a?sms=4&seed=1", "two_cta=1"); }

Problem own_problem(const Lengths& query_lengths, const Lengths& key_lengths, Heads heads,
                    std::int64_t head_dim, std::uint64_t seed) {
  Problem problem = flat_problem(query_lengths, key_lengths, heads, head_dim);
  randomize(problem, seed);
  return problem;
}

Problem shared_problem(std::int64_t query_rows, const Lengths& key_lengths, Heads heads,
                       std::int64_t head_dim, std::uint64_t seed) {
  Problem problem = flat_broadcast_problem(query_rows, key_lengths, heads, head_dim);
  randomize(problem, seed);
  return problem;
}

BackwardResult check(Device& device, const Problem& problem, std::uint64_t seed) {
  return check_backward(device, with_random_gradient(problem, seed, /*lse_gradient=*/true));
}

TEST_CASE("a shared query of every length that fits a pair") {
  Device device = pair_device();
  for (const std::int64_t rows : {1, 4, 30, 64, 65, 126, 127, 128, 129, 130, 192, 193, 255, 256}) {
    CAPTURE(rows);
    check(device, shared_problem(rows, {300, 0, 100, 1}, {1, 1}, 32, static_cast<std::uint64_t>(rows)), 1);
  }
}

TEST_CASE("key tiles of which one CTA has no, one, some, all rows") {
  Device device = pair_device();
  check(device, shared_problem(130, {128, 129, 255, 256, 257, 385, 512, 513}, {2, 2}, 32, 1), 1);
}

TEST_CASE("heads of a group in one tile, in slots that boxes of 8, 16 and 32 rows divide") {
  Device device = pair_device();
  check(device, shared_problem(37, {300, 7}, {6, 1}, 32, 1), 1);  // 6 slots of 40 rows
  check(device, shared_problem(48, {130, 40}, {8, 2}, 32, 2), 2);
  check(device, shared_problem(61, {200}, {4, 1}, 64, 3), 3);
}

TEST_CASE("every width of rows, in turns of both dtypes") {
  Device device = pair_device();
  DType dtype = DType::bf16;
  for (const std::int64_t head_dim : {24, 64, 128}) {
    CAPTURE(head_dim);
    Problem own = own_problem({70, 130}, {150, 256}, {1, 1}, head_dim, 2);
    own.dtype = dtype;
    randomize(own, 4);
    check(device, own, 2);
    dtype = dtype == DType::bf16 ? DType::fp16 : DType::bf16;
    Problem shared = shared_problem(140, {150, 20}, {1, 1}, head_dim, 1);
    shared.dtype = dtype;
    randomize(shared, 3);
    check(device, shared, 1);
  }
}

TEST_CASE("sequences of every length that fits a pair, and longer ones beside them") {
  Device device = pair_device();
  check(device,
        own_problem({1, 64, 129, 256, 257, 600, 0, 5}, {129, 256, 200, 1, 255, 130, 256, 0}, {1, 1}, 32, 1),
        1);
  check(device, own_problem({40, 300, 20, 128}, {257, 300, 100, 128}, {2, 2}, 32, 2), 2);
}

TEST_CASE("sequences by groups of heads") {
  Device device = pair_device();
  check(device, own_problem({70, 3, 300}, {200, 256, 140}, {6, 2}, 32, 1), 1);
}

TEST_CASE("windows through pairs, with queries and keys that see nothing") {
  Device device = pair_device();
  for (const Window& window : {Window(0), Window(150, 20, Alignment::bottom_right)}) {
    CAPTURE(*window.left);
    Problem own = own_problem({700, 150, 40}, {200, 256, 180}, {2, 1}, 32, 1);
    own.window = window;
    check(device, own, 1);
  }
  Problem shared = shared_problem(135, {700, 20}, {1, 1}, 32, 2);
  shared.window = 20;
  check(device, shared, 2);
}

TEST_CASE("only sequences between one and two tiles of keys, unless all are asked for") {
  Device device = automatic_device();
  check(device, own_problem({40, 140, 70, 200, 9}, {128, 129, 256, 257, 0}, {2, 1}, 32, 1), 1);
  check(device, shared_problem(128, {140, 20}, {1, 1}, 32, 2), 2);
  check(device, shared_problem(129, {140, 20}, {1, 1}, 32, 3), 3);
}

TEST_CASE("gradients with strides, and rows of nobody") {
  Device device = pair_device();
  Problem problem = own_problem({20, 90, 30}, {140, 60, 200}, {2, 1}, 24, 5);
  problem.query_offset.back() -= 10;
  problem.key_offset.back() -= 7;
  BackwardRunOptions options;
  options.query_grad = padded(problem.query);
  options.key_grad = head_major(problem.key);
  options.value_grad = padded(problem.value);
  check_backward(device, with_random_gradient(problem, 5, true), options);
}

TEST_CASE("NaN in one sequence of a pair's batch stays there") {
  Device device = pair_device();
  Problem problem = own_problem({70, 130, 20}, {150, 200, 256}, {1, 1}, 32, 6);
  const HostGradients clean = check(device, problem, 6).gradients;
  const auto row = static_cast<std::ptrdiff_t>(problem.key.index(150, 0, 0));
  const auto end = static_cast<std::ptrdiff_t>(problem.key.index(350, 0, 0));
  std::fill(problem.key.values.begin() + row, problem.key.values.begin() + end, kNaN);
  const HostGradients poisoned = run_backward(device, with_random_gradient(problem, 6, true)).gradients;
  const auto same = [&](const HostTensor& a, const HostTensor& b, std::int64_t from, std::int64_t to) {
    for (std::size_t e = a.index(from, 0, 0); e < a.index(to, 0, 0); ++e)
      if (a.values[e] != b.values[e]) return false;
    return true;
  };
  CHECK(same(clean.query, poisoned.query, 0, 70));
  CHECK(same(clean.query, poisoned.query, 200, 220));
  CHECK(same(clean.key, poisoned.key, 0, 150));
  CHECK(same(clean.key, poisoned.key, 350, 606));
}

TEST_CASE("more rows than a pair takes are refused by name if pairs are asked for, and else go elsewhere") {
  const Problem problem = shared_problem(257, {140}, {1, 1}, 32, 7);
  Device automatic = automatic_device();
  check(automatic, problem, 7);
  Device forced = pair_device();
  const BackwardResult refused = run_backward(forced, with_random_gradient(problem, 7));
  CHECK(refused.status.message().find("two_cta") != std::string::npos);
  CHECK(refused.status.message().find("264") != std::string::npos);
  CHECK_FALSE(refused.wrote);
}

}  // namespace
}  // namespace jfa::test
