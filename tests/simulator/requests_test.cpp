// Asynchronous requests of single threads: tcgen05.cp, gather4 and scatter4, cluster launch control.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <cstring>

#include "simulator/async/tensor_map.h"
#include "tests/simulator/one_op.h"

namespace jfa::simulator::test::requests_test {
namespace {

const Schedule kSchedules[] = {Schedule::kEager, Schedule::kLazy, Schedule::kRandom};

// --- tcgen05.cp: row r of the source holds the words 256 r + word, in core matrices of 8 rows x 16 bytes.
std::string copy_kernel(const std::string& shape, int rows, int words) {
  const std::string registers =
      words == 8 ? "%r16, %r17, %r18, %r19, %r20, %r21, %r22, %r23" : "%r16, %r17, %r18, %r19";
  return kernel_text(fmt::format(R"(
    .shared .align 128 .b8 source[4096]; .shared .align 8 .b64 done; .shared .align 4 .b32 taddr;
    mov.u32 %r0, %tid.x; shr.u32 %r1, %r0, 5; mov.u32 %r2, source; mov.u32 %r3, done; mov.u32 %r4, taddr;
    setp.ne.u32 %p0, %r1, 0;
    @%p0 bra ALLOCATED;
    tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%r4], 32;
    tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned;
    ALLOCATED:
    setp.eq.u32 %p1, %r0, 0;
    @%p1 mbarrier.init.shared::cta.b64 [%r3], 1;
    setp.ge.u32 %p2, %r0, {};
    @%p2 bra FILLED;
    shr.u32 %r5, %r0, 3; and.b32 %r6, %r0, 7;
    shl.b32 %r5, %r5, 8; shl.b32 %r6, %r6, 4; add.u32 %r5, %r5, %r6; add.u32 %r5, %r5, %r2;
    shl.b32 %r8, %r0, 8; add.u32 %r9, %r8, 1; add.u32 %r10, %r8, 2; add.u32 %r11, %r8, 3;
    st.shared.v4.b32 [%r5], {{%r8, %r9, %r10, %r11}};
    add.u32 %r8, %r8, 4; add.u32 %r9, %r9, 4; add.u32 %r10, %r10, 4; add.u32 %r11, %r11, 4;
    st.shared.v4.b32 [%r5+128], {{%r8, %r9, %r10, %r11}};
    fence.proxy.async.shared::cta;
    FILLED:
    bar.sync 0;
    ld.shared.b32 %r7, [%r4];
    tcgen05.fence::after_thread_sync;
    @!%p1 bra ISSUED;
    shr.u32 %r12, %r2, 4; cvt.u64.u32 %rd1, %r12; or.b64 %rd1, %rd1, 0x0000401000080000;
    tcgen05.cp.cta_group::1.{} [%r7], %rd1;
    tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%r3];
    ISSUED:
    WAIT: mbarrier.try_wait.parity.shared::cta.b64 %p3, [%r3], 0;
    @!%p3 bra WAIT;
    tcgen05.fence::after_thread_sync;
    shl.b32 %r13, %r1, 21; add.u32 %r13, %r13, %r7;
    tcgen05.ld.sync.aligned.32x32b.x{}.b32 {{{}}}, [%r13];
    tcgen05.wait::ld.sync.aligned;
    mad.wide.u32 %rd2, %r0, {}, %out;
    st.global.v4.b32 [%rd2], {{%r16, %r17, %r18, %r19}};
    {}
    tcgen05.fence::before_thread_sync;
    bar.sync 0;
    tcgen05.fence::after_thread_sync;
    @%p0 bra END;
    tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r7, 32;
    END: ret;)",
                                 rows, shape, words, registers, 4 * words,
                                 words == 8 ? "st.global.v4.b32 [%rd2+16], {%r20, %r21, %r22, %r23};" : ""));
}

