// Who knows that loads, stores and copies of tensor memory are over: tcgen05.wait is the whole warp's, and
// tcgen05.fence hands on by relaxed arrivals what is of tensor memory.
#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "tests/simulator/one_op.h"

namespace jfa::simulator::test::tensor_wait_test {
namespace {

// Warps 0 and 4 share a quarter of tensor memory, at %r5. Warp 0 does what `first` says, warp 4 what `second`
// does.
std::string kernel(const std::string& first, const std::string& second) {
  return kernel_text(R"(
    .shared .align 1024 .b8 tile[1024];
    .shared .align 8 .b64 bar, done, done_too;
    .shared .b32 slot;
    mov.u32 %r0, %tid.x; and.b32 %r1, %r0, 31; shr.u32 %r2, %r0, 5;
    setp.eq.u32 %p0, %r0, 0;
    setp.eq.u32 %p1, %r2, 0;      // warp 0
    setp.eq.u32 %p2, %r2, 4;      // warp 4
    setp.eq.u32 %p6, %r1, 0;      // lane 0
    mov.u32 %r3, slot; mov.u32 %r6, tile; mov.u32 %r8, done; mov.u32 %r9, done_too;
    shl.b32 %r4, %r1, 4; add.u32 %r4, %r4, %r6;
    @%p1 st.shared.v4.u32 [%r4], {0, 0, 0, 0};
    fence.proxy.async.shared::cta;
    @!%p0 bra READY;
    mbarrier.init.shared.b64 [bar], 1;
    mbarrier.init.shared.b64 [done], 1;
    mbarrier.init.shared.b64 [done_too], 1;
    READY:
    @%p1 tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%r3], 32;
    bar.sync 0;
    ld.shared.u32 %r5, [slot];
    @!%p1 bra OTHERS;
)" + first + R"(
    bra END;
    OTHERS:
    @!%p2 bra END;
)" + second + R"(
    END:
    @!%p1 tcgen05.fence::before_thread_sync;
    bar.sync 0;
    @!%p1 bra OUT;
    tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r5, 32;
    OUT:
    ret;)");
}

struct Case {
  std::string name, first, second;
  std::string report;  // a part of it; empty: silent
};

void check_all(const std::vector<Case>& cases) {
  for (const Case& c : cases)
    for (const Schedule schedule : {Schedule::kEager, Schedule::kLazy, Schedule::kRandom}) {
      RunShape shape{.block = {160, 1, 1}};
      shape.options.schedule = schedule;
      shape.options.seed = 3;
      const Run run = run_kernel(kernel(c.first, c.second), 256, shape);
      CAPTURE(c.name);
      CAPTURE(std::string(to_string(schedule)));
      CAPTURE(run.failure());
      CHECK(run.result.ok == c.report.empty());
      if (!c.report.empty()) CHECK(run.result.report.text().find(c.report) != std::string::npos);
    }
}

const std::string kStore = "tcgen05.st.sync.aligned.32x32b.x1.b32 [%r5], {%r0};\n",
                  kLoad = "tcgen05.ld.sync.aligned.32x32b.x1.b32 {%r7}, [%r5];\n",
                  kWaitStores = "tcgen05.wait::st.sync.aligned;\n",
                  kWaitLoads = "tcgen05.wait::ld.sync.aligned;\n",
                  kBefore = "tcgen05.fence::before_thread_sync;\n",
                  kAfter = "tcgen05.fence::after_thread_sync;\n";
const std::string kElect = "elect.sync %r10|%p3, 0xffffffff;\n",
                  kArrive = kElect + "@%p3 mbarrier.arrive.shared.b64 _, [bar];\n",
                  kArriveRelaxed =
                      kElect + "@%p3 mbarrier.arrive.relaxed.cluster.shared::cta.b64 _, [bar];\n";

std::string wait_for(const std::string& barrier, const std::string& sem = {}) {
  return barrier + "WAIT: mbarrier.try_wait.parity" + sem + ".shared::cta.b64 %p4, [" + barrier +
         "], 0;\n@!%p4 bra " + barrier + "WAIT;\n";
}
const std::string kWait = wait_for("bar"), kWaitRelaxed = wait_for("bar", ".relaxed.cluster");
const std::string kInFlight = "still in flight", kUnordered = "nothing orders the two";

TEST_CASE("a lane that has waited for its warp's store or load speaks for the whole of it") {
  const std::string produce = kStore + kWaitStores + kBefore;
  const std::string read = kAfter + kLoad + kWaitLoads;
  const std::string consume = kStore + kWaitStores + kLoad + kWaitLoads + kBefore;
  const std::string overwrite = kAfter + kStore + kWaitStores;
  check_all({{"a store", produce + kArrive, kWait + read, ""},
             {"not waited for", kStore + kBefore + kArrive, kWait + read, kInFlight},
             {"waited for behind the arrival", kStore + kBefore + kArrive + kWaitStores, kWait + read,
              "tensor memory"},
             {"without the fence in front", kStore + kWaitStores + kArrive, kWait + read,
              "without tcgen05.fence::before_thread_sync"},
             {"without the fence behind", produce + kArrive, kWait + kLoad + kWaitLoads,
              "without tcgen05.fence::after_thread_sync"},
             {"nobody waits for the lane", produce + kArrive, "nanosleep.u32 1;\n" + read, "tensor memory"},
             {"a load", consume + kArrive, kWait + overwrite, ""},
             {"a load that is not waited for", kStore + kWaitStores + kLoad + kBefore + kArrive,
              kWait + overwrite, kInFlight},
             {"a load without the fence in front", kStore + kWaitStores + kLoad + kWaitLoads + kArrive,
              kWait + overwrite, "without tcgen05.fence::before_thread_sync"}});
}

TEST_CASE("the wait is for tensor memory: what the other lanes wrote elsewhere is theirs") {
  const std::string write = "st.shared.u32 [%r4], 1;\n",
                    read = kWait + kAfter + "ld.shared.u32 %r7, [%r4];\n";
  check_all(
      {{"met", write + kStore + kWaitStores + kBefore + "bar.warp.sync 0xffffffff;\n" + kArrive, read, ""},
       {"not met", write + kStore + kWaitStores + kBefore + kArrive, read, kUnordered}});
}

TEST_CASE("relaxed arrivals and waits around tcgen05.fence hand on tensor memory, and nothing else") {
  const std::string produce = kStore + kWaitStores;
  const std::string read = kLoad + kWaitLoads;
  const std::string write = "@%p0 st.shared.u32 [tile], 1;\n", look = "ld.shared.u32 %r11, [tile];\n";
  check_all({{"both fences", produce + kBefore + kArriveRelaxed, kWaitRelaxed + kAfter + read, ""},
             {"the arrival alone is relaxed", produce + kBefore + kArriveRelaxed, kWait + kAfter + read, ""},
             {"the wait alone is", produce + kBefore + kArrive, kWaitRelaxed + kAfter + read, ""},
             {"no fence in front", produce + kArriveRelaxed, kWaitRelaxed + kAfter + read,
              "without tcgen05.fence::before_thread_sync"},
             {"no fence behind", produce + kBefore + kArriveRelaxed, kWaitRelaxed + read, kUnordered},
             {"a fence in front of the wait", produce + kBefore + kArriveRelaxed,
              kAfter + kWaitRelaxed + read, kUnordered},
             {"shared memory", write + produce + kBefore + kArriveRelaxed,
              kWaitRelaxed + kAfter + read + look, kUnordered},
             {"shared memory with its own fences",
              write + produce + kBefore + "fence.acq_rel.cluster;\n" + kArriveRelaxed,
              kWaitRelaxed + kAfter + "fence.acq_rel.cluster;\n" + read + look, ""}});
}

TEST_CASE("so do they the order in which threads issue") {
  // A descriptor of 32 rows of 16 bytes.
  const std::string descriptor =
      "cvt.u64.u32 %rd1, %r6;\nand.b64 %rd1, %rd1, 0x3ffff;\nshr.u64 %rd1, %rd1, 4;\n"
      "or.b64 %rd1, %rd1, 0x400800080000;\n";
  const auto copy = [&](const std::string& done) {
    return descriptor + "@%p6 tcgen05.cp.cta_group::1.32x128b.warpx4 [%r5], %rd1;\n@%p6 " +
           "tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [" + done + "];\n";
  };
  const std::string arrive = "@%p6 mbarrier.arrive.shared.b64 _, [bar];\n",
                    relaxed = "@%p6 mbarrier.arrive.relaxed.cluster.shared::cta.b64 _, [bar];\n";
  const std::string first = copy("%r8") + kBefore;
  const std::string second = kAfter + copy("%r9"), end = wait_for("done") + wait_for("done_too");
  check_all(
      {{"released", first + arrive + end, kWait + second + end, ""},
       {"relaxed", first + relaxed + end, kWaitRelaxed + second + end, ""},
       {"relaxed, no fence behind", first + relaxed + end, kWaitRelaxed + copy("%r9") + end,
        "nothing orders the threads that issue the two"},
       {"another lane arrives",
        first + "setp.eq.u32 %p5, %r1, 1;\n@%p5 mbarrier.arrive.relaxed.cluster.shared::cta.b64 _, [bar];\n" +
            end,
        kWaitRelaxed + second + end, "nothing orders the threads that issue the two"}});
}

}  // namespace
}  // namespace jfa::simulator::test::tensor_wait_test
