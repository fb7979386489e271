// cp.async, st.async and red.async: what single threads start.
#include <doctest/doctest.h>

#include "tests/simulator/async.h"

namespace jfa::simulator::async_copy_test {

namespace {

// Thread i copies 16 bytes from in + 16 i to tile + 16 i.
const std::string kCopy = R"(
  mov.u32 %t, %tid.x;
  setp.eq.u32 %first, %t, 0;
  shl.b32 %r2, %t, 4;
  mov.u32 %r1, tile;
  add.u32 %r1, %r1, %r2;
  cvt.u64.u32 %a, %r2;
  add.u64 %b, %out, %a;
  add.u64 %a, %in, %a;
  cp.async.cg.shared.global [%r1], [%a], 16;
)";
const std::string kCopyOut = R"(
  ld.shared.u32 %r4, [%r1+4];
  st.global.u32 [%b], %r4;
)";

LaunchResult launch(PtxRun& run, const RunOptions& options) {
  for (std::uint32_t i = 0; i < 1024; ++i) run.input<std::uint32_t>()[i] = i;
  run.options = options;
  return run.launch(64);
}

}  // namespace

TEST_CASE("a thread waits for its groups") {
  for (const char* wait : {"cp.async.commit_group;\n cp.async.wait_group 0;\n", "cp.async.wait_all;\n"})
    for (const RunOptions& options : all_schedules()) {
      PtxRun run(kCopy + wait + kCopyOut);
      const LaunchResult result = launch(run, options);
      REQUIRE_MESSAGE(result.ok, result.report.text());
      for (std::uint32_t i = 0; i < 64; ++i) CHECK(run.output<std::uint32_t>(4 * i) == 4 * i + 1);
    }
}

TEST_CASE("or for the mbarrier that its copies arrive on") {
  for (const bool noinc : {false, true})
    for (const RunOptions& options : all_schedules()) {
      PtxRun run(std::string(R"(
        mov.u32 %t, %tid.x;
        setp.eq.u32 %first, %t, 0;
        @%first mbarrier.init.shared::cta.b64 [bar], 64;
        bar.sync 0;
      )") + kCopy +
                 (noinc ? "cp.async.mbarrier.arrive.noinc.shared::cta.b64 [bar];\n"
                        : "cp.async.mbarrier.arrive.shared::cta.b64 [bar];\n mbarrier.arrive.shared::cta.b64 "
                          "_, [bar];\n") +
                 R"(
      W: mbarrier.try_wait.parity.shared::cta.b64 %p, [bar], 0;
        @!%p bra W;
      )" + kCopyOut);
      const LaunchResult result = launch(run, options);
      REQUIRE_MESSAGE(result.ok, result.report.text());
      for (std::uint32_t i = 0; i < 64; ++i) CHECK(run.output<std::uint32_t>(4 * i) == 4 * i + 1);
    }
}

TEST_CASE("a short source is followed by zeros") {
  PtxRun run(kCopy +
             "add.u32 %r1, %r1, 2048;\n cp.async.ca.shared.global [%r1], [%a], 8, 4;\n cp.async.wait_all;\n" +
             kCopyOut);
  const LaunchResult result = launch(run, {});
  REQUIRE_MESSAGE(result.ok, result.report.text());
  for (std::uint32_t i = 0; i < 64; ++i) CHECK(run.output<std::uint32_t>(4 * i) == 0);
}

TEST_CASE("reading too early, or letting an engine read without a proxy fence") {
  struct Case {
    std::string body;
    ErrorKind kind;
    std::string part;
  };
  const Case cases[] = {
      {kCopy + kCopyOut, ErrorKind::kInFlight, "written by cp.async"},
      {kCopy + "cp.async.wait_group 0;\n" + kCopyOut, ErrorKind::kInFlight,
       "written by cp.async"},  // not committed
      {kCopy + "add.u64 %a, %a, 4;\n cp.async.ca.shared.global [%r1], [%a], 16;\n", ErrorKind::kMisaligned,
       "aligned"},
      {kCopy + R"(
         cp.async.wait_all;
         bar.sync 0;
         @%first cp.async.bulk.global.shared::cta.bulk_group [%out], [tile], 64;
       )",
       ErrorKind::kMissingFence, "without fence.proxy.async"},
  };
  for (const Case& c : cases)
    for (const RunOptions& options : all_schedules()) {
      PtxRun run(c.body);
      const LaunchResult result = launch(run, options);
      REQUIRE_MESSAGE(!result.ok, c.part);
      CHECK_MESSAGE(result.report.kind == c.kind, result.report.text());
      CHECK_MESSAGE(result.report.text().find(c.part) != std::string::npos, result.report.text());
    }
}

