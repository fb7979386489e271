// Schedules: the same seed is the same run; asynchronous operations move when the policy says; launches are
// checked.
#include <doctest/doctest.h>

#include <cstring>

#include "simulator/campaign/recording.h"
#include "simulator/campaign/shrink.h"
#include "simulator/machine/machine.h"
#include "tests/simulator/async.h"
#include "tests/simulator/one_op.h"

namespace jfa::simulator::test::schedule_test {
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

void append_bytes(std::vector<std::byte>& bytes, std::uint64_t value) {
  const auto* raw = reinterpret_cast<const std::byte*>(&value);
  bytes.insert(bytes.end(), raw, raw + sizeof value);
}

Recording tickets_recording() {
  Recording recording;
  const std::uint64_t address = 0x10'0000'0200;
  recording.buffers.push_back({address, "tickets", std::vector<std::byte>(4 * (1 + 6 * 64))});
  RecordedLaunch launch;
  launch.entry = "kernel";
  launch.config.grid = {6, 1, 1};
  launch.config.block = {64, 1, 1};
  append_bytes(launch.config.parameters, address);
  recording.launches.push_back(launch);
  return recording;
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

TEST_CASE("schedules and choices have names") {
  for (const char* name : {"eager", "lazy", "random", "reverse", "starve", "late", "replay"}) {
    const auto schedule = parse_schedule(name);
    REQUIRE(schedule);
    CHECK(std::string(to_string(*schedule)) == name);
    CHECK(schedule_names().find(name) != std::string::npos);
  }
  CHECK_FALSE(parse_schedule("Eager"));
  const std::vector<Choice> choices{{3, 1}, {40, 12}};
  CHECK(to_string(choices) == "3:1,40:12");
  CHECK(parse_choices("3:1,40:12") == choices);
  CHECK(parse_choices("")->empty());
  for (const char* wrong :
       {"3", "3:", ":1", "3:0", "3:1,", "3:1,3:2", "4:1,3:1", "3:1;4:1", "3:-1", "3:99999999999"}) {
    CAPTURE(wrong);
    CHECK_FALSE(parse_choices(wrong));
  }
}

// Who got which of the first tickets, by warp, with two warps in one CTA.
std::vector<std::uint32_t> first_tickets(Schedule schedule, std::uint64_t seed) {
  RunShape shape{.grid = {1, 1, 1}, .block = {64, 1, 1}};
  shape.options.schedule = schedule;
  shape.options.seed = seed;
  const Run run = run_kernel(kernel_text(R"(
    mov.u32 %r0, %tid.x; and.b32 %r1, %r0, 31; setp.ne.u32 %p0, %r1, 0;
    @%p0 ret;
    atom.global.add.u32 %r2, [%out], 1;
    shr.u32 %r3, %r0, 5;
    mad.wide.u32 %rd0, %r3, 4, %out;
    st.global.u32 [%rd0+4], %r2;
    ret;)"),
                             3, shape);
  REQUIRE_MESSAGE(run.result.ok, run.failure());
  return {run.output[1], run.output[2]};
}

TEST_CASE("who goes first") {
  using Tickets = std::vector<std::uint32_t>;
  CHECK(first_tickets(Schedule::kEager, 0) == Tickets{0, 1});
  CHECK(first_tickets(Schedule::kReplay, 0) == Tickets{0, 1});
  CHECK(first_tickets(Schedule::kReverse, 0) == Tickets{1, 0});
  CHECK(first_tickets(Schedule::kStarve, 0) == Tickets{1, 0});  // warp 0 starves
  CHECK(first_tickets(Schedule::kStarve, 1) == Tickets{0, 1});
  CHECK(first_tickets(Schedule::kStarve, 2) == first_tickets(Schedule::kStarve, 2));  // an engine
}

// Two copies, each with a barrier: bit k of the output is set if copy 1 - k was not there when k was first
// seen to be; which of them came first, in other words.
std::uint32_t first_copy(Schedule schedule, std::uint64_t seed = 0) {
  PtxRun run(R"(
    mov.u32 %t, %tid.x; setp.eq.u32 %first, %t, 0;
    @!%first bra DONE;
    mbarrier.init.shared.b64 [bar], 1;
    mbarrier.init.shared.b64 [bar+8], 1;
    mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], 64;
    mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar+8], 64;
    cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [tile], [%in], 64, [bar];
    cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [tile+64], [%in], 64, [bar+8];
    POLL:
    mbarrier.test_wait.parity.shared.b64 %p, [bar], 0;
    mbarrier.test_wait.parity.shared.b64 %q, [bar+8], 0;
    selp.u32 %r1, 1, 0, %p;
    selp.u32 %r2, 2, 0, %q;
    or.b32 %r3, %r1, %r2;
    setp.eq.u32 %p, %r3, 0;
    @%p bra POLL;
    st.global.u32 [%out], %r3;
    W0: mbarrier.try_wait.parity.shared.b64 %p, [bar], 0;
    @!%p bra W0;
    W1: mbarrier.try_wait.parity.shared.b64 %p, [bar+8], 0;
    @!%p bra W1;
    DONE:
  )");
  run.options.schedule = schedule;
  run.options.seed = seed;
  const LaunchResult result = run.launch(32);
  REQUIRE_MESSAGE(result.ok, result.report.text());
  return run.output<std::uint32_t>(0);
}

TEST_CASE("which operation goes first") {
  CHECK(first_copy(Schedule::kLazy) == 1);
  CHECK(first_copy(Schedule::kReverse) == 2);
  CHECK(first_copy(Schedule::kLate) == 2);
  CHECK(first_copy(Schedule::kReplay) == 1);
  CHECK(first_copy(Schedule::kStarve, 0) != 0);
  CHECK(first_copy(Schedule::kStarve, 1) != 0);  // of one warp: the copies starve, and go all the same
}

