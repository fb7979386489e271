// TMA and bulk copies: the mistakes that are errors on every schedule, and what is none.
#include <doctest/doctest.h>

#include "tests/simulator/tma_support.h"

namespace jfa::simulator::tma_checks_test {

TEST_CASE("waiting for a load: not at all, or for too few or too many bytes") {
  check_mistakes({
      {"read before the wait", kPrologue + kLoad + kSync + kCopyOut + kWait, ErrorKind::kInFlight,
       "is being written by TMA load"},
      {"write before the wait", kPrologue + kLoad + kSync + kFill + kWait, ErrorKind::kInFlight,
       "is being written by TMA load"},
      {"never waited for", kPrologue + kLoad, ErrorKind::kInFlight, "the CTA has exited"},
      {"expects fewer", kPrologue + R"(
         @%first mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], 8192;
         @%first cp.async.bulk.tensor.2d.shared::cta.global.tile.mbarrier::complete_tx::bytes [tile], [%map, {0, 0}], [bar];
       )" + kWait,
       ErrorKind::kTransaction, "phase 0"},
      {"expects none", kPrologue + R"(
         @%first cp.async.bulk.tensor.2d.shared::cta.global.tile.mbarrier::complete_tx::bytes [tile], [%map, {0, 0}], [bar];
         @%first mbarrier.arrive.shared::cta.b64 _, [bar];
       )" + kWait,
       ErrorKind::kTransaction, "phase 0"},
      {"expects more", kPrologue + R"(
         @%first mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], 16400;
         @%first cp.async.bulk.tensor.2d.shared::cta.global.tile.mbarrier::complete_tx::bytes [tile], [%map, {0, 0}], [bar];
       )" + kWait,
       ErrorKind::kDeadlock, "16 bytes outstanding"},
      {"loads twice into one place", kPrologue + kLoad + R"(
         @%first cp.async.bulk.tensor.2d.shared::cta.global.mbarrier::complete_tx::bytes [tile], [%map, {0, 0}], [bar];
       )",
       ErrorKind::kInFlight, "TMA load is still in flight"},
      {"loads over its own mbarrier", kPrologue + R"(
         @%first mbarrier.init.shared::cta.b64 [tile+1024], 1;
       )" + kLoad,
       ErrorKind::kBarrier, "overwrites the live mbarrier"},
  });
}

TEST_CASE("what the hardware faults on") {
  const auto load = [](const std::string& to, const std::string& map, const std::string& at) {
    return kPrologue +
           "@%first cp.async.bulk.tensor.2d.shared::cta.global.tile.mbarrier::complete_tx::bytes [" + to +
           "], [" + map + ", {" + at + "}], [bar];\n";
  };
  check_mistakes({
      {"destination +16", load("tile+16", "%map", "0, 0"), ErrorKind::kMisaligned, "not 128-byte aligned"},
      {"c0 = 4", load("tile", "%map", "4, 0"), ErrorKind::kInvalidOperand, "not a multiple of 16 bytes"},
      {"negative store", kPrologue + kFill + kFence + kSync + R"(
         @%first cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%map, {0, -1}], [tile];
       )",
       ErrorKind::kInvalidOperand, "coordinate 1 = -1 of a tensor store is negative"},
      {"not a map", load("tile", "%in", "0, 0"), ErrorKind::kDescriptor, "not a tensor map"},
      {"beyond shared memory", load("tile+31744", "%map", "0, 0"), ErrorKind::kOutOfBounds,
       "outside the CTA"},
      {"wrong rank", kPrologue + R"(
         @%first cp.async.bulk.tensor.1d.shared::cta.global.tile.mbarrier::complete_tx::bytes [tile], [%map, {0}], [bar];
       )",
       ErrorKind::kDescriptor, "1 coordinates for a tensor map of rank 2"},
      {"no barrier", kPrologue + R"(
         @%first cp.async.bulk.tensor.2d.shared::cta.global.tile.mbarrier::complete_tx::bytes [tile], [%map, {0, 0}], [bar+8];
       )",
       ErrorKind::kBarrier, "no mbarrier is initialised"},
  });
}

TEST_CASE("storing from shared memory: fences, waits, bytes nobody wrote") {
  const std::string overwrite = "@%first st.shared.u32 [tile+64], 0;\n";
  check_mistakes({
      {"no fence", kPrologue + kFill + kSync + kStore + kWaitRead, ErrorKind::kMissingFence,
       "without fence.proxy.async"},
      {"the storing thread fences before it knows of the others' writes",
       kPrologue + kFill + "@%first fence.proxy.async.shared::cta;\n" + kSync + kStore + kWaitRead,
       ErrorKind::kMissingFence, "without fence.proxy.async"},
      {"somebody fences who is not ordered before the store",
       kPrologue + kFill + kSync + "@!%first fence.proxy.async.shared::cta;\n" + kStore + kWaitRead,
       ErrorKind::kMissingFence, "without fence.proxy.async"},
      {"the fence before the write", kPrologue + kFence + kFill + kSync + kStore + kWaitRead,
       ErrorKind::kMissingFence, "without fence.proxy.async"},
      {"a fence of global memory",
       kPrologue + kFill + "fence.proxy.async.global;\n" + kSync + kStore + kWaitRead,
       ErrorKind::kMissingFence, "without fence.proxy.async"},
      {"overwritten before the wait", kPrologue + kFill + kFence + kSync + kStore + overwrite + kWaitRead,
       ErrorKind::kInFlight, "is being read by TMA store"},
      {"a wait that lets one group go on",
       kPrologue + kFill + kFence + kSync + kStore + "@%first cp.async.bulk.wait_group.read 1;\n" + overwrite,
       ErrorKind::kInFlight, "is being read by TMA store"},
      {"a group not committed", kPrologue + kFill + kFence + kSync + R"(
         @%first cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%map, {0, 0}], [tile];
       )" + kWaitRead + overwrite,
       ErrorKind::kInFlight, "is being read by TMA store"},
      {"exit without a wait", kPrologue + kFill + kFence + kSync + kStore, ErrorKind::kInFlight,
       "the CTA has exited"},
      {"nothing written", kPrologue + kStore + kWaitRead, ErrorKind::kUninitialised,
       "which nothing has written"},
      {"a load into the source",
       kPrologue + kFill + kFence + kSync + kStore +
           "@%first cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [tile], [%out], 64, "
           "[bar];\n",
       ErrorKind::kInFlight, "while TMA store is still in flight"},
  });
}

TEST_CASE("the proxy fence may be the writers', the storing thread's, or of somebody in between") {
  const std::string other = "mov.u32 %r4, %tid.x;\nsetp.eq.u32 %q, %r4, 77;\n";
  for (const std::string& fence : {kFence + kSync, kSync + kFence, kSync + "@%first fence.proxy.async;\n",
                                   kSync + other + "@%q fence.proxy.async.shared::cta;\n" + kSync})
    for (const RunOptions& options : all_schedules()) {
      CAPTURE(fence);
      PtxRun run(kPrologue + kFill + fence + kStore + kWaitRead);
      set_map(run, run.out, {});
      run.options = options;
      const LaunchResult result = run.launch(128);
      CHECK_MESSAGE(result.ok, result.report.text());
    }
}

}  // namespace jfa::simulator::tma_checks_test
