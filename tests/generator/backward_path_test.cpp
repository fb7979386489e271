// Which entries a backward call takes, as far as the host knows it.
#include "generator/backward_path.h"

#include <doctest/doctest.h>

#include <string>

#include "generator/tuning.h"
#include "generator/workspace.h"

namespace jfa::test {
namespace {

KernelSpec backward_spec(bool broadcast_q, int groups) {
  KernelSpec spec;
  spec.pass = Pass::backward;
  spec.broadcast_q = broadcast_q;
  spec.groups = groups;
  return spec;
}

// The plan with a value of the knob two_cta: 0 off, 1 auto, 2 on.
KernelPlan with_two_cta(const KernelSpec& spec, int two_cta) {
  return plan(spec, Tuning{{{"two_cta", two_cta}}}).value();
}
KernelPlan shared_query(int groups, int two_cta) {
  return with_two_cta(backward_spec(true, groups), two_cta);
}

BackwardPath path(const KernelPlan& plan, std::int64_t query_rows, bool has_clusters = true) {
  const Result<BackwardPath> found = backward_path(plan, query_rows, has_clusters);
  REQUIRE_MESSAGE(found.ok(), found.status().message());
  return *found;
}

// Of a target that may not have the knob.
KernelPlan without_two_cta(const KernelSpec& spec) {
  KernelPlan planned = plan(spec).value();
  return planned.backward().two_cta ? with_two_cta(spec, 0) : planned;
}

TEST_CASE("a shared query takes its own entry as long as its group's heads fit a tile") {
  for (const Target target : all_targets()) {
    KernelSpec spec = backward_spec(true, 1);
    spec.target = target;
    const KernelPlan one = without_two_cta(spec);
    CHECK(path(one, 128) == BackwardPath::kOneCta);
    CHECK(path(one, 129) == BackwardPath::kByLength);
    spec.groups = 3;  // 3 * 40 and 3 * 48 rows
    const KernelPlan three = without_two_cta(spec);
    CHECK(path(three, 40) == BackwardPath::kOneCta);
    CHECK(path(three, 41) == BackwardPath::kByLength);
  }
}

TEST_CASE("two_cta auto: a shared query of more than one tile's rows and up to two") {
  const KernelPlan one = shared_query(1, 1);
  CHECK(path(one, 128) == BackwardPath::kOneCta);
  CHECK(path(one, 129) == BackwardPath::kTwoCta);
  CHECK(path(one, 256) == BackwardPath::kTwoCta);
  CHECK(path(one, 257) == BackwardPath::kByLength);
  const KernelPlan four = shared_query(4, 1);  // 4 * 32, 40, 64 and 72 rows
  CHECK(path(four, 32) == BackwardPath::kOneCta);
  CHECK(path(four, 33) == BackwardPath::kTwoCta);
  CHECK(path(four, 64) == BackwardPath::kTwoCta);
  CHECK(path(four, 65) == BackwardPath::kByLength);
}

TEST_CASE("two_cta on: every shared query that fits, and one that does not is refused with its numbers") {
  const KernelPlan four = shared_query(4, 2);
  CHECK(path(four, 1) == BackwardPath::kTwoCta);
  CHECK(path(four, 64) == BackwardPath::kTwoCta);
  const Status refused = backward_path(four, 100, true).status();
  CHECK(refused.kind() == ErrorKind::kUnsupported);
  CHECK(refused.message() ==
        "two_cta = 2 (on), but groups 4 x q_len 100 rounded up to 104 are 416 rows, more than 256");
}

TEST_CASE("a device that places no clusters takes the entries that a plan without pairs takes") {
  const KernelPlan one = shared_query(1, 1);
  CHECK(path(one, 128, false) == BackwardPath::kOneCta);
  CHECK(path(one, 129, false) == BackwardPath::kByLength);
  CHECK(two_cta_keys(with_two_cta(backward_spec(false, 1), 1), false).empty());
}

TEST_CASE("without the entry of one CTA a shared query takes that of pairs only where it would have") {
  const KernelPlan one = plan(backward_spec(true, 1), Tuning{{{"broadcast_one_pass", 0}}}).value();
  CHECK(path(one, 100) == BackwardPath::kByLength);
  CHECK(path(one, 200) == BackwardPath::kTwoCta);
}

TEST_CASE("sequences of so many keys go to pairs of CTAs") {
  const auto keys = [](int two_cta) {
    const KernelPlan own = with_two_cta(backward_spec(false, 2), two_cta);
    CHECK(path(own, 1'000) == BackwardPath::kByLength);
    return two_cta_keys(own, true);
  };
  CHECK(keys(0).empty());
  CHECK(keys(1).least == 129);
  CHECK(keys(1).most == 256);
  CHECK(keys(2).least == 1);
  CHECK(keys(2).most == 256);
  CHECK(two_cta_keys(shared_query(1, 2), true).empty());
}

TEST_CASE("no box of the query's side has rows of two heads' slots") {
  CHECK(two_cta_box_rows(backward_spec(false, 4), 100) ==
        32);  // a head's rows lie in the tensor by themselves
  CHECK(two_cta_box_rows(backward_spec(true, 1), 100) == 32);
  CHECK(two_cta_box_rows(backward_spec(true, 4), 64) == 32);
  CHECK(two_cta_box_rows(backward_spec(true, 4), 41) == 16);  // slots of 48 rows
  CHECK(two_cta_box_rows(backward_spec(true, 4), 40) == 8);
}

TEST_CASE("the workspace has room for what pairs of CTAs take") {
  const auto map_of = [](bool broadcast_q, WorkspaceShape call) {
    return backward_workspace_map(plan(backward_spec(broadcast_q, 1)).value(), {call, 1'000, 128, false});
  };
  CHECK(map_of(false, {3, 40, 400, 2}).two_cta_tile_capacity == 3);
  CHECK(map_of(false, {100, 40, 400, 2}).two_cta_tile_capacity == 40);  // no query has two sequences
  CHECK(map_of(true, {3, 200, 400, 2}).two_cta_tile_capacity == 0);
  // 1000 keys in one sequence, with those that nobody owns: at most 3 + 3 tiles of 256, 7 + 3 of 128.
  const BackwardWorkspaceMap map = map_of(true, {1, 256, 1'000, 2});
  CHECK(map.two_cta_part_capacity == 6);
  CHECK(map.broadcast_part_capacity == 10);
  CHECK(map.bytes - map.partial_query_grad >= 6 * 2 * 256 * 128 * sizeof(float));
}

}  // namespace
}  // namespace jfa::test
