#include "tests/simulator/tma_support.h"

namespace jfa::simulator {

// In place: a map has to be aligned, which g++ 12 forgets for one returned by value.
void set_map(PtxRun& run, std::uint64_t address, const MapArguments& a) {
  std::string reason;
  const cuuint32_t ones[5] = {1, 1, 1, 1, 1};
  const CUresult result = encode_tiled_tensor_map(
      &run.map, a.type, static_cast<cuuint32_t>(a.dim.size()), reinterpret_cast<void*>(address), a.dim.data(),
      a.stride.data(), a.box.data(), ones, CU_TENSOR_MAP_INTERLEAVE_NONE, a.swizzle,
      CU_TENSOR_MAP_L2_PROMOTION_NONE, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE, &reason);
  REQUIRE_MESSAGE(result == CUDA_SUCCESS, reason);
}

const std::string kPrologue = R"(
  mov.u32 %t, %tid.x;
  setp.eq.u32 %first, %t, 0;
  @%first mbarrier.init.shared::cta.b64 [bar], 1;
  @%first fence.mbarrier_init.release.cluster;
  bar.sync 0;
)";
const std::string kLoad = R"(
  @%first mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], 16384;
  @%first cp.async.bulk.tensor.2d.shared::cta.global.tile.mbarrier::complete_tx::bytes [tile], [%map, {0, 0}], [bar];
)";
const std::string kWait = R"(
W: mbarrier.try_wait.parity.shared::cta.b64 %p, [bar], 0;
  @!%p bra W;
)";
const std::string kCopyOut = R"(
  mov.u32 %r1, tile;
  shl.b32 %r2, %t, 2;
  add.u32 %r1, %r1, %r2;
  cvt.u64.u32 %a, %r2;
  add.u64 %a, %out, %a;
  mov.u32 %r3, 0;
C: ld.shared.u32 %r4, [%r1];
  st.global.u32 [%a], %r4;
  add.u32 %r1, %r1, 512;
  add.u64 %a, %a, 512;
  add.u32 %r3, %r3, 1;
  setp.lt.u32 %p, %r3, 32;
  @%p bra C;
)";
const std::string kFill = R"(
  mov.u32 %r1, tile;
  shl.b32 %r2, %t, 2;
  add.u32 %r1, %r1, %r2;
  mov.u32 %r3, %t;
F: st.shared.u32 [%r1], %r3;
  add.u32 %r1, %r1, 512;
  add.u32 %r3, %r3, 128;
  setp.lt.u32 %p, %r3, 4096;
  @%p bra F;
)";
const std::string kFence = "fence.proxy.async.shared::cta;\n";
const std::string kSync = "bar.sync 0;\n";
const std::string kStore = R"(
  @%first cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%map, {0, 0}], [tile];
  @%first cp.async.bulk.commit_group;
)";
const std::string kWaitRead = "@%first cp.async.bulk.wait_group.read 0;\n";

void check_mistakes(const std::vector<Mistake>& mistakes, std::uint32_t threads) {
  for (const Mistake& m : mistakes)
    for (const RunOptions& options : all_schedules()) {
      PtxRun run(m.body);
      set_map(run, run.in, {});
      run.options = options;
      const LaunchResult result = run.launch(threads);
      REQUIRE_MESSAGE(!result.ok, m.name);
      CHECK_MESSAGE(result.report.kind == m.kind, m.name, ": ", result.report.text());
      CHECK_MESSAGE(result.report.text().find(m.part) != std::string::npos, m.name, ": ",
                    result.report.text());
    }
}

void check_runs(PtxRun& run, std::uint32_t threads, const std::function<void()>& check, std::uint32_t ctas) {
  for (const RunOptions& options : all_schedules()) {
    std::memset(run.memory.host(run.out, PtxRun::kBytes), 0xee, PtxRun::kBytes);
    run.options = options;
    const LaunchResult result = run.launch(threads, ctas);
    REQUIRE_MESSAGE(result.ok, result.report.text());
    check();
  }
}

}  // namespace jfa::simulator
