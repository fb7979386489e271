// Observers of a run, beside the checkers and without them: they are told what happens, each of them, and
// change nothing.
#include "simulator/machine/observer.h"

#include <memory>

#include "simulator/machine/machine.h"
#include "tests/simulator/async.h"

namespace jfa::simulator::observer_test {

namespace {

struct Counts {
  std::uint64_t instructions = 0, global_writes = 0, shared_reads = 0, shared_writes = 0;
  std::uint64_t issued = 0, ended = 0, global_issued = 0, global_ended = 0;
  std::uint64_t arrivals = 0, waits = 0, ctas = 0, exits = 0;
  bool operator==(const Counts&) const = default;
};

class CountingBarrier final : public MbarrierObserver {
 public:
  explicit CountingBarrier(Counts& counts) : counts_(counts) {}
  void arrive(const Mbarrier&, std::uint32_t count, bool, const ProgramPoint&) override {
    counts_.arrivals += count;
  }
  void await_parity(const Mbarrier&, std::uint32_t, int, const ProgramPoint&) override { ++counts_.waits; }

 private:
  Counts& counts_;
};

class CountingMemory final : public SharedObserver {
 public:
  explicit CountingMemory(Counts& counts) : counts_(counts) {}
  void read(std::uint32_t, std::uint32_t, const ProgramPoint&, const MemoryOrder&) override {
    ++counts_.shared_reads;
  }
  void write(std::uint32_t, std::uint32_t, const ProgramPoint&, const MemoryOrder&) override {
    ++counts_.shared_writes;
  }
  void issue(FlightId, MemoryAccess, std::uint32_t, std::uint32_t, const char*, const ProgramPoint&,
             bool) override {
    ++counts_.issued;
  }
  void end_flight(FlightId, const Epoch&) override { ++counts_.ended; }
  std::unique_ptr<MbarrierObserver> add_barrier(int) override {
    return std::make_unique<CountingBarrier>(counts_);
  }
  void exit() override { ++counts_.exits; }

 private:
  Counts& counts_;
};

class Counter final : public Observer {
 public:
  std::unique_ptr<SharedObserver> add_cta(Cta&) override {
    ++counts.ctas;
    return std::make_unique<CountingMemory>(counts);
  }
  bool watches_instructions() const override { return true; }
  void execute(const Warp&, const Instruction&, LaneMask) override { ++counts.instructions; }
  void write(std::uint64_t, std::uint32_t, const ProgramPoint&, const MemoryOrder&) override {
    ++counts.global_writes;
  }
  void issue(FlightId) override { ++counts.global_issued; }
  void end_flight(FlightId, const Epoch&) override { ++counts.global_ended; }

  Counts counts;
};

// Each thread stores a word; the first copies 1 KiB in and waits for it.
constexpr const char* kBody = R"(
  mov.u32 %t, %tid.x;
  setp.eq.u32 %first, %t, 0;
  @%first mbarrier.init.shared::cta.b64 [bar], 1;
  bar.sync 0;
  @%first mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], 1024;
  @%first cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [tile], [%in], 1024, [bar];
L: mbarrier.try_wait.parity.shared::cta.b64 %p, [bar], 0;
  @!%p bra L;
  mov.u32 %r1, tile;
  shl.b32 %r2, %t, 2;
  add.u32 %r1, %r1, %r2;
  ld.shared.u32 %r3, [%r1];
  st.shared.u32 [%r1+1024], %r3;
  mul.wide.u32 %a, %t, 4;
  add.u64 %a, %out, %a;
  st.global.u32 [%a], %r3;
)";

}  // namespace

TEST_CASE("observers are told of what happens, with checks and without") {
  for (const bool checks : {true, false}) {
    CAPTURE(checks);
    Counter first, second;
    PtxRun run(kBody);
    run.options.checks = checks;
    run.options.observers = {&first, &second};
    for (std::uint32_t i = 0; i < 64; ++i) run.input<std::uint32_t>()[i] = i * i;
    const LaunchResult result = run.launch(64);
    REQUIRE_MESSAGE(result.ok, result.report.text());
    for (std::uint32_t i = 0; i < 64; ++i) CHECK(run.output<std::uint32_t>(i) == i * i);
    const Counts& c = first.counts;
    CHECK(c == second.counts);
    CHECK(c.instructions == result.statistics.warp_instructions);
    CHECK(c.global_writes == 64);
    CHECK(c.shared_reads == 64);
    CHECK(c.shared_writes == 65);  // and mbarrier.init
    CHECK(c.issued == 1);
    CHECK(c.ended == 1);
    CHECK(c.global_issued == 1);
    CHECK(c.global_ended == 1);
    CHECK(c.arrivals == 1);
    CHECK(c.waits >= 2);
    CHECK(c.ctas == 1);
    CHECK(c.exits == 1);
  }
}

TEST_CASE("an observer hears of a run that checkers end") {
  Counter counter;
  PtxRun run("st.shared.u32 [tile], 1;\n ld.shared.u32 %r1, [tile+4];");
  run.options.observers = {&counter};
  const LaunchResult result = run.launch(32);
  REQUIRE_FALSE(result.ok);
  CHECK(result.report.kind == ErrorKind::kUninitialised);
  CHECK(counter.counts.shared_writes == 32);
  CHECK(counter.counts.shared_reads == 0);
}

}  // namespace jfa::simulator::observer_test