TEST_CASE("a source is read late, then written at once") {
  // The copy's source is overwritten behind it: a race in global memory, whose outcome is the schedule's.
  const auto copied = [](Schedule schedule) {
    PtxRun run(R"(
      mov.u32 %t, %tid.x; setp.eq.u32 %first, %t, 0;
      @!%first bra DONE;
      mbarrier.init.shared.b64 [bar], 1;
      st.global.u32 [%in], 1;
      mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], 64;
      cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [tile], [%in], 64, [bar];
      st.global.u32 [%in], 2;
      WAIT: mbarrier.try_wait.parity.shared.b64 %p, [bar], 0;
      @!%p bra WAIT;
      ld.shared.u32 %r1, [tile];
      st.global.u32 [%out], %r1;
      DONE:
    )");
    run.options.schedule = schedule;
    run.options.checks = false;
    const LaunchResult result = run.launch(32);
    REQUIRE_MESSAGE(result.ok, result.report.text());
    return run.output<std::uint32_t>(0);
  };
  CHECK(copied(Schedule::kEager) == 1);
  CHECK(copied(Schedule::kLate) == 2);
}

// --- Recording, replaying, shrinking

constexpr std::uint64_t kBuffer = 0x10'0000'0200;

// Warps count in global memory without atomics, and the last one traps if a count was lost.
const std::string kLostUpdate = kernel_text(R"(
  mov.u32 %r0, %tid.x; and.b32 %r1, %r0, 31; setp.ne.u32 %p0, %r1, 0;
  @%p0 bra MEET;
  mov.u32 %r5, 0;
  LOOP:
  ld.global.u32 %r2, [%out];
  add.u32 %r2, %r2, 1;
  st.global.u32 [%out], %r2;
  add.u32 %r5, %r5, 1;
  setp.lt.u32 %p1, %r5, 8;
  @%p1 bra LOOP;
  MEET:
  bar.sync 0;
  ld.global.u32 %r2, [%out];
  setp.ne.u32 %p2, %r2, 32;
  @%p2 trap;
  ret;)");

Recording lost_update() {
  Recording recording;
  recording.buffers.push_back({kBuffer, "count", std::vector<std::byte>(64)});
  RecordedLaunch launch;
  launch.entry = "kernel";
  launch.config.block = {128, 1, 1};
  append_bytes(launch.config.parameters, kBuffer);
  recording.launches.push_back(launch);
  return recording;
}

bool loses(const RunOptions& options) { return !replay(kLostUpdate, lost_update(), options).value().ok; }

TEST_CASE("a failing schedule is recorded, replayed and shrunk") {
  RunOptions options;
  options.checks = false;  // which would find the race on every schedule
  CHECK_FALSE(loses(options));
  options.schedule = Schedule::kReplay;
  CHECK_FALSE(loses(options));  // without choices nobody is interrupted
  options.schedule = Schedule::kRandom;
  while (!loses(options)) REQUIRE(++options.seed < 100);

  options.record_choices = true;
  const ReplayResult failing = replay(kLostUpdate, lost_update(), options).value();
  REQUIRE_FALSE(failing.choices.empty());
  RunOptions replayed = options;
  replayed.record_choices = false;
  replayed.schedule = Schedule::kReplay;
  replayed.choices = failing.choices;
  const ReplayResult again = replay(kLostUpdate, lost_update(), replayed).value();
  CHECK_FALSE(again.ok);
  CHECK(again.buffers == failing.buffers);
  CHECK(again.statistics.warp_instructions == failing.statistics.warp_instructions);

  const ShrunkSchedule shrunk = shrink(kLostUpdate, lost_update(), options).value();
  CHECK(shrunk.replayable);
  CHECK(shrunk.recorded == failing.choices.size());
  CHECK(shrunk.choices.size() < shrunk.recorded);
  CHECK(shrunk.choices.size() <= 3);
  replayed.choices = shrunk.choices;
  CHECK(loses(replayed));
  for (std::size_t i = 0; i < shrunk.choices.size(); ++i) {  // none of them can be missed
    replayed.choices = shrunk.choices;
    replayed.choices.erase(replayed.choices.begin() + static_cast<std::ptrdiff_t>(i));
    CHECK_FALSE(loses(replayed));
  }
}

TEST_CASE("every schedule that takes turns can be recorded") {
  for (const Schedule schedule :
       {Schedule::kRandom, Schedule::kReverse, Schedule::kStarve, Schedule::kLate}) {
    CAPTURE(std::string(to_string(schedule)));
    RunOptions options;
    options.schedule = schedule;
    options.seed = 1;
    options.record_choices = true;
    const ReplayResult run = replay(ticket_kernel(), tickets_recording(), options).value();
    REQUIRE(run.ok);
    RunOptions replayed;
    replayed.schedule = Schedule::kReplay;
    replayed.choices = run.choices;
    CHECK(replay(ticket_kernel(), tickets_recording(), replayed).value().buffers == run.buffers);
  }
}

TEST_CASE("a failure that needs no choice shrinks to none, a run that does not fail is refused") {
  const std::string trap = kernel_text("trap;");
  RunOptions options;
  options.schedule = Schedule::kRandom;
  const ShrunkSchedule shrunk = shrink(trap, lost_update(), options).value();
  CHECK(shrunk.replayable);
  CHECK(shrunk.choices.empty());
  CHECK_FALSE(shrink(kernel_text("ret;"), lost_update(), options).ok());
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
}  // namespace jfa::simulator::test::schedule_test