TEST_CASE("tcgen05.cp: every shape, and the lanes its rows go to") {
  struct Shape {
    const char* name;
    int rows, words;
    int row_of_quarter[4];  // first row that the quarter's lanes hold
  };
  for (const Shape& shape :
       {Shape{"128x256b", 128, 8, {0, 32, 64, 96}}, Shape{"128x128b", 128, 4, {0, 32, 64, 96}},
        Shape{"64x128b.warpx2::02_13", 64, 4, {0, 32, 0, 32}},
        Shape{"64x128b.warpx2::01_23", 64, 4, {0, 0, 32, 32}}, Shape{"32x128b.warpx4", 32, 4, {0, 0, 0, 0}}})
    for (const Schedule schedule : kSchedules) {
      RunShape run_shape{.block = {128, 1, 1}};
      run_shape.options.schedule = schedule;
      const auto words = static_cast<std::size_t>(shape.words);
      const Run run = run_kernel(copy_kernel(shape.name, shape.rows, shape.words), 128 * words, run_shape);
      REQUIRE_MESSAGE(run.result.ok, run.failure());
      int wrong = 0;
      for (std::size_t lane = 0; lane < 128; ++lane)
        for (std::size_t w = 0; w < words; ++w)
          wrong += run.output[lane * words + w] !=
                   256 * (static_cast<std::size_t>(shape.row_of_quarter[lane / 32]) + lane % 32) + w;
      CHECK_MESSAGE(wrong == 0, shape.name);
    }
}

TEST_CASE("tcgen05.cp without a wait for its commit is caught") {
  std::string text = copy_kernel("128x256b", 128, 8);
  const std::string wait = "mbarrier.try_wait.parity.shared::cta.b64 %p3, [%r3], 0;";
  text.replace(text.find(wait), wait.size(), "bar.sync 0; mov.pred %p3, 1;");
  const Run run = run_kernel(text, 1024, {.block = {128, 1, 1}, .options = {.schedule = Schedule::kLazy}});
  REQUIRE_FALSE(run.result.ok);
  CHECK(run.result.report.kind == ErrorKind::kInFlight);
}

// Warp 1 copies behind warp 0, with `sync` and `after` in between; `late`: when warp 2 knows that the first
// copy is over.
std::string copies_of_two_warps(const std::string& shape, bool late, const std::string& sync,
                                const std::string& after) {
  std::string text = copy_kernel("128x256b", 128, 8);
  const auto replace = [&](const std::string& from, const std::string& to) {
    REQUIRE(text.find(from) != std::string::npos);
    text.replace(text.find(from), from.size(), to);
  };
  const std::string commit = "tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 ";
  replace(".b64 done;", ".b64 done, early;");
  replace("@!%p1 bra ISSUED;", "bar.sync 0; @!%p1 bra ISSUED;");  // all are behind their first fence
  replace("mbarrier.init.shared::cta.b64 [%r3], 1;",
          "mbarrier.init.shared::cta.b64 [%r3], 2; @%p1 mbarrier.init.shared::cta.b64 [early], 1;");
  replace(commit + "[%r3];",
          commit + "[%r3]; mov.u32 %r14, early; " + commit + "[%r14]; tcgen05.fence::before_thread_sync;");
  replace("ISSUED:", "ISSUED: " + sync + R"(
    setp.ne.u32 %p5, %r1, 2; @%p5 bra KNOWN;
    EARLY: mbarrier.try_wait.parity.shared::cta.b64 %p3, [early], 0;
    @!%p3 bra EARLY;
    KNOWN: setp.eq.u32 %p4, %r0, 32; @!%p4 bra SECOND;
    mov.u32 %r15, 0;
    DELAY: add.u32 %r15, %r15, 1; setp.lt.u32 %p5, %r15, )" +
                         (late ? "10000" : "1") + "; @%p5 bra DELAY; " + after + R"(
    shr.u32 %r12, %r2, 4; cvt.u64.u32 %rd1, %r12; or.b64 %rd1, %rd1, 0x0000401000080000;
    tcgen05.cp.cta_group::1.)" +
                         shape + " [%r7], %rd1; " + commit + "[%r3];\nSECOND:");
  return text;
}

