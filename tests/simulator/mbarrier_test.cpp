// mbarrier: the object on its own, then the instructions. "H200": measured on that GPU.
#include "simulator/async/mbarrier.h"

#include <doctest/doctest.h>

#include <memory>

#include "simulator/checkers/mbarrier_checks.h"
#include "tests/simulator/async.h"

namespace jfa::simulator::mbarrier_test {

namespace {

const ProgramPoint kHere;

// Watched by what checks the waits of four warps.
Mbarrier barrier(std::uint32_t count) {
  Mbarrier fresh(count, "mbarrier at shared 0x400");
  fresh.observe(std::make_unique<MbarrierChecks>(4, RunOptions()));
  return fresh;
}

template <class Action>
void check_fails(ErrorKind kind, const std::string& part, Action&& action) {
  try {
    action();
    FAIL("no error, expected: ", part);
  } catch (const SimulationError& error) {
    CHECK(error.report().kind == kind);
    CHECK_MESSAGE(error.report().message.find(part) != std::string::npos, error.report().message, " lacks ",
                  part);
  }
}

// Completes a phase and lets warp 0 see it.
void complete_phase(Mbarrier& b) {
  const auto parity = static_cast<std::uint32_t>(b.phase() & 1);
  b.arrive(b.pending(), kHere);
  CHECK(b.test_parity(parity, 0, kHere));
}

}  // namespace

TEST_CASE("H200: what a parity wait answers") {
  Mbarrier b = barrier(1);
  CHECK_FALSE(b.parity_done(0));
  CHECK(b.parity_done(1));
  b.arrive(1, kHere);
  CHECK(b.parity_done(0));
  CHECK_FALSE(b.parity_done(1));
}

TEST_CASE("phases count arrivals") {
  Mbarrier b = barrier(3);
  b.arrive(1, kHere);
  b.arrive(1, kHere);
  CHECK(b.pending() == 1);
  CHECK(b.phase() == 0);
  b.arrive(1, kHere);
  CHECK(b.phase() == 1);
  CHECK(b.pending() == 3);
}

TEST_CASE("H200: bytes may arrive before they are expected") {
  Mbarrier b = barrier(1);
  b.complete_transaction(48, kHere);
  CHECK(b.phase() == 0);
  CHECK(b.transaction_bytes() == -48);
  b.expect_transaction(48, kHere);
  CHECK(b.phase() == 0);
  b.arrive(1, kHere);
  CHECK(b.phase() == 1);
  CHECK(b.transaction_bytes() == 0);
}

TEST_CASE("a phase waits for its bytes") {
  Mbarrier b = barrier(1);
  b.expect_transaction(64, kHere);
  b.arrive(1, kHere);
  CHECK(b.phase() == 0);
  b.complete_transaction(48, kHere);
  CHECK(b.phase() == 0);
  b.complete_transaction(16, kHere);
  CHECK(b.phase() == 1);
}

TEST_CASE("arrive_drop lowers later phases, noComplete may not complete") {
  Mbarrier b = barrier(2);
  b.arrive(1, kHere, Mbarrier::Arrive::kDrop);
  CHECK(b.expected() == 1);
  b.arrive(1, kHere);
  CHECK(b.test_parity(0, 0, kHere));
  CHECK(b.pending() == 1);
  check_fails(ErrorKind::kBarrier, "arrive.noComplete completes phase 1",
              [&] { b.arrive(1, kHere, Mbarrier::Arrive::kNoComplete); });
}

TEST_CASE("counts have limits") {
  Mbarrier b = barrier(2);
  check_fails(ErrorKind::kBarrier, "arrival count 0", [&] { b.arrive(0, kHere); });
  check_fails(ErrorKind::kBarrier, "arrival of 3 at mbarrier at shared 0x400, where 2 of 2 are pending",
              [&] { b.arrive(3, kHere); });
  b.expect_transaction((1 << 20) - 1, kHere);
  check_fails(ErrorKind::kTransaction, "beyond 2^20 - 1", [&] { b.expect_transaction(1, kHere); });
  Mbarrier c = barrier(2);
  c.complete_transaction((1 << 20) - 1, kHere);
  check_fails(ErrorKind::kTransaction, "beyond -(2^20 - 1)", [&] { c.complete_transaction(1, kHere); });
}

TEST_CASE("more bytes than expected can never complete") {
  Mbarrier b = barrier(1);
  b.complete_transaction(32, kHere);
  b.expect_transaction(16, kHere);
  check_fails(ErrorKind::kTransaction, "16 bytes more than expected", [&] { b.arrive(1, kHere); });
}

TEST_CASE("a phase may not complete under an operation that owes it bytes") {
  Mbarrier b = barrier(1);
  b.track(4096, "TMA load", kHere, {});
  check_fails(ErrorKind::kTransaction, "while TMA load still owes it 4096 bytes",
              [&] { b.arrive(1, kHere); });
}

TEST_CASE("a tracked operation settles once") {
  Mbarrier b = barrier(1);
  const auto load = b.track(4096, "TMA load", kHere, {});
  b.expect_transaction(4096, kHere);
  b.arrive(1, kHere);
  CHECK(b.describe().find("4096 bytes owed by TMA load") != std::string::npos);
  b.settle(load);
  CHECK(b.phase() == 1);
}

TEST_CASE("the next phase begins after someone has seen the last end") {
  Mbarrier b = barrier(1);
  b.arrive(1, kHere);
  check_fails(ErrorKind::kBarrier, "before any thread has observed that phase 0 completed",
              [&] { b.arrive(1, kHere); });
  CHECK(b.test_parity(0, 0, kHere));
  b.arrive(1, kHere);
  CHECK(b.phase() == 2);
}

TEST_CASE("a waiter two phases late is told so, whichever answer its parity would give") {
  for (const int phases : {2, 3}) {
    Mbarrier b = barrier(1);
    CHECK_FALSE(b.test_parity(0, 3, kHere));  // warp 3 waits for phase 0
    for (int i = 0; i < phases; ++i) complete_phase(b);
    check_fails(ErrorKind::kBarrier, "warp 3 waits for phase 0", [&] { b.test_parity(0, 3, kHere); });
  }
  Mbarrier b = barrier(1);
  for (int i = 0; i < 3; ++i) {
    complete_phase(b);
    if (i == 0) {
      CHECK(b.test_parity(0, 1, kHere));
    }
  }
  check_fails(ErrorKind::kBarrier, "warp 1 waits for phase 1", [&] { b.test_parity(1, 1, kHere); });
  CHECK(b.test_parity(0, 2, kHere));  // nothing is known of warp 2
}

TEST_CASE("looking twice, or at every second phase, is fine") {
  Mbarrier b = barrier(1);
  complete_phase(b);
  CHECK(b.test_parity(0, 1, kHere));
  CHECK(b.test_parity(0, 1, kHere));
  complete_phase(b);
  complete_phase(b);
  CHECK(b.test_parity(0, 1, kHere));
}

TEST_CASE("a token of arrive is done when its phase is") {
  Mbarrier b = barrier(2);
  const auto token = b.state_token();
  CHECK(Mbarrier::pending_count(token) == 2);
  b.arrive(1, kHere);
  CHECK_FALSE(b.test_state(token, 0, kHere));
  b.arrive(1, kHere);
  CHECK(b.test_state(token, 0, kHere));
  complete_phase(b);
  check_fails(ErrorKind::kBarrier, "it is 2 phases late", [&] { b.test_state(token, 1, kHere); });
}

TEST_CASE("an idle barrier owes nothing") {
  Mbarrier b = barrier(1);
  b.exit();
  b.invalidate(kHere);
  b.expect_transaction(16, kHere);
  const std::string part = "the transaction count of mbarrier at shared 0x400 is 16";
  check_fails(ErrorKind::kTransaction, part, [&] { b.exit(); });
  check_fails(ErrorKind::kTransaction, part, [&] { b.invalidate(kHere); });
}

// --- Instructions

namespace {

const std::string kInit = R"(
  mov.u32 %t, %tid.x;
  setp.eq.u32 %first, %t, 0;
  @%first mbarrier.init.shared::cta.b64 [bar], 32;
  @%first fence.mbarrier_init.release.cluster;
  bar.sync 0;
)";

std::string with_init(const std::string& body) { return kInit + body; }

}  // namespace

