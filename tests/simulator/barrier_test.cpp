// Named barriers, the cluster's barrier, deadlock reports.
#include <doctest/doctest.h>

#include "tests/simulator/one_op.h"

namespace jfa::simulator::test::barrier_test {
namespace {

std::vector<std::uint32_t> check_runs(const std::string& ptx, std::size_t words, RunShape shape) {
  std::vector<std::uint32_t> first;
  for (std::uint64_t seed = 0; seed < 6; ++seed) {
    shape.options.schedule = seed == 0 ? Schedule::kEager : seed == 1 ? Schedule::kLazy : Schedule::kRandom;
    shape.options.seed = seed;
    const Run run = run_kernel(ptx, words, shape);
    REQUIRE_MESSAGE(run.result.ok, run.failure());
    if (seed == 0) first = run.output;
    CHECK(run.output == first);
  }
  return first;
}

void check_refused(const std::string& ptx, RunShape shape, ErrorKind kind, const std::string& part) {
  for (std::uint64_t seed = 0; seed < 4; ++seed) {
    shape.options.schedule = seed == 0 ? Schedule::kEager : seed == 1 ? Schedule::kLazy : Schedule::kRandom;
    shape.options.seed = seed;
    const Run run = run_kernel(ptx, 8, shape);
    REQUIRE_MESSAGE(run.load_error.empty(), run.load_error);
    REQUIRE_FALSE(run.result.ok);
    INFO(run.result.report.text());
    CHECK(run.result.report.kind == kind);
    CHECK(run.result.report.text().find(part) != std::string::npos);
  }
}

TEST_CASE("values pass between warps through bar.sync, round after round") {
  const auto out = check_runs(kernel_text(R"(
    .shared .align 4 .b8 ring[512];
    mov.u32 %r0, %tid.x;
    mov.u32 %r1, ring;
    mad.lo.u32 %r2, %r0, 4, %r1;
    add.u32 %r3, %r0, 33; and.b32 %r3, %r3, 127; mad.lo.u32 %r3, %r3, 4, %r1;
    mov.u32 %r4, %r0;
    mov.u32 %r5, 0;
    LOOP:
    st.shared.u32 [%r2], %r4;
    bar.sync 0;
    ld.shared.u32 %r6, [%r3];
    add.u32 %r4, %r6, 1;
    bar.sync 0;
    add.u32 %r5, %r5, 1;
    setp.lt.u32 %p0, %r5, 10;
    @%p0 bra LOOP;
    mad.wide.u32 %rd0, %r0, 4, %out;
    st.global.u32 [%rd0], %r4;
    ret;)"),
                              128, {.block = {128, 1, 1}});
  for (std::uint32_t i = 0; i < 128; ++i) CHECK(out[i] == (i + 330) % 128 + 10);
}

TEST_CASE("producers arrive, consumers sync on a named barrier") {
  const auto out = check_runs(kernel_text(R"(
    .shared .align 4 .b8 tile[128];
    mov.u32 %r0, %tid.x;
    mov.u32 %r1, tile;
    and.b32 %r2, %r0, 31;
    mad.lo.u32 %r2, %r2, 4, %r1;
    setp.ge.u32 %p0, %r0, 32;
    @%p0 bra CONSUMER;
    mul.lo.u32 %r3, %r0, 3;
    st.shared.u32 [%r2], %r3;
    bar.arrive 5, 64;
    ret;
    CONSUMER:
    bar.sync 5, 64;
    ld.shared.u32 %r4, [%r2];
    mad.wide.u32 %rd0, %r0, 4, %out;
    st.global.u32 [%rd0], %r4;
    ret;)"),
                              64, {.block = {64, 1, 1}});
  for (std::uint32_t i = 32; i < 64; ++i) CHECK(out[i] == 3 * (i - 32));
}

TEST_CASE("bar.red counts and combines over the CTA") {
  const auto out = check_runs(kernel_text(R"(
    mov.u32 %r0, %tid.x;
    setp.lt.u32 %p0, %r0, 40;
    bar.red.popc.u32 %r1, 0, %p0;
    bar.red.and.pred %p1, 0, %p0;
    bar.red.or.pred %p2, 0, !%p0;
    selp.u32 %r2, 1, 0, %p1; selp.u32 %r3, 1, 0, %p2;
    setp.eq.u32 %p3, %r0, 0;
    @%p3 st.global.v4.u32 [%out], {%r1, %r2, %r3, %r3};
    ret;)"),
                              4, {.block = {96, 1, 1}});
  CHECK(out == std::vector<std::uint32_t>{40, 0, 1, 1});
}

TEST_CASE("threads that have left are not awaited by a full barrier") {
  check_runs(kernel_text(R"(
    mov.u32 %r0, %tid.x;
    setp.ge.u32 %p0, %r0, 64;
    @%p0 ret;
    bar.sync 0;
    ret;)"),
             1, {.block = {96, 1, 1}});
}

TEST_CASE("misuse of barriers") {
  check_refused(kernel_text("bar.sync 3, 48; ret;"), {}, ErrorKind::kBarrier, "48");
  check_refused(kernel_text("mov.u32 %r0, 16; bar.sync %r0; ret;"), {}, ErrorKind::kBarrier, "0 to 15");
  check_refused(kernel_text(R"(
    mov.u32 %r0, %tid.x; shr.u32 %r0, %r0, 5; add.u32 %r1, %r0, 2; shl.b32 %r1, %r1, 5;
    bar.sync 1, %r1; ret;)"),
                {.block = {64, 1, 1}}, ErrorKind::kBarrier, "open round");
}

TEST_CASE("a deadlock names who waits, where and for what") {
  const std::string ptx = kernel_text(R"(
    mov.u32 %r0, %tid.x;
    setp.ge.u32 %p0, %r0, 32;
    @%p0 bra OTHER;
    bar.sync 1, 64;
    ret;
    OTHER:
    bar.sync 2, 64;
    ret;)");
  check_refused(ptx, {.block = {64, 1, 1}}, ErrorKind::kDeadlock, "barrier 1: 32 of 64 threads have arrived");
  check_refused(ptx, {.block = {64, 1, 1}}, ErrorKind::kDeadlock, "barrier 2: 32 of 64 threads have arrived");
  check_refused(ptx, {.block = {64, 1, 1}}, ErrorKind::kDeadlock, "bar.sync 2, 64;");
}

TEST_CASE("a poll that nobody answers is a livelock, not a hang") {
  check_refused(
      kernel_text("SPIN: ld.volatile.global.u32 %r0, [%out]; setp.eq.u32 %p0, %r0, 0; @%p0 bra SPIN; ret;"),
      {}, ErrorKind::kLivelock, "ld.volatile");
  RunShape shape;
  shape.options.instruction_budget = 10'000;
  check_refused(kernel_text("SPIN: bra SPIN;"), shape, ErrorKind::kLivelock, "10000");
}

TEST_CASE("clusters: ranks, each other's shared memory, the cluster's barrier") {
  const auto out = check_runs(kernel_text(R"(
    .shared .align 4 .b32 cell;
    mov.u32 %r0, %cluster_ctarank;
    mov.u32 %r1, %ctaid.x;
    mov.u32 %r2, cell;
    mad.lo.u32 %r3, %r1, 10, 7;
    mov.u32 %r10, %tid.x;
    setp.eq.u32 %p0, %r10, 0;
    @%p0 st.shared.u32 [%r2], %r3;
    barrier.cluster.arrive.aligned;
    barrier.cluster.wait.aligned;
    xor.b32 %r4, %r0, 1;
    mapa.shared::cluster.u32 %r5, %r2, %r4;
    ld.shared::cluster.u32 %r6, [%r5];
    shr.u32 %r7, %r5, 24;
    barrier.cluster.arrive.aligned;
    barrier.cluster.wait.aligned;
    mul.lo.u32 %r8, %r1, 4;
    mad.wide.u32 %rd0, %r8, 4, %out;
    mov.u32 %r9, %clusterid.x;
    @%p0 st.global.v4.u32 [%rd0], {%r6, %r7, %r0, %r9};
    ret;)"),
                              16, {.grid = {4, 1, 1}, .block = {64, 1, 1}, .cluster = {2, 1, 1}});
  CHECK(out == std::vector<std::uint32_t>{17, 1, 0, 0, 7, 0, 1, 0, 37, 1, 0, 1, 27, 0, 1, 1});
}

TEST_CASE("touching the shared memory of a CTA that has left is refused") {
  RunShape shape{.grid = {2, 1, 1}, .block = {32, 1, 1}, .cluster = {2, 1, 1}};
  const Run run = run_kernel(kernel_text(R"(
    .shared .align 4 .b32 cell;
    mov.u32 %r0, %cluster_ctarank;
    mov.u32 %r2, cell;
    st.shared.u32 [%r2], %r0;
    setp.eq.u32 %p0, %r0, 0;
    @%p0 ret;
    nanosleep.u32 100;
    mapa.shared::cluster.u32 %r5, %r2, 0;
    ld.shared::cluster.u32 %r6, [%r5];
    ret;)"),
                             1, shape);
  REQUIRE_FALSE(run.result.ok);
  CHECK(run.result.report.message.find("has exited") != std::string::npos);
}

TEST_CASE("arriving twice at the cluster's barrier, or waiting without arriving") {
  const RunShape shape{.grid = {2, 1, 1}, .cluster = {2, 1, 1}};
  check_refused(kernel_text("barrier.cluster.wait.aligned; ret;"), shape, ErrorKind::kBarrier,
                "without having arrived");
  check_refused(kernel_text("mov.u32 %r0, %cluster_ctarank; setp.eq.u32 %p0, %r0, 1; @%p0 bra TWICE;"
                            "barrier.cluster.wait.aligned; ret;"
                            "TWICE: barrier.cluster.arrive.aligned; barrier.cluster.arrive.aligned; ret;"),
                shape, ErrorKind::kBarrier, "");
}

}  // namespace
}  // namespace jfa::simulator::test::barrier_test
