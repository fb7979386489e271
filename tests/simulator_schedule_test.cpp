// Schedules: the same seed is the same run; asynchronous operations move when the policy says; launches are
// checked.
#include <doctest/doctest.h>

#include <cstring>

#include "simulator/machine.h"
#include "tests/simulator_one_op.h"

namespace jfa::simulator::test {
namespace {

// Every CTA takes tickets: who gets which depends on the schedule.
std::string ticket_kernel() {
  return kernel_text(R"(
    mov.u32 %r0, %tid.x; mov.u32 %r1, %ctaid.x; mad.lo.u32 %r0, %r1, 64, %r0;
    mov.u32 %r5, 0;
    LOOP:
    atom.global.add.u32 %r2, [%out], 1;
    add.u32 %r5, %r5, 1;
    setp.lt.u32 %p0, %r5, 3;
    @%p0 bra LOOP;
    mad.wide.u32 %rd0, %r0, 4, %out;
    st.global.u32 [%rd0+4], %r2;
    ret;)");
}

Run tickets(Schedule schedule, std::uint64_t seed, int sms = 2) {
  RunShape shape{.grid = {6, 1, 1}, .block = {64, 1, 1}};
  shape.options.schedule = schedule;
  shape.options.seed = seed;
  shape.options.sms = sms;
  Run run = run_kernel(ticket_kernel(), 1 + 6 * 64, shape);
  REQUIRE_MESSAGE(run.result.ok, run.result.report.text());
  return run;
}

TEST_CASE("the same seed is the same run, another seed another") {
  const Run a = tickets(Schedule::kRandom, 1), b = tickets(Schedule::kRandom, 1),
            c = tickets(Schedule::kRandom, 2);
  CHECK(a.output == b.output);
  CHECK(a.result.statistics.warp_instructions == b.result.statistics.warp_instructions);
  CHECK(a.output != c.output);
  CHECK(a.output[0] == 3 * 6 * 64);
  CHECK(tickets(Schedule::kEager, 1).output == tickets(Schedule::kEager, 2).output);
}

TEST_CASE("statistics and residency") {
  const Run run = tickets(Schedule::kEager, 0, 1);
  CHECK(run.result.statistics.ctas == 6);
  CHECK(run.result.statistics.warp_instructions > 6 * 2 * 10);
}

TEST_CASE("CTAs wait for room on an SM") {
  // Each CTA takes all of an SM's shared memory, and spins until the one before it has been.
  const std::string chain = kernel_text(R"(
    mov.u32 %r0, %ctaid.x;
    SPIN: ld.acquire.gpu.global.u32 %r1, [%out];
    setp.lt.u32 %p0, %r1, %r0;
    @%p0 bra SPIN;
    add.u32 %r2, %r0, 1;
    st.release.gpu.global.u32 [%out], %r2;
    ret;)",
                                        ".extern .shared .align 16 .b8 arena[];");
  RunShape shape{.grid = {5, 1, 1}, .block = {32, 1, 1}, .dynamic_shared_bytes = 200'000};
  shape.options.sms = 1;
  const Run run = run_kernel(chain, 1, shape);
  REQUIRE_MESSAGE(run.result.ok, run.failure());
  CHECK(run.output[0] == 5);
}

TEST_CASE("launches that do not fit are refused") {
  const auto refused = [](const std::string& ptx, const RunShape& shape, const std::string& part) {
    const Run run = run_kernel(ptx, 1, shape);
    REQUIRE_MESSAGE(run.load_error.empty(), run.load_error);
    REQUIRE_FALSE(run.result.ok);
    CHECK(run.result.report.kind == ErrorKind::kLaunch);
    INFO(run.result.report.message);
    CHECK(run.result.report.message.find(part) != std::string::npos);
  };
  refused(kernel_text("ret;", "", ".maxntid 128"), {.block = {129, 1, 1}}, "129");
  refused(kernel_text("ret;", "", ".reqntid 64, 2, 1"), {.block = {64, 1, 1}}, "64 × 2 × 1");
  refused(kernel_text("ret;"), {.dynamic_shared_bytes = 232449}, "232449");
  refused(kernel_text("ret;"), {.grid = {3, 1, 1}, .cluster = {2, 1, 1}}, "divisible");
  refused(kernel_text("ret;", "", ".explicitcluster .reqnctapercluster 2, 1, 1"), {.grid = {2, 1, 1}},
          "cluster");
  refused(kernel_text("ret;"), {.grid = {0, 1, 1}}, "empty");
}

TEST_CASE("residency follows threads and shared memory") {
  Entry entry;
  CHECK(resident_ctas_per_sm(entry, 1024, 0) == 2);
  CHECK(resident_ctas_per_sm(entry, 128, 232448) == 1);
  CHECK(resident_ctas_per_sm(entry, 128, 232449) == 0);
  CHECK(resident_ctas_per_sm(entry, 128, 100'000) == 2);
  CHECK(resident_ctas_per_sm(entry, 32, 0) == 32);
}

TEST_CASE("a trap ends the grid") {
  const Run run = run_kernel(kernel_text("mov.u32 %r0, %tid.x; setp.eq.u32 %p0, %r0, 9; @%p0 trap; ret;"), 1);
  REQUIRE_FALSE(run.result.ok);
  CHECK(run.result.report.kind == ErrorKind::kTrap);
  CHECK(run.result.report.lane == 9);
}

}  // namespace
}  // namespace jfa::simulator::test