TEST_CASE("32 threads arrive and wait") {
  for (const RunOptions& options : all_schedules()) {
    PtxRun run(with_init(R"(
      mbarrier.arrive.shared::cta.b64 %token, [bar];
    L: mbarrier.try_wait.shared::cta.b64 %p, [bar], %token;
      @!%p bra L;
      mbarrier.arrive.shared::cta.b64 _, [bar];
    M: mbarrier.test_wait.parity.acquire.cta.shared::cta.b64 %p, [bar], 1;
      @!%p bra M;
      mbarrier.pending_count.b64 %r1, %token;
      mul.wide.u32 %a, %t, 4;
      add.u64 %a, %out, %a;
      st.global.u32 [%a], %r1;
    )"));
    run.options = options;
    const LaunchResult result = run.launch(32);
    REQUIRE_MESSAGE(result.ok, result.report.text());
    for (std::uint32_t i = 0; i < 32; ++i) CHECK(run.output<std::uint32_t>(i) == 32 - i);
  }
}

TEST_CASE("a wait that nothing ends is a deadlock that says who arrived") {
  for (const RunOptions& options : all_schedules()) {
    PtxRun run(with_init(R"(
      @%first mbarrier.arrive.shared::cta.b64 _, [bar], 31;
    L: mbarrier.try_wait.parity.shared::cta.b64 %p, [bar], 0;
      @!%p bra L;
    )"));
    run.options = options;
    const LaunchResult result = run.launch(32);
    REQUIRE_FALSE(result.ok);
    CHECK(result.report.kind == ErrorKind::kDeadlock);
    const std::string text = result.report.text();
    CHECK_MESSAGE(text.find("1 of 32 arrivals pending") != std::string::npos, text);
    CHECK_MESSAGE(text.find("31 arrived") != std::string::npos, text);
  }
}

TEST_CASE("misuse of the object is an error on every schedule") {
  struct Case {
    std::string body;
    ErrorKind kind;
    std::string part;
  };
  const Case cases[] = {
      {"@%first mbarrier.arrive.shared::cta.b64 _, [bar+8];", ErrorKind::kBarrier,
       "no mbarrier is initialised"},
      {"@%first mbarrier.arrive.shared::cta.b64 _, [bar+4];", ErrorKind::kMisaligned, "not 8-byte aligned"},
      {"@%first mbarrier.init.shared::cta.b64 [bar], 1;", ErrorKind::kBarrier,
       "mbarrier.inval has to come first"},
      {"@%first mbarrier.init.shared::cta.b64 [bar+8], 0;", ErrorKind::kBarrier, "count 0"},
      {"@%first mbarrier.init.shared::cta.b64 [bar+8], 1048576;", ErrorKind::kBarrier, "count 1048576"},
      {"@%first mbarrier.inval.shared::cta.b64 [bar];\n @%first mbarrier.arrive.shared::cta.b64 _, [bar];",
       ErrorKind::kBarrier, "no mbarrier is initialised"},
      {"@%first st.shared.u32 [bar], %t;", ErrorKind::kBarrier, "live mbarrier"},
      {"@%first ld.shared.u32 %r1, [bar+4];", ErrorKind::kBarrier, "live mbarrier"},
      {"@%first mbarrier.arrive.shared::cta.b64 _, [bar], 33;", ErrorKind::kBarrier, "32 of 32 are pending"},
      {"@%first mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [bar], 1048576;", ErrorKind::kTransaction,
       "beyond 2^20 - 1"},
      {"@%first mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [bar], 16;", ErrorKind::kTransaction,
       "the CTA has exited"},
      {"mov.u32 %r1, 2;\n mbarrier.try_wait.parity.shared::cta.b64 %p, [bar], %r1;",
       ErrorKind::kInvalidOperand, "is 2, not 0 or 1"},
  };
  for (const Case& c : cases)
    for (const RunOptions& options : all_schedules()) {
      PtxRun run(with_init(c.body));
      run.options = options;
      const LaunchResult result = run.launch(32);
      REQUIRE_MESSAGE(!result.ok, c.body);
      CHECK_MESSAGE(result.report.kind == c.kind, c.body, ": ", result.report.text());
      CHECK_MESSAGE(result.report.text().find(c.part) != std::string::npos, result.report.text());
    }
}

TEST_CASE("inval makes the memory plain again") {
  PtxRun run(with_init(R"(
    @!%first bra DONE;
    mbarrier.inval.shared::cta.b64 [bar];
    st.shared.u32 [bar], 7;
    ld.shared.u32 %r1, [bar];
    st.global.u32 [%out], %r1;
    mbarrier.init.shared::cta.b64 [bar], 1;
  DONE:
  )"));
  const LaunchResult result = run.launch(32);
  REQUIRE_MESSAGE(result.ok, result.report.text());
  CHECK(run.output<std::uint32_t>(0) == 7);
}

TEST_CASE("H200: a CTA arrives on its peer's barrier through the address without its rank bit") {
  for (const RunOptions& options : all_schedules()) {
    PtxRun run(R"(
      mov.u32 %t, %tid.x;
      mov.u32 %r2, %cluster_ctarank;
      setp.eq.u32 %first, %t, 0;
      @%first mbarrier.init.shared::cta.b64 [bar], 2;
      fence.mbarrier_init.release.cluster;
      barrier.cluster.arrive.relaxed.aligned;
      barrier.cluster.wait.aligned;
      @!%first bra DONE;
      mov.u32 %r3, bar;
      and.b32 %r3, %r3, 0xFEFFFFFF;
      mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r3];
      setp.ne.u32 %p, %r2, 0;
      @%p bra DONE;
    L: mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 %p, [bar], 0;
      @!%p bra L;
      st.global.u32 [%out], 1;
    DONE:
      barrier.cluster.arrive;
      barrier.cluster.wait;
    )");
    run.options = options;
    run.cluster = 2;
    const LaunchResult result = run.launch(32, 2);
    REQUIRE_MESSAGE(result.ok, result.report.text());
    CHECK(run.output<std::uint32_t>(0) == 1);
  }
}

}  // namespace jfa::simulator::mbarrier_test
