// Address spaces, alignment, bounds, lifetime and initialisation; atomics; module variables.
#include <doctest/doctest.h>

#include <cstring>

#include "tests/simulator/one_op.h"

namespace jfa::simulator::test::memory_test {
namespace {

void check_refused(const Run& run, ErrorKind kind, const std::string& part) {
  REQUIRE_MESSAGE(run.load_error.empty(), run.load_error);
  REQUIRE_FALSE(run.result.ok);
  INFO(run.result.report.text());
  CHECK(run.result.report.kind == kind);
  CHECK(run.result.report.message.find(part) != std::string::npos);
}

std::vector<std::uint32_t> check_runs(const std::string& ptx, std::size_t words, const RunShape& shape = {}) {
  const Run run = run_kernel(ptx, words, shape);
  REQUIRE_MESSAGE(run.result.ok, run.failure());
  return run.output;
}

TEST_CASE("st.bulk clears") {
  const Run run = run_kernel(kernel_text(R"(
    .shared .align 16 .b8 tile[64];
    mov.u32 %r0, tile; mov.u32 %r1, 7; mov.b64 %rd1, 16;
    st.shared.b32 [%r0+12], %r1; st.shared.b32 [%r0+32], %r1;
    st.bulk.weak.shared::cta [%r0+16], %rd1, 0;
    ld.shared.b32 %r2, [%r0+28]; ld.shared.b32 %r3, [%r0+12]; ld.shared.b32 %r4, [%r0+32];
    mad.lo.u32 %r2, %r2, 100, %r3; mad.lo.u32 %r2, %r4, 10, %r2;
    st.global.b32 [%out], %r2; ret;)"),
                             1, {.block = {1, 1, 1}});
  REQUIRE_MESSAGE(run.result.ok, run.failure());
  CHECK(run.output[0] == 77);
}

TEST_CASE("global: bounds and alignment, the allocation named") {
  check_refused(run_kernel(kernel_text("ld.global.u32 %r0, [%out+16]; ret;"), 4), ErrorKind::kOutOfBounds,
                "0 bytes past the end of output (16 bytes)");
  check_refused(
      run_kernel(
          kernel_text("ld.global.v2.u32 {%r0, %r1}, [%out+8]; ld.global.v2.u32 {%r0, %r1}, [%out+16]; ret;"),
          4),
      ErrorKind::kOutOfBounds, "");
  check_refused(run_kernel(kernel_text("st.global.u64 [%out+4], %rd0; ret;"), 4), ErrorKind::kMisaligned,
                "not aligned to 8");
  check_refused(run_kernel(kernel_text("st.global.u32 [%out+-4], %r0; ret;"), 4), ErrorKind::kOutOfBounds,
                "output");
  check_refused(run_kernel(kernel_text("ld.u32 %r0, [16]; ret;"), 4), ErrorKind::kOutOfBounds, "");
}

TEST_CASE("a report names lane, PTX line and instruction") {
  const Run run = run_kernel(
      kernel_text("mov.u32 %r0, %tid.x;\nmad.wide.u32 %rd0, %r0, 4, %out;\nst.global.u32 [%rd0], %r0;\nret;"),
      20);
  REQUIRE_FALSE(run.result.ok);
  CHECK(run.result.report.lane == 20);
  CHECK(run.result.report.warp == 0);
  CHECK(run.result.report.instruction == "st.global.u32 [%rd0], %r0;");
  CHECK(run.result.report.ptx_line == 11);
  CHECK(run.result.report.entry == "kernel");
}

TEST_CASE("freed memory is known by name") {
  DeviceMemory memory;
  const std::uint64_t a = memory.allocate(64, "scores");
  CHECK(memory.free(a));
  CHECK_FALSE(memory.free(a));
  CHECK_FALSE(memory.free(a + 8));
  CHECK(memory.host(a, 1) == nullptr);
  try {
    memory.access(a + 8, 4, 4, false, {});
    FAIL("no error");
  } catch (const SimulationError& e) {
    CHECK(e.report().kind == ErrorKind::kUseAfterFree);
    CHECK(std::string(e.what()).find("8 bytes into scores (64 bytes)") != std::string::npos);
  }
  const std::uint64_t b = memory.allocate(64);
  CHECK(b != a);
  CHECK(memory.host(b, 64) != nullptr);
  CHECK(memory.host(b, 65) == nullptr);
  CHECK(memory.host(b - 1, 1) == nullptr);
  CHECK(static_cast<unsigned char>(*memory.host(b, 1)) == 0xff);
}

TEST_CASE("shared: bounds, alignment, initialisation") {
  const std::string declare = ".shared .align 8 .b8 tile[64];\n";
  check_refused(run_kernel(kernel_text(declare + "ld.shared.u32 %r0, [tile+8]; ret;"), 1),
                ErrorKind::kUninitialised, "tile+8");
  check_refused(
      run_kernel(kernel_text(declare + "st.shared.u32 [tile+64], %r0; ret;"), 1, {.dynamic_shared_bytes = 0}),
      ErrorKind::kOutOfBounds, "");
  check_refused(run_kernel(kernel_text(declare + "st.shared.u32 [tile+2], %r0; ret;"), 1),
                ErrorKind::kMisaligned, "");
  check_refused(run_kernel(kernel_text("mov.u32 %r1, 0; st.shared.u32 [%r1], %r0; ret;"), 1),
                ErrorKind::kOutOfBounds, "belong to the system");
  // Half of what is read was written.
  check_refused(
      run_kernel(kernel_text(declare +
                             "mov.u32 %r1, 1; st.shared.u32 [tile], %r1; ld.shared.u64 %rd1, [tile]; ret;"),
                 1),
      ErrorKind::kUninitialised, "");
}

TEST_CASE("with checks off uninitialised shared memory is read, bounds still hold") {
  RunShape shape;
  shape.options.checks = false;
  const std::string declare = ".shared .align 8 .b8 tile[64];\n";
  check_runs(kernel_text(declare + "ld.shared.u32 %r0, [tile+8]; ret;"), 1, shape);
  check_refused(run_kernel(kernel_text(declare + "ld.shared.u32 %r0, [tile+4096]; ret;"), 1, shape),
                ErrorKind::kOutOfBounds, "");
}

TEST_CASE("dynamic shared memory is aligned as declared, and no better") {
  for (const int alignment : {16, 128, 1024}) {
    const auto out =
        check_runs(kernel_text("mov.u32 %r0, arena; st.global.u32 [%out], %r0;"
                               "mov.u32 %r1, 3; st.shared.u32 [arena+96], %r1; ret;",
                               ".extern .shared .align " + std::to_string(alignment) + " .b8 arena[];"),
                   1, {.dynamic_shared_bytes = 100});
    CHECK(out[0] % static_cast<unsigned>(alignment) == 0);
    if (alignment < 1024) CHECK(out[0] % static_cast<unsigned>(2 * alignment) != 0);
    CHECK(out[0] >= 1024);
  }
  check_refused(run_kernel(kernel_text("st.shared.u32 [arena+100], %r1; ret;",
                                       ".extern .shared .align 16 .b8 arena[];"),
                           1, {.dynamic_shared_bytes = 100}),
                ErrorKind::kOutOfBounds, "");
}

TEST_CASE("generic addresses tell the spaces apart") {
  const auto out = check_runs(kernel_text(R"(
    .shared .align 4 .b32 cell;
    .local .align 8 .b8 depot[16];
    mov.u32 %r0, %tid.x;
    setp.ne.u32 %p0, %r0, 0;
    @%p0 bra SKIP;
    mov.u32 %r1, 11;
    st.shared.u32 [cell], %r1;
    SKIP:
    bar.sync 0;
    mov.u64 %rd0, cell;
    cvta.shared.u64 %rd1, %rd0;
    ld.u32 %r2, [%rd1];
    mov.b64 %rd2, depot;
    cvta.local.u64 %rd3, %rd2;
    st.u32 [%rd3+4], %r0;
    add.u64 %rd4, %rd2, 4;
    ld.local.u32 %r3, [%rd4];
    mov.b64 %rd5, result;
    cvta.param.u64 %rd6, %rd5;
    ld.u64 %rd7, [%rd6];
    setp.eq.u64 %p1, %rd7, %out;
    selp.u32 %r4, 1, 0, %p1;
    cvta.to.shared.u64 %rd8, %rd1;
    setp.eq.u64 %p2, %rd8, %rd0;
    selp.u32 %r5, 1, 0, %p2;
    mad.wide.u32 %rd9, %r0, 16, %out;
    st.v4.u32 [%rd9], {%r2, %r3, %r4, %r5};
    ret;)"),
                              128);
  for (std::uint32_t i = 0; i < 32; ++i) {
    CHECK(out[4 * i] == 11);
    CHECK(out[4 * i + 1] == i);  // a depot of its own for each thread
    CHECK(out[4 * i + 2] == 1);
    CHECK(out[4 * i + 3] == 1);
  }
  check_refused(
      run_kernel(kernel_text(".local .align 8 .b8 depot[16];\n st.local.u32 [depot+16], %r0; ret;"), 1),
      ErrorKind::kOutOfBounds, "16 bytes");
}

TEST_CASE("loads extend as their type says, stores truncate") {
  const auto out = check_runs(kernel_text(R"(
    mov.u32 %r0, 0xfedc8081;
    st.global.u32 [%out], %r0;
    ld.global.s8 %r1, [%out];
    ld.global.u8 %r2, [%out];
    ld.global.s16 %r3, [%out];
    ld.global.s32 %rd0, [%out];
    mov.u64 %rd1, 0x1122334455667788;
    st.global.u32 [%out+20], %rd1;
    st.global.u8 [%out+24], %r0;
    shr.u64 %rd0, %rd0, 32;
    cvt.u32.u64 %r4, %rd0;
    st.global.v4.u32 [%out+32], {%r1, %r2, %r3, %r4};
    ret;)"),
                              12, {.block = {1, 1, 1}});
  CHECK(out[8] == 0xffffff81);
  CHECK(out[9] == 0x81);
  CHECK(out[10] == 0xffff8081);
  CHECK(out[11] == 0xffffffff);
  CHECK(out[5] == 0x55667788);
  CHECK(out[6] == 0x81);
}

TEST_CASE("wide vectors and 128-bit registers") {
  const auto out = check_runs(kernel_text(R"(
    .reg .b128 %q;
    mov.u64 %rd0, 0x0000000200000001; mov.u64 %rd1, 0x0000000400000003;
    mov.b128 %q, {%rd0, %rd1};
    st.global.b128 [%out], %q;
    ld.global.v8.b32 {%r0, %r1, _, %r3, %r4, %r5, %r6, %r7}, [%out];
    st.global.v4.u32 [%out+16], {%r3, %r1, %r0, %r0};
    mov.b128 {%rd3, %rd4}, %q;
    st.global.u64 [%out+32], %rd4;
    ret;)"),
                              16, {.block = {1, 1, 1}});
  CHECK(std::vector<std::uint32_t>(out.begin(), out.begin() + 10) ==
        std::vector<std::uint32_t>{1, 2, 3, 4, 4, 2, 1, 1, 3, 4});
}

TEST_CASE("atomics") {
  const auto out = check_runs(kernel_text(R"(
    mov.u32 %r0, %tid.x;
    atom.global.add.u32 %r1, [%out], 1;
    red.global.max.u32 [%out+4], %r0;
    red.relaxed.gpu.global.add.f32 [%out+8], 0f3F000000;
    atom.global.cas.b32 %r2, [%out+12], 0, 5;
    atom.global.inc.u32 %r3, [%out+16], 9;
    red.global.or.b32 [%out+20], %r0;
    mad.wide.u32 %rd0, %r1, 4, %out;
    st.global.u32 [%rd0+32], 1;
    ret;)"),
                              8 + 64, {.grid = {2, 1, 1}});
  CHECK(out[0] == 64);
  CHECK(out[1] == 31);
  CHECK(out[2] == bits_of(32));
  CHECK(out[3] == 5);
  CHECK(out[4] == 4);
  CHECK(out[5] == 31);
  for (std::size_t i = 8; i < out.size(); ++i) CHECK(out[i] == 1);  // every ticket was given once
}

TEST_CASE("vector reductions and shared atomics") {
  const auto out = check_runs(kernel_text(R"(
    .shared .align 4 .b32 count;
    mov.u32 %r0, %tid.x;
    setp.ne.u32 %p0, %r0, 0;
    @%p0 bra READY;
    st.shared.u32 [count], 0;
    READY: bar.sync 0;
    atom.shared.add.u32 %r1, [count], 2;
    red.global.add.v4.f32 [%out], {0f3F800000, 0f40000000, 0f00000000, 0f3F800000};
    bar.sync 0;
    ld.shared.u32 %r2, [count];
    st.global.u32 [%out+16], %r2;
    ret;)"),
                              8);
  CHECK(out[0] == bits_of(32));
  CHECK(out[1] == bits_of(64));
  CHECK(out[4] == 64);
}

TEST_CASE("module variables: values, addresses of others, constants are read-only") {
  const std::string variables = R"(
    .const .align 4 .b8 table[8] = {1, 2, 3, 4, 0xff, 6, 7, 8};
    .global .align 4 .u32 counter = 41;
    .global .align 8 .u64 pointer = generic(counter);
    .global .align 4 .f32 half = 0f3F000000;)";
  const auto out = check_runs(kernel_text(R"(
    ld.const.u32 %r0, [table];
    ld.const.s8 %r1, [table+4];
    ld.global.u64 %rd0, [pointer];
    ld.global.u32 %r2, [%rd0];
    ld.global.u32 %r3, [half];
    st.global.v4.u32 [%out], {%r0, %r1, %r2, %r3};
    ret;)",
                                          variables),
                              4, {.block = {1, 1, 1}});
  CHECK(out == std::vector<std::uint32_t>{0x04030201, 0xffffffff, 41, 0x3f000000});
  check_refused(run_kernel(kernel_text("mov.u64 %rd0, table; st.global.u32 [%rd0], %r0; ret;", variables), 1),
                ErrorKind::kOutOfBounds, "constant");
}

}  // namespace
}  // namespace jfa::simulator::test::memory_test