TEST_CASE("tcgen05.cp behind that of another warp needs the fences between them, and no wait") {
  const std::string sync = "bar.sync 0;", after = "tcgen05.fence::after_thread_sync;";
  for (const Schedule schedule : kSchedules)
    for (const std::string shape : {"4x256b", "128x256b"})
      for (const bool late : {false, true}) {
        CAPTURE(std::string(to_string(schedule)));
        CAPTURE(shape);
        CAPTURE(late);
        const auto run = [&](const std::string& text) {
          return run_kernel(text, 1024, {.block = {128, 1, 1}, .options = {.schedule = schedule}});
        };
        const Run right = run(copies_of_two_warps(shape, late, sync, after));
        REQUIRE_MESSAGE(right.result.ok, right.failure());
        CHECK(right.output[32 * 8] == 256 * (shape == "4x256b" ? 1 : 32));  // row 1 of four
        CHECK(right.output[33 * 8] == 256 * 33);
        const Run unfenced = run(copies_of_two_warps(shape, late, sync, ""));
        REQUIRE_FALSE(unfenced.result.ok);
        CHECK_MESSAGE(unfenced.result.report.kind == ErrorKind::kMissingFence, unfenced.failure());
        const Run unordered = run(copies_of_two_warps(shape, late, "", after));
        REQUIRE_FALSE(unordered.result.ok);
        CHECK_MESSAGE(unordered.result.report.kind == ErrorKind::kRace, unordered.failure());
      }
}

// --- gather4, scatter4: four rows of one matrix to four of another, through shared memory.

LaunchResult run_gather(std::uint32_t box_rows, const std::vector<std::int32_t>& rows,
                        std::vector<std::uint32_t>& to, Schedule schedule) {
  DeviceMemory memory;
  const auto module = Module::load(R"(
.version 9.0
.target sm_100a
.address_size 64
.visible .entry gather(.param .align 64 .b8 from[128], .param .align 64 .b8 to[128], .param .b32 r0, .param .b32 r1,
                       .param .b32 r2, .param .b32 r3)
{
  .reg .b32 %r<9>; .reg .b64 %rd<3>; .reg .pred %p;
  .shared .align 1024 .b8 tile[512]; .shared .align 8 .b64 full;
  mov.b64 %rd1, from; cvta.param.u64 %rd1, %rd1; mov.b64 %rd2, to; cvta.param.u64 %rd2, %rd2;
  ld.param.b32 %r0, [r0]; ld.param.b32 %r1, [r1]; ld.param.b32 %r2, [r2]; ld.param.b32 %r3, [r3];
  mov.u32 %r4, tile; mov.u32 %r5, full;
  mbarrier.init.shared::cta.b64 [%r5], 1;
  fence.mbarrier_init.release.cluster;
  mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r5], 256;
  cp.async.bulk.tensor.2d.shared::cta.global.tile::gather4.mbarrier::complete_tx::bytes
    [%r4], [%rd1, {8, %r0, %r1, %r2, %r3}], [%r5];
  WAIT: mbarrier.try_wait.parity.shared::cta.b64 %p, [%r5], 0;
  @!%p bra WAIT;
  cp.async.bulk.tensor.2d.global.shared::cta.tile::scatter4.bulk_group [%rd2, {0, 6, 1, 3, 0}], [%r4];
  cp.async.bulk.commit_group;
  cp.async.bulk.wait_group 0;
  ret;
})",
                                   memory);
  REQUIRE_MESSAGE(module.ok(), module.status().message());
  const auto map_of = [&](std::uint64_t address, std::uint64_t columns, std::uint64_t height) {
    const cuuint64_t extents[] = {columns, height}, strides[] = {columns * 4};
    const cuuint32_t box[] = {16, box_rows}, steps[] = {1, 1};
    CUtensorMap map;
    std::string reason;
    REQUIRE_MESSAGE(
        encode_tiled_tensor_map(&map, CU_TENSOR_MAP_DATA_TYPE_INT32, 2, reinterpret_cast<void*>(address),
                                extents, strides, box, steps, CU_TENSOR_MAP_INTERLEAVE_NONE,
                                CU_TENSOR_MAP_SWIZZLE_64B, CU_TENSOR_MAP_L2_PROMOTION_NONE,
                                CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE, &reason) == CUDA_SUCCESS,
        reason);
    return map;
  };
  const std::uint64_t a = memory.allocate(32 * 10 * 4, "from"), b = memory.allocate(16 * 8 * 4, "to");
  for (std::uint32_t i = 0; i < 320; ++i) std::memcpy(memory.host(a, 1280) + 4 * i, &i, 4);
  std::memset(memory.host(b, 512), 0xee, 512);
  LaunchConfig config;
  config.options.schedule = schedule;
  config.parameters.resize(272);
  const CUtensorMap maps[] = {map_of(a, 32, 10), map_of(b, 16, 8)};
  std::memcpy(config.parameters.data(), maps, 256);
  std::memcpy(config.parameters.data() + 256, rows.data(), 16);
  const LaunchResult result = run_grid(**module, *(*module)->entries()[0], config, memory);
  to.resize(128);
  std::memcpy(to.data(), memory.host(b, 512), 512);
  return result;
}

