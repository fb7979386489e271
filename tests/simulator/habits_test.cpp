// Rules of PTX that a run can leave out: each is kept by default, with a report, and none is missed without
// it.
#include "simulator/machine/habits.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <string>

#include "simulator/driver/options.h"
#include "tests/simulator/async.h"

namespace jfa::simulator::habits_test {

namespace {

// Four warps, whose first has allocated 256 columns of tensor memory at %r2; %r3 is the lane of each warp's
// own.
const std::string kBegin = R"(
  mov.u32 %t, %tid.x;
  shr.u32 %r1, %t, 5;
  setp.eq.u32 %first, %t, 0;
  setp.eq.u32 %p, %r1, 0;
  @%first mbarrier.init.shared::cta.b64 [bar], 1;
  @!%p bra ALLOCATED;
  tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [bar+8], 256;
ALLOCATED:
  tcgen05.fence::before_thread_sync;
  bar.sync 0;
  tcgen05.fence::after_thread_sync;
  ld.shared.u32 %r2, [bar+8];
  shl.b32 %r3, %r1, 21;
  add.u32 %r3, %r3, %r2;
)";
const std::string kEnd = R"(
  tcgen05.fence::before_thread_sync;
  bar.sync 0;
  tcgen05.fence::after_thread_sync;
  @!%p bra FREED;
  tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r2, 256;
FREED:
  mul.wide.u32 %a, %t, 4;
  add.u64 %a, %out, %a;
  st.global.u32 [%a], %r4;
)";

// A product that reads its A from tensor memory, then one whose accumulator takes the place of that A. All
// zeros: 128 x 64 x 16 halves, K-major in rows of 128 bytes, swizzled, 1024 bytes from 8 rows to the next.
const std::string kProducts = R"(
  mov.u32 %r4, 0;
  mov.u32 %r5, 0;
  shl.b32 %r6, %t, 7;
  mov.u32 %r7, tile;
  add.u32 %r6, %r6, %r7;
FILL:
  st.shared.v4.u32 [%r6], {%r4, %r4, %r4, %r4};
  add.u32 %r6, %r6, 16;
  add.u32 %r5, %r5, 1;
  setp.lt.u32 %q, %r5, 8;
  @%q bra FILL;
  tcgen05.st.sync.aligned.32x32b.x8.b32 [%r3], {%r4, %r4, %r4, %r4, %r4, %r4, %r4, %r4};
  tcgen05.wait::st.sync.aligned;
  fence.proxy.async.shared::cta;
  tcgen05.fence::before_thread_sync;
  bar.sync 0;
  tcgen05.fence::after_thread_sync;
  @!%first bra WAIT;
  shr.u32 %r7, %r7, 4;
  cvt.u64.u32 %a, %r7;
  or.b64 %a, %a, 0x4000404000010000;
  mov.u32 %r8, 0x08100010;
  add.u32 %r9, %r2, 128;
  setp.ne.u32 %q, %r4, 0;
  tcgen05.mma.cta_group::1.kind::f16 [%r9], [%r2], %a, %r8, %q;
  tcgen05.mma.cta_group::1.kind::f16 [%r2], %a, %a, %r8, %q;
  tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [bar];
WAIT:
  mbarrier.try_wait.parity.shared::cta.b64 %q, [bar], 0;
  @!%q bra WAIT;
)";

struct Case {
  std::string rule;
  std::string body;
  std::string part;     // of the report, with the rule
  bool values = false;  // whether thread i leaves i
  std::uint32_t threads = 128;
};

}  // namespace

