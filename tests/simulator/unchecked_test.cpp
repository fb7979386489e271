// Checks off: no checker speaks. What remains are hangs, traps and what the machine cannot do.
#include <doctest/doctest.h>

#include "tests/simulator/tma_support.h"

namespace jfa::simulator::unchecked_test {
namespace {

struct Program {
  const char* what;  // goes wrong
  ErrorKind kind;
  std::string body;
  std::uint32_t threads = 32;
  std::uint32_t ctas = 1;  // of one cluster
};

LaunchResult launch(const Program& program, RunOptions options, bool checks) {
  PtxRun run(program.body);
  set_map(run, run.in + 4096, {});
  std::memcpy(run.input<std::byte>(), &run.map, sizeof(run.map));  // for maps that are changed
  options.checks = checks;
  run.options = options;
  run.cluster = program.ctas;
  return run.launch(program.threads, program.ctas);
}

void check_only_with_checks(const std::vector<Program>& programs) {
  for (const Program& program : programs) {
    CAPTURE(program.what);
    const LaunchResult checked = launch(program, {}, true);
    REQUIRE(!checked.ok);
    CHECK_MESSAGE(checked.report.kind == program.kind, checked.report.text());
    for (const RunOptions& options : all_schedules()) {
      const LaunchResult unchecked = launch(program, options, false);
      CHECK_MESSAGE(unchecked.ok, unchecked.report.text());
    }
  }
}

std::string arrive() { return "@%first mbarrier.arrive.shared::cta.b64 %token, [bar];\n"; }
std::string look(const char* who) {
  return std::string("@") + who + " mbarrier.test_wait.parity.shared::cta.b64 %p, [bar], 0;\n";
}

TEST_CASE("checks off: order, flight and fences of memory") {
  check_only_with_checks({
      {"two warps write one place", ErrorKind::kRace,
       "mov.u32 %t, %tid.x;\nshr.u32 %r1, %t, 5;\nst.shared.u32 [tile], %r1;\n", 64},
      {"the same in global memory", ErrorKind::kRace,
       "mov.u32 %t, %tid.x;\nshr.u32 %r1, %t, 5;\nst.global.u32 [%out], %r1;\n", 64},
      {"a read of what nothing has written", ErrorKind::kUninitialised, "ld.shared.u32 %r1, [tile];\n"},
      {"a read of a copy's destination", ErrorKind::kInFlight,
       kPrologue + kLoad + "ld.shared.u32 %r1, [tile];\n" + kWait},
      {"an exit before a copy's end", ErrorKind::kInFlight, kPrologue + kLoad},
      {"an exit before a store has read", ErrorKind::kInFlight, kPrologue + kFill + kFence + kSync + kStore,
       128},
      {"no proxy fence", ErrorKind::kMissingFence, kPrologue + kFill + kSync + kStore + kWaitRead, 128},
      {"no fence for a tensor map", ErrorKind::kMissingFence, kPrologue + R"(
         @%first tensormap.replace.tile.box_dim.global.b1024.b32 [%in], 0, 64;
         @%first mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], 16384;
         @%first cp.async.bulk.tensor.2d.shared::cta.global.tile.mbarrier::complete_tx::bytes [tile], [%in, {0, 0}], [bar];
       )" + kWait},
  });
}

TEST_CASE("checks off: phases and bytes of mbarriers") {
  check_only_with_checks({
      {"a phase that nobody observes", ErrorKind::kBarrier, kPrologue + arrive() + arrive()},
      {"a wait that is phases late", ErrorKind::kBarrier,
       kPrologue + "setp.eq.u32 %q, %t, 32;\n" + look("%first") + arrive() + kSync + look("%q") + kSync +
           arrive() + kSync + look("%first"),
       64},
      {"noComplete completes", ErrorKind::kBarrier,
       kPrologue + "@%first mbarrier.arrive.noComplete.shared::cta.b64 %token, [bar], 1;\n"},
      {"a second init", ErrorKind::kBarrier,
       kPrologue + "@%first mbarrier.init.shared::cta.b64 [bar], 1;\n" + arrive()},
      {"a plain read of the object", ErrorKind::kBarrier,
       kPrologue + "@%first ld.shared.u64 %token, [bar];\n"},
      {"a phase that ends before its copy", ErrorKind::kTransaction,
       kPrologue +
           "@%first cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [tile], [%in], 16, "
           "[bar];\n" +
           arrive()},
      {"bytes too many", ErrorKind::kTransaction,
       kPrologue + "@%first mbarrier.complete_tx.relaxed.cta.shared::cta.b64 [bar], 16;\n" + arrive()},
      {"bytes that never come", ErrorKind::kTransaction,
       kPrologue + "@%first mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [bar], 16;\n"},
      {"an exit before a commit's arrival", ErrorKind::kInFlight,
       kPrologue + "mov.u32 %r1, bar;\n"
                   "@%first tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%r1];\n"},
  });
}

std::string alloc(int cta_group) {
  return "mov.u32 %t, %tid.x;\nmov.u32 %r1, bar;\nsetp.lt.u32 %p, %t, 32;\n@!%p bra "
         "GO;\ntcgen05.alloc.cta_group::" +
         std::to_string(cta_group) +
         ".sync.aligned.shared::cta.b32 [%r1], 32;\nGO: bar.sync 0;\nld.shared.u32 %r2, [bar];\n";
}
std::string dealloc(int cta_group) {
  return "tcgen05.dealloc.cta_group::" + std::to_string(cta_group) + ".sync.aligned.b32 %r2, 32;\n";
}
const std::string kTensorStore = "tcgen05.st.sync.aligned.32x32b.x1.b32 [%r2], {%t};\n";
const std::string kStored = kTensorStore + "tcgen05.wait::st.sync.aligned;\n";
const std::string kTensorLoad = "tcgen05.ld.sync.aligned.32x32b.x1.b32 {%r3}, [%r2];\n";
const std::string kLoaded = "tcgen05.wait::ld.sync.aligned;\n";
const std::string kMeet = "barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;\n";

TEST_CASE("checks off: tensor memory") {
  check_only_with_checks({
      {"an exit with columns", ErrorKind::kTensorMemory, alloc(1)},
      {"a load of what nothing has written", ErrorKind::kUninitialised,
       alloc(1) + kTensorLoad + kLoaded + dealloc(1)},
      {"a register used before wait::ld", ErrorKind::kInFlight,
       alloc(1) + kStored + kTensorLoad + "add.u32 %r3, %r3, 1;\n" + kLoaded + dealloc(1)},
      {"a dealloc before wait::st", ErrorKind::kInFlight, alloc(1) + kTensorStore + dealloc(1)},
      {"no fence before another warp's dealloc", ErrorKind::kMissingFence,
       alloc(1) + "@!%p bra NEXT;\n" + kStored + "NEXT: bar.sync 0;\n@%p bra OUT;\n" + dealloc(1) + "OUT:\n",
       64},
      {"a pair's alloc before the peer runs", ErrorKind::kTensorMemory, alloc(2) + kMeet + dealloc(2), 32, 2},
      {"a pair's dealloc before the peer's alloc", ErrorKind::kTensorMemory, kMeet + alloc(2) + dealloc(2),
       32, 2},
      {"a pair's dealloc before the peer's store", ErrorKind::kTensorMemory,
       kMeet + alloc(2) + kMeet + kStored + "tcgen05.fence::before_thread_sync;\n" + dealloc(2), 32, 2},
  });
}

TEST_CASE("checks off: values that are undefined, and who executes what") {
  check_only_with_checks({
      {"shfl from a lane that takes no part", ErrorKind::kDivergence,
       "mov.u32 %t, %tid.x;\nsetp.lt.u32 %p, %t, 16;\n@%p shfl.sync.idx.b32 %r1, %t, 20, 31, 65535;\n"},
      {"the CTA of a request that was not granted", ErrorKind::kInvalidOperand,
       "{ .reg .b128 %none;\nmov.b64 %token, 0;\nmov.b128 %none, {%token, %token};\n"
       "clusterlaunchcontrol.query_cancel.get_first_ctaid.v4.b32.b128 {%r1, %r2, %r3, _}, %none; }\n"},
      {"warps of a warpgroup that ask for different registers", ErrorKind::kDivergence,
       "mov.u32 %t, %tid.x;\nsetp.lt.u32 %p, %t, 32;\n@%p bra A;\nsetmaxnreg.dec.sync.aligned.u32 24;\nbra "
       "B;\n"
       "A: setmaxnreg.dec.sync.aligned.u32 40;\nB:\n",
       128},
  });
}

TEST_CASE("checks off: registers of a wgmma") {
  std::string fill;
  for (int i = 0; i < 128; i += 16)
    fill += "st.shared.v4.b32 [%r+" + std::to_string(i) + "], {%zero, %zero, %zero, %zero};\n";
  const std::string ptx = R"(
.version 9.0
.target sm_90a
.address_size 64
.visible .entry test() {
  .reg .b32 %d<4>, %r, %zero;
  .reg .b64 %a;
  .shared .align 1024 .b8 tile[16384];
  mov.u32 %zero, 0;
  mov.u32 %r, %tid.x;
  shl.b32 %r, %r, 7;
  add.u32 %r, %r, tile;
)" + fill + R"(
  fence.proxy.async.shared::cta;
  bar.sync 0;
  mov.u32 %r, tile;
  shr.u32 %r, %r, 4;
  cvt.u64.u32 %a, %r;
  or.b64 %a, %a, 0x4000004000010000;
  wgmma.fence.sync.aligned;
  wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {%d0, %d1, %d2, %d3}, %a, %a, 0, 1, 1, 0, 0;
  wgmma.commit_group.sync.aligned;
  add.u32 %r, %d0, 1;
  ret;
})";
  for (const bool checks : {true, false})
    for (RunOptions options : all_schedules()) {
      options.checks = checks;
      DeviceMemory memory;
      const auto module = Module::load(ptx, memory);
      REQUIRE_MESSAGE(module.ok(), module.status().message());
      LaunchConfig config;
      config.block = {128, 1, 1};
      config.options = options;
      const LaunchResult result = run_grid(**module, *(*module)->find("test"), config, memory);
      CHECK_MESSAGE(result.ok == !checks, result.report.text());
      if (checks) CHECK(result.report.kind == ErrorKind::kInFlight);
    }
}

