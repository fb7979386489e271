// TMA and bulk copies between the CTAs of a cluster.
#include <doctest/doctest.h>

#include "tests/simulator/tma_support.h"

namespace jfa::simulator::tma_cluster_test {

namespace {

// Both CTAs of a pair have their barriers before either goes on; %r9 is the rank.
const std::string kClusterPrologue = R"(
  mov.u32 %t, %tid.x;
  mov.u32 %r9, %cluster_ctarank;
  setp.eq.u32 %first, %t, 0;
  @%first mbarrier.init.shared::cta.b64 [bar], 1;
  @%first fence.mbarrier_init.release.cluster;
  barrier.cluster.arrive.relaxed.aligned;
  barrier.cluster.wait.aligned;
)";
const std::string kClusterEnd = R"(
  barrier.cluster.arrive.aligned;
  barrier.cluster.wait.aligned;
)";
// Each CTA copies its first 64 bytes to its own part of the output.
const std::string kCopyFirst = R"(
  mov.u32 %r1, tile;
  shl.b32 %r2, %t, 2;
  add.u32 %r1, %r1, %r2;
  setp.lt.u32 %q, %t, 16;
  @%q ld.shared.u32 %r4, [%r1];
  mad.lo.u32 %r2, %r9, 1024, %r2;
  cvt.u64.u32 %a, %r2;
  add.u64 %a, %out, %a;
  @%q st.global.u32 [%a], %r4;
)";

}  // namespace

TEST_CASE("multicast: every CTA of the mask gets the box and the bytes") {
  PtxRun run(kClusterPrologue + R"(
    @%first mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], 16384;
    setp.eq.u32 %p, %r9, 1;
    and.pred %p, %p, %first;
    mov.b16 %h, 3;
    @%p cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster
        [tile], [%map, {0, 0}], [bar], %h;
  )" + kWait +
             kCopyFirst + kClusterEnd);
  run.cluster = 2;
  set_map(run, run.in, {});
  for (std::uint32_t i = 0; i < 32; ++i) run.input<std::uint32_t>()[i] = i;
  check_runs(
      run, 32,
      [&] {
        for (std::uint32_t i = 0; i < 16; ++i) {
          CHECK(run.output<std::uint32_t>(i) == i);
          CHECK(run.output<std::uint32_t>(256 + i) == i);
        }
      },
      2);
}

TEST_CASE("cta_group::2: both CTAs load their own halves and signal the leader") {
  PtxRun run(kClusterPrologue + R"(
    setp.eq.u32 %q, %r9, 0;
    and.pred %p, %q, %first;
    @%p mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], 32768;
    barrier.cluster.arrive.aligned;
    barrier.cluster.wait.aligned;
    mov.u32 %r1, bar;
    and.b32 %r1, %r1, 0xFEFFFFFF;
    mov.u32 %r2, tile;
    shl.b32 %r3, %r9, 3;
    @%first cp.async.bulk.tensor.2d.cta_group::2.shared::cluster.global.tile.mbarrier::complete_tx::bytes
        [%r2], [%map, {0, %r3}], [%r1];
    @!%q bra S;
  )" + kWait +
             R"(
  S:
    barrier.cluster.arrive.aligned;
    barrier.cluster.wait.aligned;
  )" + kCopyFirst +
             kClusterEnd);
  run.cluster = 2;
  set_map(run, run.in, {});
  for (std::uint32_t i = 0; i < 8 * 32 + 32; ++i) run.input<std::uint32_t>()[i] = i;
  check_runs(
      run, 32,
      [&] {
        for (std::uint32_t i = 0; i < 16; ++i) {
          CHECK(run.output<std::uint32_t>(i) == i);
          CHECK(run.output<std::uint32_t>(256 + i) == 256 + i);
        }
      },
      2);
}

TEST_CASE("a copy between CTAs of a cluster signals the receiver") {
  PtxRun run(kClusterPrologue + R"(
    mov.u32 %r1, tile;
    shl.b32 %r2, %t, 2;
    add.u32 %r1, %r1, %r2;
    mad.lo.u32 %r3, %r9, 100, %t;
    st.shared.u32 [%r1+256], %r3;
    fence.proxy.async.shared::cta;
    bar.sync 0;
    @%first mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], 128;
    xor.b32 %r4, %r9, 1;
    mov.u32 %r5, tile;
    mapa.shared::cluster.u32 %r6, %r5, %r4;
    mov.u32 %r7, bar;
    mapa.shared::cluster.u32 %r7, %r7, %r4;
    @%first cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [%r6], [%r5+256], 128, [%r7];
  )" + kWait +
             kCopyFirst + kClusterEnd);
  run.cluster = 2;
  check_runs(
      run, 32,
      [&] {
        for (std::uint32_t i = 0; i < 16; ++i) {
          CHECK(run.output<std::uint32_t>(i) == 100 + i);
          CHECK(run.output<std::uint32_t>(256 + i) == i);
        }
      },
      2);
}

TEST_CASE("a barrier in another CTA than the destination needs cta_group::2") {
  for (const RunOptions& options : all_schedules()) {
    PtxRun run(kClusterPrologue + R"(
      mov.u32 %r1, bar;
      xor.b32 %r1, %r1, 0x01000000;
      mov.u32 %r2, tile;
      @%first cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes
          [%r2], [%map, {0, 0}], [%r1];
    )" + kClusterEnd);
    run.cluster = 2;
    run.options = options;
    set_map(run, run.in, {});
    const LaunchResult result = run.launch(32, 2);
    REQUIRE_FALSE(result.ok);
    CHECK(result.report.kind == ErrorKind::kInvalidOperand);
    CHECK(result.report.message.find("its mbarrier in CTA rank") != std::string::npos);
  }
}

}  // namespace jfa::simulator::tma_cluster_test
