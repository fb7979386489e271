// Warps: shuffles, votes, elect, redux, match; divergence and where it ends.
#include <doctest/doctest.h>

#include "tests/simulator/one_op.h"

namespace jfa::simulator::test::warp_test {
namespace {

using V32 = std::vector<std::uint32_t>;

Column lane_numbers() {
  Column c{32, {}};
  for (std::uint64_t i = 0; i < 32; ++i) c.values.push_back(i);
  return c;
}

std::vector<std::uint32_t> lanes(std::uint32_t (*f)(std::uint32_t)) {
  V32 v;
  for (std::uint32_t i = 0; i < 32; ++i) v.push_back(f(i));
  return v;
}

const Schedule kSchedules[] = {Schedule::kEager, Schedule::kLazy, Schedule::kRandom};

// Runs a kernel on every schedule, two seeds of the random one; all must give the same.
V32 run_everywhere(const std::string& ptx, std::size_t words, RunShape shape = {}) {
  V32 first;
  for (const Schedule schedule : kSchedules)
    for (std::uint64_t seed = 0; seed < (schedule == Schedule::kRandom ? 4u : 1u); ++seed) {
      shape.options.schedule = schedule;
      shape.options.seed = seed;
      const Run run = run_kernel(ptx, words, shape);
      REQUIRE_MESSAGE(run.result.ok, run.failure());
      if (first.empty()) first = run.output;
      CHECK(run.output == first);
    }
  return first;
}

TEST_CASE("shfl.sync: four modes, segments, the predicate") {
  const std::vector<Column> in = {lane_numbers()};
  CHECK(run_op32("shfl.sync.bfly.b32 %d, %a, 5, 31, -1;", in) ==
        lanes([](std::uint32_t i) { return i ^ 5; }));
  CHECK(run_op32("shfl.sync.idx.b32 %d, %a, 7, 31, -1;", in) == lanes([](std::uint32_t) { return 7u; }));
  CHECK(run_op32("shfl.sync.up.b32 %d, %a, 3, 0, -1;", in) ==
        lanes([](std::uint32_t i) { return i < 3 ? i : i - 3; }));
  CHECK(run_op32("shfl.sync.down.b32 %d|%p, %a, 4, 31, -1; selp.b32 %t0, 100, 0, %p; add.u32 %d, %d, %t0;",
                 in) == lanes([](std::uint32_t i) { return i + 4 > 31 ? i : i + 104; }));
  // Segments of 8 (mask 0x18): idx 9 wraps to 1 within each.
  CHECK(run_op32("shfl.sync.idx.b32 %d, %a, 9, 0x181f, -1;", in) ==
        lanes([](std::uint32_t i) { return (i & 24) + 1; }));
  CHECK(run_op32("shfl.sync.down.b32 %d, %a, 2, 0x181f, -1;", in) ==
        lanes([](std::uint32_t i) { return (i & 7) + 2 > 7 ? i : i + 2; }));
}

TEST_CASE("vote") {
  const std::vector<Column> in = {lane_numbers()};
  CHECK(run_op32("setp.lt.u32 %p, %a, 5; vote.sync.ballot.b32 %d, %p, -1;", in)[9] == 31);
  CHECK(run_op("setp.lt.u32 %q, %a, 5; vote.sync.any.pred %p, %q, -1;", 1, in)[31] == 1);
  CHECK(run_op("setp.lt.u32 %q, %a, 5; vote.sync.all.pred %p, %q, -1;", 1, in)[0] == 0);
  CHECK(run_op("setp.lt.u32 %q, %a, 50; vote.sync.uni.pred %p, %q, -1;", 1, in)[0] == 1);
}

TEST_CASE("redux and match") {
  const std::vector<Column> in = {lane_numbers()};
  CHECK(run_op32("redux.sync.add.u32 %d, %a, -1;", in)[3] == 496);
  CHECK(run_op32("sub.s32 %t0, 10, %a; redux.sync.min.s32 %d, %t0, -1;", in)[3] ==
        static_cast<std::uint32_t>(-21));
  CHECK(run_op32("redux.sync.xor.b32 %d, %a, -1;", in)[3] == 0);
  CHECK(run_op32("and.b32 %t0, %a, 1; match.any.sync.b32 %d, %t0, -1;", in)[4] == 0x55555555);
  CHECK(run_op32("match.all.sync.b32 %d|%p, %a, -1;", in)[4] == 0);
  CHECK(run_op32("cvt.rn.f32.u32 %t0, %a; redux.sync.max.f32 %d, %t0, -1;", in)[0] == bits_of(31.0f));
}

TEST_CASE("elect.sync picks the lowest member") {
  const std::vector<Column> in = {lane_numbers()};
  CHECK(run_op32("elect.sync %d|%p, -1; selp.b32 %t0, 100, 0, %p; add.u32 %d, %d, %t0;", in) ==
        lanes([](std::uint32_t i) { return i == 0 ? 100u : 0u; }));
  // Lanes 5 and up alone.
  CHECK(run_op32("mov.u32 %d, 99; setp.ge.u32 %q, %a, 5; @!%q bra SKIP; elect.sync %d|%p, 0xffffffe0; SKIP:",
                 in) == lanes([](std::uint32_t i) { return i < 5 ? 99u : 5u; }));
}

TEST_CASE("divergent paths meet again") {
  const V32 out = run_everywhere(kernel_text(R"(
    mov.u32 %r0, %tid.x;
    and.b32 %r1, %r0, 3;
    setp.eq.u32 %p0, %r1, 0;
    @%p0 bra ZERO;
    setp.eq.u32 %p1, %r1, 1;
    @%p1 bra ONE;
    mov.u32 %r2, 20;
    bra.uni JOIN;
    ONE: mov.u32 %r2, 10;
    bra.uni JOIN;
    ZERO: mov.u32 %r2, 5;
    JOIN:
    activemask.b32 %r3;
    popc.b32 %r3, %r3;
    mad.lo.u32 %r2, %r3, 1000, %r2;
    mad.wide.u32 %rd0, %r0, 4, %out;
    st.global.u32 [%rd0], %r2;
    ret;)"),
                                 32);
  for (std::uint32_t i = 0; i < 32; ++i) CHECK(out[i] == 32000u + (i % 4 == 0 ? 5u : i % 4 == 1 ? 10u : 20u));
}

TEST_CASE("a loop that lanes leave at different times") {
  const V32 out = run_everywhere(kernel_text(R"(
    mov.u32 %r0, %tid.x;
    mov.u32 %r1, 0;
    mov.u32 %r2, 0;
    LOOP:
    add.u32 %r1, %r1, %r2;
    add.u32 %r2, %r2, 1;
    setp.le.u32 %p0, %r2, %r0;
    @%p0 bra LOOP;
    activemask.b32 %r3;
    mad.wide.u32 %rd0, %r0, 8, %out;
    st.global.v2.u32 [%rd0], {%r1, %r3};
    ret;)"),
                                 64);
  for (std::uint32_t i = 0; i < 32; ++i) {
    CHECK(out[2 * i] == i * (i + 1) / 2);
    CHECK(out[2 * i + 1] == 0xffffffffu);
  }
}

TEST_CASE("lanes that leave early are not waited for") {
  const V32 out = run_everywhere(kernel_text(R"(
    mov.u32 %r0, %tid.x;
    setp.lt.u32 %p0, %r0, 7;
    @%p0 ret;
    bar.warp.sync 0xffffffff;
    vote.sync.ballot.b32 %r1, 1, 0xffffffff;
    mad.wide.u32 %rd0, %r0, 4, %out;
    st.global.u32 [%rd0], %r1;
    bar.sync 0;
    ret;)"),
                                 32);
  CHECK(out[0] == 0);
  CHECK(out[31] == 0xffffff80u);
}

TEST_CASE("an elected lane may spin while the others wait at a sync") {
  const V32 out = run_everywhere(kernel_text(R"(
    .shared .align 4 .b32 flag;
    mov.u32 %r0, %tid.x;
    setp.ne.u32 %p0, %r0, 0;
    @%p0 bra INITIALISED;
    mov.u32 %r1, 0;
    st.shared.u32 [flag], %r1;
    INITIALISED:
    bar.sync 0;
    setp.ne.u32 %p1, %r0, 33;
    @%p1 bra NOT_SETTER;
    mov.u32 %r1, 1;
    st.volatile.shared.u32 [flag], %r1;
    NOT_SETTER:
    @%p0 bra BEHIND;
    SPIN:
    ld.volatile.shared.u32 %r2, [flag];
    setp.eq.u32 %p2, %r2, 0;
    @%p2 bra SPIN;
    BEHIND:
    bar.warp.sync 0xffffffff;
    activemask.b32 %r3;
    mad.wide.u32 %rd0, %r0, 4, %out;
    st.global.u32 [%rd0], %r3;
    ret;)"),
                                 64, {.block = {64, 1, 1}});
  for (const std::uint32_t mask : out) CHECK(mask == 0xffffffffu);
}

TEST_CASE("lanes of one warp that wait for each other make progress") {
  // Lane 0 spins until lane 1, which must pass the point where they would meet, has written.
  const V32 out = run_everywhere(kernel_text(R"(
    mov.u32 %r0, %tid.x;
    setp.ne.u32 %p0, %r0, 0;
    @%p0 bra MEET;
    SPIN:
    ld.volatile.global.u32 %r2, [%out];
    setp.eq.u32 %p2, %r2, 0;
    @%p2 bra SPIN;
    MEET:
    setp.ne.u32 %p1, %r0, 1;
    @%p1 bra DONE;
    mov.u32 %r1, 7;
    st.volatile.global.u32 [%out], %r1;
    DONE:
    ret;)"),
                                 1);
  CHECK(out[0] == 7);
}

TEST_CASE("shfl with a lane that takes no part is refused") {
  const Run run = run_kernel(kernel_text(R"(
    mov.u32 %r0, %tid.x;
    setp.ge.u32 %p0, %r0, 16;
    @%p0 bra SKIP;
    shfl.sync.idx.b32 %r1, %r0, 20, 31, 0xffff;
    SKIP: ret;)"),
                             1);
  REQUIRE_FALSE(run.result.ok);
  CHECK(run.result.report.kind == ErrorKind::kDivergence);
  CHECK(run.result.report.message.find("lane 20") != std::string::npos);
}

TEST_CASE("an aligned instruction in a divergent branch is refused") {
  const std::string divergent = kernel_text(R"(
    mov.u32 %r0, %tid.x;
    setp.ge.u32 %p0, %r0, 16;
    @%p0 bra SKIP;
    bar.sync 0;
    SKIP: bar.sync 0; ret;)");
  for (const Schedule schedule : kSchedules) {
    RunShape shape;
    shape.options.schedule = schedule;
    const Run run = run_kernel(divergent, 1, shape);
    REQUIRE_FALSE(run.result.ok);
    CHECK(run.result.report.kind == ErrorKind::kDivergence);
    CHECK(run.result.report.instruction == "bar.sync 0;");
    CHECK(run.result.report.detail.find("0xffff0000") != std::string::npos);
  }
  const Run guarded =
      run_kernel(kernel_text("mov.u32 %r0, %tid.x; setp.eq.u32 %p0, %r0, 0; @%p0 bar.sync 0; ret;"), 1);
  REQUIRE_FALSE(guarded.result.ok);
  CHECK(guarded.result.report.kind == ErrorKind::kDivergence);
}

TEST_CASE("a member mask that excludes its lane is refused") {
  const Run run = run_kernel(kernel_text("vote.sync.ballot.b32 %r1, 1, 0xfffffffe; ret;"), 1);
  REQUIRE_FALSE(run.result.ok);
  CHECK(run.result.report.kind == ErrorKind::kDivergence);
}

}  // namespace
}  // namespace jfa::simulator::test::warp_test