TEST_CASE("checks off: hangs, traps and what the machine cannot do stay errors") {
  const Program programs[] = {
      {"a wait that nothing ends", ErrorKind::kDeadlock, kPrologue + kWait},
      {"a trap", ErrorKind::kTrap, "trap;\n"},
      {"no memory there", ErrorKind::kOutOfBounds, "mov.b64 %a, 16;\nld.global.u32 %r1, [%a];\n"},
      {"beyond shared memory", ErrorKind::kOutOfBounds, "mov.u32 %r1, 300000;\nld.shared.u32 %r2, [%r1];\n"},
      {"a misaligned address", ErrorKind::kMisaligned, "ld.global.u32 %r1, [%out+2];\n"},
      {"no mbarrier there", ErrorKind::kBarrier, "mbarrier.arrive.shared::cta.b64 %token, [bar];\n"},
      {"more arrivals than are pending", ErrorKind::kBarrier,
       kPrologue + "@%first mbarrier.arrive.shared::cta.b64 %token, [bar], 2;\n"},
      {"an inval under a copy", ErrorKind::kInFlight,
       kPrologue + kLoad + "@%first mbarrier.inval.shared::cta.b64 [bar];\n"},
      {"no tensor map", ErrorKind::kDescriptor,
       kPrologue +
           "@%first cp.async.bulk.tensor.2d.shared::cta.global.tile.mbarrier::complete_tx::bytes [tile], "
           "[%out, {0, 0}], [bar];\n"},
      {"half a warp at an .aligned barrier", ErrorKind::kDivergence,
       "mov.u32 %t, %tid.x;\nsetp.lt.u32 %p, %t, 16;\n@%p bar.sync 0;\n"},
      {"columns that nobody has allocated", ErrorKind::kTensorMemory,
       "mov.u32 %r2, 0;\nmov.u32 %t, 0;\n" + kTensorStore},
      {"a dealloc of them", ErrorKind::kTensorMemory, "mov.u32 %r2, 0;\n" + dealloc(1)},
      {"a pair of which one allocates", ErrorKind::kDeadlock,
       "mov.u32 %r9, %cluster_ctarank;\nsetp.eq.u32 %q, %r9, 1;\n@%q bra OVER;\n" + alloc(2) + "OVER:\n" +
           kMeet,
       32, 2},
  };
  for (const Program& program : programs) {
    CAPTURE(program.what);
    RunOptions lazy;
    lazy.schedule = Schedule::kLazy;
    const LaunchResult result = launch(program, lazy, false);
    REQUIRE(!result.ok);
    CHECK_MESSAGE(result.report.kind == program.kind, result.report.text());
  }
}

}  // namespace
}  // namespace jfa::simulator::unchecked_test