TEST_CASE("gather4 and scatter4 move rows that need not follow each other") {
  for (const Schedule schedule : kSchedules) {
    std::vector<std::uint32_t> to;
    const LaunchResult result = run_gather(1, {7, 2, 2, 30}, to, schedule);  // row 30 lies outside: zeros
    REQUIRE_MESSAGE(result.ok, result.report.text());
    for (std::uint32_t row = 0; row < 8; ++row)
      for (std::uint32_t column = 0; column < 16; ++column) {
        const std::uint32_t from = row == 6               ? 7 * 32 + 8 + column
                                   : row == 1 || row == 3 ? 2 * 32 + 8 + column
                                                          : 0;
        CHECK(to[row * 16 + column] == (row == 0 || from != 0 ? from : 0xeeeeeeeeu));
      }
  }
  std::vector<std::uint32_t> to;
  const LaunchResult refused = run_gather(4, {0, 1, 2, 3}, to, Schedule::kEager);
  REQUIRE_FALSE(refused.ok);
  CHECK(refused.report.message.find("boxes of one row, not of rank 2 and 4 rows") != std::string::npos);
}

// --- clusterlaunchcontrol

TEST_CASE("clusterlaunchcontrol: a running CTA takes all that has not started") {
  const std::string text = kernel_text(R"(
    .shared .align 16 .b8 response[16]; .shared .align 8 .b64 full;
    .reg .b128 %q;
    mov.u32 %r0, response; mov.u32 %r1, full; mov.u32 %r2, %ctaid.x; mov.u32 %r3, 0;
    mbarrier.init.shared::cta.b64 [%r1], 1;
    fence.mbarrier_init.release.cluster;
    WORK:
    mad.wide.u32 %rd1, %r2, 4, %out;
    atom.global.add.u32 %r4, [%rd1], 1;
    mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r1], 16;
    clusterlaunchcontrol.try_cancel.async.shared::cta.mbarrier::complete_tx::bytes.b128 [%r0], [%r1];
    WAIT: mbarrier.try_wait.parity.shared::cta.b64 %p0, [%r1], %r3;
    @!%p0 bra WAIT;
    xor.b32 %r3, %r3, 1;
    ld.shared.b128 %q, [%r0];
    fence.proxy.async.shared::cta;
    clusterlaunchcontrol.query_cancel.is_canceled.pred.b128 %p1, %q;
    @!%p1 bra END;
    clusterlaunchcontrol.query_cancel.get_first_ctaid.v4.b32.b128 {%r2, %r5, %r6, _}, %q;
    clusterlaunchcontrol.query_cancel.get_first_ctaid::x.b32.b128 %r7, %q;
    setp.ne.u32 %p2, %r2, %r7;
    @%p2 trap;
    bra WORK;
    END: ret;)",
                                       ".extern .shared .align 16 .b8 big[];");
  for (const Schedule schedule : kSchedules) {
    RunShape shape{.grid = {7, 1, 1}, .block = {1, 1, 1}, .dynamic_shared_bytes = 200'000};
    shape.options.schedule = schedule;
    const Run run = run_kernel(text, 7, shape);
    REQUIRE_MESSAGE(run.result.ok, run.failure());
    for (const std::uint32_t times : run.output) CHECK(times == 1);
    CHECK(run.result.statistics.ctas < 7);
  }
}

TEST_CASE("the index of a request that was not granted is refused") {
  const Run run = run_kernel(kernel_text(R"(
    .reg .b128 %q; mov.b64 %rd1, 0; mov.b128 %q, {%rd1, %rd1};
    clusterlaunchcontrol.query_cancel.get_first_ctaid::x.b32.b128 %r7, %q; ret;)"),
                             1);
  REQUIRE_FALSE(run.result.ok);
  CHECK(run.result.report.message.find("not granted") != std::string::npos);
}

}  // namespace
}  // namespace jfa::simulator::test::requests_test