TEST_CASE("a rule that is broken is reported, and left out it is not") {
  const Case cases[] = {
      {"load_waits",
       kBegin + R"(
         tcgen05.st.sync.aligned.32x32b.x1.b32 [%r3], {%t};
         tcgen05.wait::st.sync.aligned;
         tcgen05.ld.sync.aligned.32x32b.x1.b32 {%r4}, [%r3];
         add.u32 %r5, %r4, 1;
         tcgen05.st.sync.aligned.32x32b.x1.b32 [%r3], {%r5};
         tcgen05.wait::st.sync.aligned;)" +
           kEnd,
       "a destination of tcgen05.ld", true},
      {"load_lanes",
       kBegin + R"(
         tcgen05.st.sync.aligned.32x32b.x1.b32 [%r3], {%t};
         tcgen05.wait::st.sync.aligned;
         tcgen05.ld.sync.aligned.32x32b.x1.b32 {%r4}, [%r2];
         tcgen05.wait::ld.sync.aligned;)" +
           kEnd,
       "it may touch lanes", true},
      {"product_waits", kBegin + kProducts + kEnd,
       "writes tensor memory lanes 0..127, columns 0..63 while tcgen05.mma is still in flight there"},
      {"commit_waits",
       kBegin + R"(
         @%first tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [bar];
         mov.u32 %r4, 0;)" +
           kEnd,
       "tcgen05.commit"},
      {"lane_issues", R"(
         mov.u32 %t, %tid.x;
         shl.b32 %r1, %t, 2;
         mov.u32 %r2, tile;
         add.u32 %r1, %r1, %r2;
         st.shared.u32 [%r1], %t;
         fence.proxy.async.shared::cta;
         bar.warp.sync 0xffffffff;
         cp.async.bulk.global.shared::cta.bulk_group [%out], [tile], 128;
         cp.async.bulk.commit_group;
         cp.async.bulk.wait_group 0;)",
       "nothing orders the two", true, 32},
      {"lane_issues", "mbarrier.init.shared::cta.b64 [bar], 1;", "mbarrier.inval has to come first", false,
       32},
      {"exit_bytes", R"(
         setp.eq.u32 %first, %tid.x, 0;
         @%first mbarrier.init.shared::cta.b64 [bar], 1;
         @%first mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], 16;)",
       "the CTA has exited", false, 32},
      {"exit_races", R"(
         mov.u32 %t, %tid.x;
         setp.eq.u32 %first, %t, 0;
         setp.lt.u32 %p, %t, 32;
         @%p bra STAYS;
         setp.eq.u32 %q, %t, 32;
         @%q st.shared.u32 [tile], %t;
         ret;
       STAYS:
         barrier.cluster.arrive.release.aligned;
         barrier.cluster.wait.acquire.aligned;
         @%first st.shared.u32 [tile], %t;)",
       "nothing orders the two", false, 64},
  };
  for (const Case& c : cases)
    for (const RunOptions& schedule : all_schedules()) {
      CAPTURE(c.rule);
      CAPTURE(std::string(to_string(schedule.schedule)));
      PtxRun strict(c.body);
      strict.options = schedule;
      const LaunchResult reported = strict.launch(c.threads);
      CHECK_FALSE(reported.ok);
      CHECK_MESSAGE(reported.report.text().find(c.part) != std::string::npos, reported.report.text());
      const auto rule = std::find_if(ptx_rules().begin(), ptx_rules().end(),
                                     [&](const PtxRule& r) { return r.name == c.rule; });
      REQUIRE(rule != ptx_rules().end());
      PtxRun lax(c.body);
      lax.options = schedule;
      lax.options.*rule->member = false;
      const LaunchResult silent = lax.launch(c.threads);
      CHECK_MESSAGE(silent.ok, silent.report.text());
      for (std::uint32_t i = 0; c.values && i < c.threads; ++i) CHECK(lax.output<std::uint32_t>(i) == i);
    }
}

TEST_CASE("without product_waits, threads that issue products still have to agree on their order") {
  // Warp 1 issues the second product, and nothing tells it of the first.
  std::string body = kBegin + kProducts + kEnd;
  const std::string second = "  tcgen05.mma.cta_group::1.kind::f16 [%r2], %a, %a, %r8, %q;\n";
  const std::size_t at = body.find(second);
  REQUIRE(at != std::string::npos);
  body.erase(at, second.size());
  const std::string wait = "WAIT:\n";
  body.insert(body.find(wait), R"(
    bra WAIT;
  )");
  body.replace(body.find("@!%first bra WAIT;"), 18, R"(
    setp.eq.u32 %q, %t, 32;
    @!%q bra OTHERS;
    shr.u32 %r7, %r7, 4;
    cvt.u64.u32 %a, %r7;
    or.b64 %a, %a, 0x4000404000010000;
    mov.u32 %r8, 0x08100010;
    setp.ne.u32 %q, %r4, 0;
    tcgen05.mma.cta_group::1.kind::f16 [%r2], %a, %a, %r8, %q;
  OTHERS:
    @!%first bra WAIT;)");
  for (const RunOptions& schedule : all_schedules()) {
    PtxRun run(body);
    run.options = schedule;
    run.options.product_waits = false;
    const LaunchResult result = run.launch(128);
    REQUIRE_FALSE(result.ok);
    CHECK_MESSAGE(result.report.kind == ErrorKind::kRace, result.report.text());
  }
}

TEST_CASE("sets of rules by whose habits they are") {
  RunOptions triton;
  REQUIRE(take_habits("triton", triton));
  CHECK_FALSE(triton.tensor_fences);
  CHECK_FALSE(triton.constant_races);
  CHECK(triton.product_waits);
  CHECK(triton.dynamic_shared_alignment == 1024);
  const auto named = parse_device_name("sim:sm_100a?habits=triton&load_waits=1");
  REQUIRE_MESSAGE(named.ok(), named.status().message());
  for (const PtxRule& rule : ptx_rules())
    CHECK(named->run.*rule.member == (rule.name == "load_waits" || triton.*rule.member));
  RunOptions cutlass;
  REQUIRE(take_habits("cutlass", cutlass));
  CHECK_FALSE(cutlass.product_waits);
  CHECK(cutlass.tensor_fences);
  CHECK(cutlass.constant_races);
  RunOptions nobody;
  CHECK_FALSE(take_habits("nobody", nobody));
  const auto refused = parse_device_name("sim:sm_100a?habits=nobody");
  REQUIRE_FALSE(refused.ok());
  CHECK(refused.status().message().find("habits=nobody: must be one of cutlass, triton") !=
        std::string::npos);
}

}  // namespace jfa::simulator::habits_test