TEST_CASE("what cp.async wrote is fenced by its threads, or by those who have learnt of it") {
  const std::string store =
      "@%first cp.async.bulk.global.shared::cta.bulk_group [%out], [tile], 64;\n"
      "@%first cp.async.bulk.commit_group;\n@%first cp.async.bulk.wait_group 0;\n";
  for (const char* fence :
       {"fence.proxy.async;\nbar.sync 0;\n", "bar.sync 0;\nfence.proxy.async.shared::cta;\n",
        "bar.sync 0;\n@%first fence.proxy.async.shared::cta;\n"})
    for (const RunOptions& options : all_schedules()) {
      CAPTURE(std::string(fence));
      PtxRun run(kCopy + "cp.async.wait_all;\n" + fence + store);
      const LaunchResult result = launch(run, options);
      CHECK_MESSAGE(result.ok, result.report.text());
    }
}

TEST_CASE("st.async and red.async write to a peer and signal its barrier") {
  for (const RunOptions& options : all_schedules()) {
    PtxRun run(R"(
      mov.u32 %t, %tid.x;
      mov.u32 %r9, %cluster_ctarank;
      setp.eq.u32 %first, %t, 0;
      @%first mbarrier.init.shared::cta.b64 [bar], 1;
      @%first st.shared.u32 [tile], 100;
      fence.mbarrier_init.release.cluster;
      barrier.cluster.arrive.aligned;
      barrier.cluster.wait.aligned;
      @%first mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], 384;
      xor.b32 %r4, %r9, 1;
      mov.u32 %r5, tile;
      mapa.shared::cluster.u32 %r6, %r5, %r4;
      mov.u32 %r7, bar;
      mapa.shared::cluster.u32 %r7, %r7, %r4;
      red.async.relaxed.cluster.shared::cluster.mbarrier::complete_tx::bytes.add.u32 [%r6], %t, [%r7];
      shl.b32 %r2, %t, 3;
      add.u32 %r6, %r6, %r2;
      st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v2.b32 [%r6+64], {%t, %r9}, [%r7];
    W: mbarrier.try_wait.parity.shared::cta.b64 %p, [bar], 0;
      @!%p bra W;
      add.u32 %r5, %r5, %r2;
      ld.shared.u32 %r1, [%r5+64];
      ld.shared.u32 %r3, [%r5+68];
      mad.lo.u32 %r1, %r3, 1000, %r1;
      mul.lo.u32 %r8, %r9, 1024;
      mul.wide.u32 %a, %t, 4;
      add.u64 %a, %out, %a;
      mul.wide.u32 %b, %r8, 1;
      add.u64 %a, %a, %b;
      st.global.u32 [%a], %r1;
      @%first ld.shared.u32 %r1, [tile];
      @%first st.global.u32 [%a+512], %r1;
      barrier.cluster.arrive.aligned;
      barrier.cluster.wait.aligned;
    )");
    run.options = options;
    run.cluster = 2;
    const LaunchResult result = run.launch(32, 2);
    REQUIRE_MESSAGE(result.ok, result.report.text());
    for (std::uint32_t rank = 0; rank < 2; ++rank) {
      for (std::uint32_t i = 0; i < 32; ++i)
        CHECK(run.output<std::uint32_t>(rank * 256 + i) == (1 - rank) * 1000 + i);
      CHECK(run.output<std::uint32_t>(rank * 256 + 128) == 100 + 31 * 32 / 2);
    }
  }
}

}  // namespace jfa::simulator::async_copy_test
