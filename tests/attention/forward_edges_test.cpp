// Shapes that a covering array of moderate lengths does not reach: long key ranges that are cut into parts,
// many sequences without rows or keys, and nothing at all.
#include <doctest/doctest.h>

#include <vector>

#include "tests/attention/forward_suite_run.h"

namespace jfa::test {
namespace {

using Lengths = std::vector<std::int64_t>;

SuiteProblem own_queries(const Lengths& query, const Lengths& key, Heads heads, std::int64_t head_dim,
                         DType dtype = DType::bf16) {
  SuiteProblem made{flat_problem(query, key, heads, head_dim, dtype), {}};
  randomize(made.problem, 1);
  return made;
}

SuiteProblem broadcast(std::int64_t q_len, const Lengths& key, Heads heads, std::int64_t head_dim,
                       DType dtype = DType::bf16) {
  SuiteProblem made{flat_broadcast_problem(q_len, key, heads, head_dim, dtype), {}};
  randomize(made.problem, 2);
  return made;
}

// Which schedules a problem is run on.
std::uint64_t number_of(const SuiteProblem& made) {
  return static_cast<std::uint64_t>(made.problem.query.rows + made.problem.key.rows);
}

void check_everywhere(const SuiteProblem& made) {
  const std::vector<std::string> devices = suite_devices(Schedules::kAll, number_of(made));
  const std::optional<RunResult> clean = check_on_devices(made, devices);
  if (clean) check_isolation(made, devices.back(), *clean);
}

// `lengths`, then many zeros.
Lengths then_zeros(Lengths lengths, std::size_t zeros) {
  lengths.insert(lengths.end(), zeros, 0);
  return lengths;
}

TEST_CASE("forward edges: key ranges cut into parts") {
  check_everywhere(own_queries({5, 130}, {1300, 1030}, {1, 1}, 128));
  check_everywhere(own_queries({3, 1}, {513, 1537}, {3, 1}, 40, DType::fp16));
}

TEST_CASE("forward edges: parts beside sequences that need none, and a gap-ridden output") {
  SuiteProblem made = broadcast(30, {0, 1100, 512, 1}, {2, 1}, 64);
  made.problem.output_offset = Lengths{2, 32, 67, 97, 130};
  made.options.output = padded(HostTensor(130, 2, 64));
  made.options.output_offset = OffsetType::int64;
  check_everywhere(made);
}

TEST_CASE("forward edges: more parts than a warp has lanes") {
  const SuiteProblem made = own_queries({2, 1}, {17000, 16385}, {1, 1}, 16);
  check_on_devices(made, suite_devices(Schedules::kFew, number_of(made)));
}

TEST_CASE("forward edges: parts of a window") {
  SuiteProblem made = own_queries({129, 700}, {1500, 900}, {1, 1}, 32);
  made.problem.window = 600;
  check_everywhere(made);
}

TEST_CASE("forward edges: parts without LSE, of scale 0") {
  SuiteProblem made = own_queries({2}, {1025}, {1, 1}, 16);
  made.problem.scale = 0;
  made.options.lse = false;
  check_everywhere(made);
}

TEST_CASE("forward edges: many sequences without keys at the end") {
  check_everywhere(own_queries(Lengths(40, 3), then_zeros({140, 1}, 38), {2, 1}, 64));
  check_everywhere(broadcast(4, then_zeros({5, 300}, 40), {2, 2}, 128));
  check_everywhere(broadcast(130, then_zeros({}, 20), {1, 1}, 32));
}

TEST_CASE("forward edges: many sequences without queries or without anything at the end") {
  check_everywhere(own_queries(then_zeros({200, 7}, 60), Lengths(62, 9), {2, 2}, 64));
  check_everywhere(own_queries(then_zeros({64}, 1500), then_zeros({70}, 1500), {1, 1}, 64));
}

TEST_CASE("forward edges: no sequence, no row, no head") {
  for (const bool wide : {false, true}) {
    for (SuiteProblem made :
         {own_queries({}, {}, {2, 1}, 64), broadcast(4, {}, {2, 2}, 64), broadcast(0, {3, 0}, {1, 1}, 64),
          own_queries({0, 0, 0}, {0, 0, 0}, {2, 2}, 64), own_queries({0, 0}, {150, 2}, {2, 2}, 64),
          own_queries({150, 2}, {0, 0}, {2, 2}, 64), own_queries({3, 4}, {2, 5}, {0, 0}, 64)}) {
      made.options.query_offset = made.options.key_offset = wide ? OffsetType::int64 : OffsetType::int32;
      check_on_devices(made, suite_devices(Schedules::kFew, number_of(made)));
    }
  }
}

}  // namespace
}  // namespace jfa::test
