// Calls, local arrays, indexed branches, printf and assertions.
#include <doctest/doctest.h>

#include "tests/simulator/one_op.h"

namespace jfa::simulator::test::call_test {
namespace {

// One warp runs the body, then stores %r0 of each lane.
Run run_lanes(const std::string& body, const std::string& module_level = {}) {
  return run_kernel(kernel_text("mov.u32 %r1, %tid.x;\n" + body +
                                    "\nmad.wide.u32 %rd0, %r1, 4, %out; st.global.u32 [%rd0], %r0; ret;",
                                module_level),
                    32);
}

const char* const kDouble = R"(
.func (.param .b32 result) twice(.param .b32 x)
{
  .reg .b32 %r<3>;
  ld.param.b32 %r1, [x];
  add.u32 %r2, %r1, %r1;
  st.param.b32 [result], %r2;
  ret;
}
// (x, x * x) of a struct of two, in a local array.
.func (.param .align 8 .b8 result[8]) pair(.param .b32 x)
{
  .reg .b32 %r<4>; .reg .b64 %rd<2>; .reg .pred %p;
  .local .align 8 .b8 stack[8];
  ld.param.b32 %r1, [x+0];
  setp.gt.u32 %p, %r1, 15;
  @%p bra LARGE;
  mul.lo.u32 %r2, %r1, %r1;
  mov.b64 %rd1, stack;
  st.local.v2.b32 [%rd1], {%r1, %r2};
  ld.local.b32 %r3, [stack+4];
  st.param.v2.b32 [result], {%r1, %r3};
  ret;
LARGE:
  {
    .param .b32 param0; .param .b32 retval0;
    st.param.b32 [param0], %r1;
    call.uni (retval0), twice, (param0);
    ld.param.b32 %r2, [retval0];
  }
  st.param.v2.b32 [result+0], {%r2, 7};
}
)";

TEST_CASE("calls: parameters, structs, local arrays, calls inside, lanes that return at different places") {
  const Run run = run_lanes(R"(
    {
      .param .b32 param0; .param .align 8 .b8 retval0[8];
      st.param.b32 [param0+0], %r1;
      call (retval0), pair, (param0);
      ld.param.v2.b32 {%r2, %r3}, [retval0+0];
    }
    mad.lo.u32 %r0, %r2, 1000, %r3;
    activemask.b32 %r4;
    setp.ne.u32 %p0, %r4, -1;
    @%p0 mov.u32 %r0, 0;)",
                            kDouble);
  REQUIRE_MESSAGE(run.result.ok, run.failure());
  for (std::uint32_t i = 0; i < 32; ++i) CHECK(run.output[i] == (i > 15 ? 2000 * i + 7 : 1000 * i + i * i));
}

TEST_CASE("a guarded call is for the lanes of its guard, and every call has its own registers") {
  const Run run = run_lanes(R"(
    .param .b32 p0; .param .b32 r0;
    mov.u32 %r0, 5;
    setp.lt.u32 %p0, %r1, 8;
    st.param.b32 [p0], %r1;
    @%p0 call (r0), twice, (p0);
    @%p0 ld.param.b32 %r0, [r0];
    st.param.b32 [p0], %r0;
    @!%p0 call (r0), twice, (p0);
    @!%p0 ld.param.b32 %r0, [r0];)",
                            kDouble);
  REQUIRE_MESSAGE(run.result.ok, run.failure());
  for (std::uint32_t i = 0; i < 32; ++i) CHECK(run.output[i] == (i < 8 ? 2 * i : 10));
}

TEST_CASE("calls that are not supported are named") {
  CHECK(run_lanes("call %rd0, (), p; ret;").load_error.find("calls through pointers") != std::string::npos);
  CHECK(run_lanes("call malloc; ret;", ".extern .func malloc;").load_error.find("`malloc` has no body") !=
        std::string::npos);
  CHECK(
      run_lanes("call loop; ret;", ".func loop { call loop; ret; }").load_error.find("`loop` calls itself") !=
      std::string::npos);
  CHECK(run_lanes("call f; ret;", ".func f(.param .b32 x) { ret; }")
            .load_error.find("1 parameters, the call 0") != std::string::npos);
  CHECK(run_lanes("call f; ret;", ".func f(.reg .b32 x) { ret; }").load_error.find("in registers") !=
        std::string::npos);
}

