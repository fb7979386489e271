// What a device's kernels are tuned by is what they run with: every knob at another value than its default,
// regions of tensor memory in other columns, end to end.
#include <doctest/doctest.h>

#include <cmath>
#include <numbers>
#include <string>
#include <vector>

#include "generator/plan/family.h"
#include "runtime/device.h"
#include "runtime/tuned.h"
#include "tests/attention/backward_harness.h"
#include "tests/command_runner.h"
#include "tuning/database.h"

namespace jfa::test {
namespace {

using Lengths = std::vector<std::int64_t>;

// Every test has devices of its own: a device's kernels are loaded once.
Device tuned_device(const std::string& name, const std::string& tuning) {
  Device device = Device::open(name).value();
  device.impl().tuning = parse_tuning(tuning).value();
  return device;
}

Problem own_queries() {
  Problem problem = flat_problem({150, 1, 40}, {300, 7, 0}, {2, 1}, 32);
  randomize(problem, 3);
  return problem;
}

Problem shared_query() {
  Problem problem = flat_broadcast_problem(20, {300, 7}, {2, 1}, 32);
  randomize(problem, 4);
  return problem;
}

void check_all(Device device) {
  for (const Problem& problem : {own_queries(), shared_query()}) {
    check_attention(device, problem);
    check_backward(device, with_random_gradient(problem, 5));
  }
}

}  // namespace

TEST_CASE("10.x with the fewest stages and other columns") {
  check_all(tuned_device(
      "sim:sm_100a?sms=1",
      "query_stages=1,key_value_stages=2,item_stages=3,tensor_order=1,exp_polynomial=16,streamed_tile=32,"
      "streamed_stages=2,short_stages=2,broadcast_stages=2,output_grad_rows=128"));
}

// One key of score 0, a tile further on two of 8 down to -20 in units of log2: 8 is the most by which a row's
// reference lags behind. An LSE shows more digits of an exponential than a 16-bit output does.
TEST_CASE("10.x: exponentials are right to fp32 by the instruction alone, and by the polynomial alone") {
  constexpr std::int64_t kRows = 225, kNearKey = 128;
  Problem problem = flat_problem({kRows}, {kNearKey + 2}, {1, 1}, 16);
  problem.scale = std::numbers::ln2;
  std::vector<double> scores;
  for (std::int64_t i = 0; i < kRows; ++i) {
    const double coarse = 8 - static_cast<double>(i) / 8, fine = -static_cast<double>(i * 37 % 128) / 1024;
    problem.query.at(i, 0, 0) = static_cast<float>(coarse);
    problem.query.at(i, 0, 1) = static_cast<float>(fine);
    problem.query.at(i, 0, 2) = 1;
    scores.push_back(coarse + fine);
  }
  for (std::int64_t j = 1; j < kNearKey; ++j) problem.key.at(j, 0, 2) = -256;
  for (std::int64_t j = kNearKey; j < kNearKey + 2; ++j)
    problem.key.at(j, 0, 0) = problem.key.at(j, 0, 1) = 1;
  for (const char* tuning : {"exp_polynomial=0", "exp_polynomial=16"}) {
    CAPTURE(tuning);
    Device device = tuned_device("sim:sm_100a?sms=1", tuning);
    const RunResult result = check_attention(device, problem);
    for (std::int64_t i = 0; i < kRows; ++i) {
      CAPTURE(i);
      const double right = std::log(1 + 2 * std::exp2(scores[static_cast<std::size_t>(i)]));
      const double got = result.lse[static_cast<std::size_t>(i)];
      // Of the exponential, and roundings of the sum, its logarithm and the product with ln 2.
      CHECK(std::abs(got - right) <= 1.8e-7 + 2 * 0x1p-24 + 2 * 0x1p-24 * right);
    }
  }
}

TEST_CASE("10.x by the pair of entries, with few parts") {
  check_all(
      tuned_device("sim:sm_100a?sms=3",
                   "short_one_pass=0,broadcast_one_pass=0,query_grad_items=4,split_parts=2,split_items=20,"
                   "split_long_items=30,long_key_tiles=64,least_part_tiles=5,broadcast_items=2"));
}

TEST_CASE("9.0 with the fewest stages and other registers") {
  check_all(tuned_device("sim:sm_90a?sms=1",
                         "query_stages=1,key_value_stages=4,item_stages=3,producer_registers=40,"
                         "consumer_registers=224,streamed_stages=3,short_stages=1,broadcast_stages=1,"
                         "output_grad_rows=128"));
}

TEST_CASE("9.0 by the pair of entries, with few parts") {
  check_all(
      tuned_device("sim:sm_90a?sms=3",
                   "short_one_pass=0,broadcast_one_pass=0,query_grad_items=4,split_parts=2,split_items=20,"
                   "split_long_items=30,long_key_tiles=64,least_part_tiles=5,broadcast_items=2"));
}

// The same tuning gives the same bits, wherever it comes from; a database is no licence to try anything.
TEST_CASE("bug-pool 13: with a database the first call is right, the second the same, and inputs stay") {
  const TemporaryDirectory directory;
  Device device = Device::open("sim:sm_90a?sms=2&seed=5").value();
  TuningRecord record;
  record.problem.spec = spec_named("backward-bf16-d32-pma-compute_90a").value();
  record.problem.size = size_class({3, 4, 212, 1}, true);
  record.device = tuned_device(device.impl());
  record.winner = parse_tuning("broadcast_items=1").value();
  REQUIRE(write_record(*posix_file_system(), directory / "db", record).ok());
  REQUIRE(device.use_tuning_database(directory / "db").ok());
  Problem problem = flat_broadcast_problem(4, {9, 3, 200}, {1, 1}, 32);
  randomize(problem, 7);
  const BackwardProblem backward = with_random_gradient(problem, 8);
  const BackwardResult first = check_backward(device, backward);  // also that nothing else is written
  const BackwardResult second = check_backward(device, backward);
  CHECK(first.gradients.query.values == second.gradients.query.values);
  Device named = tuned_device("sim:sm_90a?sms=2&seed=6", "broadcast_items=1");
  CHECK(first.gradients.query.values == check_backward(named, backward).gradients.query.values);
}

TEST_CASE("a value that does not fit is refused by the call") {
  Device device = tuned_device("sim:sm_100a?sms=1&seed=1", "streamed_stages=8");
  Problem problem = flat_problem({8}, {8}, {1, 1}, 128);
  check_attention(device, problem);  // no knob of a forward
  const BackwardResult result = run_backward(device, with_random_gradient(problem, 1));
  CHECK(result.status.message().find("streamed_stages=8: jfa_backward_keys: shared memory") !=
        std::string::npos);
}

}  // namespace jfa::test