TEST_CASE("functions that call each other twice are refused before they fill the memory") {
  std::string functions = ".func f0 { .reg .b32 %r; mov.u32 %r, 1; ret; }\n";
  for (int i = 1; i < 40; ++i) {
    const std::string inner = "call f" + std::to_string(i - 1) + ";";
    functions += ".func f" + std::to_string(i) + " { " + inner + " " + inner + " ret; }\n";
  }
  CHECK(run_lanes("call f39;", functions).load_error.find("too long") != std::string::npos);
}

TEST_CASE("brx.idx") {
  const std::string code = R"(
    and.b32 %r2, %r1, 3;
    mov.u32 %r0, 9;
    setp.lt.u32 %p0, %r1, 28;
    targets: .branchtargets ZERO, ONE, TWO, ONE;
    @%p0 brx.idx %r2, targets;
    bra.uni END;
    ZERO: mov.u32 %r0, 100; bra.uni END;
    ONE: mov.u32 %r0, 101; bra.uni END;
    TWO: mov.u32 %r0, 102;
    END:)";
  const Run run = run_lanes(code);
  REQUIRE_MESSAGE(run.result.ok, run.failure());
  for (std::uint32_t i = 0; i < 32; ++i)
    CHECK(run.output[i] == (i >= 28 ? 9 : i % 4 == 3 ? 101 : 100 + i % 4));

  const Run beyond = run_lanes("targets: .branchtargets A, B; brx.idx %r1, targets; A: B:");
  REQUIRE_FALSE(beyond.result.ok);
  CHECK(beyond.result.report.message == "brx.idx with index 2 into a list of 2 targets");
  CHECK(run_lanes("brx.idx %r1, nothing;").load_error.find("`nothing` is no list") != std::string::npos);
}

const char* const kFormats = R"(
.extern .func (.param .b32 func_retval0) vprintf(.param .b64 f, .param .b64 a);
.global .align 1 .b8 format[] = {37,100,32,37,53,46,50,102,37,37,32,37,108,108,120,32,37,115,10,0};
.global .align 1 .b8 word[] = {104,105,0};
)";

TEST_CASE("printf: of each lane, in the order of lanes") {
  // "%d %5.2f%% %llx %s\n"
  const Run run = run_lanes(R"(
    .local .align 8 .b8 arguments[32];
    .param .b64 p0; .param .b64 p1; .param .b32 r0;
    mov.b64 %rd1, arguments; cvta.local.u64 %rd2, %rd1;
    neg.s32 %r2, %r1;
    st.local.b32 [%rd1], %r2;
    mov.b64 %rd3, 0d3FF8000000000000; st.local.b64 [%rd1+8], %rd3;
    mov.b64 %rd3, 0xabcdef0123; st.local.b64 [%rd1+16], %rd3;
    mov.b64 %rd3, word; cvta.global.u64 %rd3, %rd3; st.local.b64 [%rd1+24], %rd3;
    mov.b64 %rd4, format; cvta.global.u64 %rd4, %rd4;
    st.param.b64 [p0], %rd4; st.param.b64 [p1], %rd2;
    setp.gt.u32 %p0, %r1, 29;
    @%p0 call (r0), vprintf, (p0, p1);
    mov.u32 %r0, 0;
    @%p0 ld.param.b32 %r0, [r0];)",
                            kFormats);
  REQUIRE_MESSAGE(run.result.ok, run.failure());
  CHECK(run.result.printed == "-30  1.50% abcdef0123 hi\n-31  1.50% abcdef0123 hi\n");
  CHECK(run.output[29] == 0);
  CHECK(run.output[30] == 25);
}

TEST_CASE("an assertion that fails says where") {
  const Run run = run_lanes(R"(
    .param .b64 m; .param .b64 f; .param .b32 l; .param .b64 n; .param .b64 s;
    mov.b64 %rd1, word; cvta.global.u64 %rd1, %rd1;
    st.param.b64 [m], %rd1; st.param.b64 [f], %rd1; st.param.b32 [l], 42; st.param.b64 [n], 0; st.param.b64 [s], 1;
    setp.eq.u32 %p0, %r1, 3;
    @%p0 call __assertfail, (m, f, l, n, s);)",
                            kFormats);
  REQUIRE_FALSE(run.result.ok);
  CHECK(run.result.report.kind == ErrorKind::kTrap);
  CHECK(run.result.report.lane == 3);
  CHECK(run.result.report.message == "assertion `hi` failed in ? (hi:42)");
}

}  // namespace
}  // namespace jfa::simulator::test::call_test
