// TMA and bulk copies through their instructions: what arrives where, on every schedule; and the mistakes
// that are errors on every schedule.
#include <doctest/doctest.h>

#include <bit>
#include <functional>

#include "simulator/tma.h"
#include "simulator_async.h"

using namespace jfa::simulator;

namespace {

struct MapArguments {
  CUtensorMapDataType type = CU_TENSOR_MAP_DATA_TYPE_BFLOAT16;
  std::vector<cuuint64_t> dim{64, 128};
  std::vector<cuuint64_t> stride{128};
  std::vector<cuuint32_t> box{64, 128};
  CUtensorMapSwizzle swizzle = CU_TENSOR_MAP_SWIZZLE_128B;
};

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

// Thread 0 owns barrier `bar`, of one arrival.
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
// 128 threads copy tile[0 … 16 KiB) to the output as it lies.
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
// 128 threads fill tile[0 … 16 KiB): word i holds i.
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

struct Mistake {
  std::string name;
  std::string body;
  ErrorKind kind;
  std::string part;  // of the report
};

void check_mistakes(const std::vector<Mistake>& mistakes, std::uint32_t threads = 128) {
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

void check_runs(PtxRun& run, std::uint32_t threads, const std::function<void()>& check,
                std::uint32_t ctas = 1) {
  for (const RunOptions& options : all_schedules()) {
    std::memset(run.memory.host(run.out, PtxRun::kBytes), 0xee, PtxRun::kBytes);
    run.options = options;
    const LaunchResult result = run.launch(threads, ctas);
    REQUIRE_MESSAGE(result.ok, result.report.text());
    check();
  }
}

}  // namespace

TEST_CASE("a 128x64 bf16 tile lands under the 128-byte swizzle") {
  PtxRun run(kPrologue + kLoad + kWait + kCopyOut);
  set_map(run, run.in, {});
  for (std::uint32_t i = 0; i < 128 * 64; ++i) run.input<std::uint16_t>()[i] = static_cast<std::uint16_t>(i);
  check_runs(run, 128, [&] {
    const std::uint32_t expected[][3] = {{0, 0, 0},    {0, 8, 16},   {1, 0, 144},   {1, 8, 128},
                                         {3, 40, 480}, {7, 63, 910}, {9, 16, 1200}, {127, 63, 16270}};
    for (const auto& [m, k, byte] : expected) CHECK(run.output<std::uint16_t>(byte / 2) == m * 64 + k);
    for (std::uint32_t i = 0; i < 128 * 64; ++i) {
      const std::uint32_t byte = swizzle_shared_address(CU_TENSOR_MAP_SWIZZLE_128B, 2 * i);
      REQUIRE(run.output<std::uint16_t>(byte / 2) == i);
    }
  });
}

TEST_CASE("elements outside the tensor are zeros, and the whole box is counted") {
  PtxRun run(kPrologue + R"(
    @%first mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], 16384;
    @%first cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [tile], [%map, {-8, 100}], [bar];
  )" + kWait +
             kCopyOut);
  set_map(run, run.in, {.dim = {40, 128}, .swizzle = CU_TENSOR_MAP_SWIZZLE_NONE});
  std::memset(run.input<char>(), 0x11, 128 * 128);
  check_runs(run, 128, [&] {
    for (std::uint32_t row = 0; row < 128; ++row)
      for (std::uint32_t column = 0; column < 64; ++column) {
        const bool inside = row < 28 && column >= 8 && column < 48;
        REQUIRE(run.output<std::uint16_t>(row * 64 + column) == (inside ? 0x1111 : 0));
      }
  });
}

TEST_CASE("a store writes what shared memory holds, in tensor order, and drops what is outside") {
  PtxRun run(kPrologue + kFill + kFence + kSync + R"(
    @%first cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%map, {0, 64}], [tile];
    @%first cp.async.bulk.commit_group;
    @%first cp.async.bulk.wait_group 0;
  )");
  set_map(run, run.out, {.dim = {64, 100}});
  check_runs(run, 128, [&] {
    for (std::uint32_t i = 0; i < 128 * 32; ++i) {
      const std::uint32_t row = i / 32;
      const std::uint32_t word = swizzle_shared_address(CU_TENSOR_MAP_SWIZZLE_128B, 4 * i) / 4;
      REQUIRE(run.output<std::uint32_t>(64 * 32 + i) == (row < 36 ? word : 0xeeeeeeee));
    }
    CHECK(run.output<std::uint32_t>(64 * 32 - 1) == 0xeeeeeeee);
  });
}

TEST_CASE("ragged maps: a sequence's rows and nothing else, through load and store") {
  // 3 heads of 64 elements; 37 rows from row 50 on, stored from row 10 on.
  constexpr cuuint64_t kExtent = 1ull << 30, kRow = 3 * 128;
  const MapArguments ragged{.dim = {64, 3, kExtent, kExtent, kExtent + 1},
                            .stride = {128, kRow, kRow, (1ull << 34) - kRow},
                            .box = {64, 1, 128, 1, 1}};
  PtxRun run(kPrologue + R"(
    @%first mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], 16384;
    @%first cp.async.bulk.tensor.5d.shared::cta.global.tile.mbarrier::complete_tx::bytes
        [tile], [%map, {0, 1, 1073741787, 87, 1073741824}], [bar];
  )" + kWait +
             kCopyOut);
  set_map(run, run.in, ragged);
  std::memset(run.input<char>(), 0xff, PtxRun::kBytes);
  for (std::uint32_t row = 0; row < 37; ++row)
    for (std::uint32_t i = 0; i < 64; ++i)
      run.input<std::uint16_t>()[((50 + row) * 3 + 1) * 64 + i] = static_cast<std::uint16_t>(row * 64 + i);
  check_runs(run, 128, [&] {
    for (std::uint32_t i = 0; i < 128 * 64; ++i)
      REQUIRE(run.output<std::uint16_t>(swizzle_shared_address(CU_TENSOR_MAP_SWIZZLE_128B, 2 * i) / 2) ==
              (i < 37 * 64 ? i : 0));
  });

  PtxRun store(kPrologue + kFill + kFence + kSync + R"(
    @%first cp.async.bulk.tensor.5d.global.shared::cta.tile.bulk_group [%map, {0, 2, 1073741787, 47, 1073741824}], [tile];
    @%first cp.async.bulk.commit_group;
    @%first cp.async.bulk.wait_group.read 0;
  )");
  set_map(store, store.out, ragged);
  check_runs(store, 128, [&] {
    for (std::uint32_t i = 0; i < PtxRun::kBytes / 4; ++i) {
      const std::uint32_t row = i / 96, head = i / 32 % 3, column = i % 32;
      const bool written = head == 2 && row >= 10 && row < 47;
      const std::uint32_t linear = 4 * ((row - 10) * 32 + column);
      REQUIRE(store.output<std::uint32_t>(i) ==
              (written ? swizzle_shared_address(CU_TENSOR_MAP_SWIZZLE_128B, linear) / 4 : 0xeeeeeeee));
    }
  });
}

TEST_CASE("H200: an fp32 reduction adds, and is clipped at 16 bytes along the inner dimension") {
  PtxRun run(kPrologue + R"(
    mov.u32 %r1, tile;
    shl.b32 %r2, %t, 2;
    add.u32 %r1, %r1, %r2;
    cvt.rn.f32.u32 %r3, %t;
    st.shared.b32 [%r1], %r3;
    fence.proxy.async;
    bar.sync 0;
    @%first cp.reduce.async.bulk.tensor.2d.global.shared::cta.add.tile.bulk_group [%map, {96, 0}], [tile];
    @%first cp.async.bulk.commit_group;
    @%first cp.async.bulk.wait_group 0;
  )");
  set_map(run, run.out,
          {.type = CU_TENSOR_MAP_DATA_TYPE_FLOAT32,
           .dim = {102, 1},
           .stride = {416},
           .box = {32, 1},
           .swizzle = CU_TENSOR_MAP_SWIZZLE_NONE});
  for (const RunOptions& options : all_schedules()) {
    auto* out = reinterpret_cast<float*>(run.memory.host(run.out, 512));
    for (int i = 0; i < 128; ++i) out[i] = 1000;
    run.options = options;
    const LaunchResult result = run.launch(32);
    REQUIRE_MESSAGE(result.ok, result.report.text());
    for (int i = 0; i < 128; ++i) CHECK(out[i] == (i >= 96 && i < 104 ? 1000 + i - 96 : 1000));
  }
}

TEST_CASE("reductions by element") {
  const auto reduce = [](ReductionOp op, ReductionType type, auto old, auto value) {
    reduce_elements(op, type, reinterpret_cast<std::byte*>(&old), reinterpret_cast<const std::byte*>(&value),
                    sizeof(old));
    return old;
  };
  using T = ReductionType;
  using Op = ReductionOp;
  CHECK(reduce(Op::kAdd, T::kU32, 0xffffffffu, 2u) == 1);
  CHECK(reduce(Op::kMin, T::kS32, -3, 2) == -3);
  CHECK(reduce(Op::kMin, T::kU32, 0xfffffffdu, 2u) == 2);
  CHECK(reduce(Op::kMax, T::kS64, std::int64_t{-3}, std::int64_t{-2}) == -2);
  CHECK(reduce(Op::kInc, T::kU32, 5u, 5u) == 0);
  CHECK(reduce(Op::kInc, T::kU32, 4u, 5u) == 5);
  CHECK(reduce(Op::kDec, T::kU32, 0u, 5u) == 5);
  CHECK(reduce(Op::kDec, T::kU32, 4u, 5u) == 3);
  CHECK(reduce(Op::kXor, T::kB64, std::uint64_t{6}, std::uint64_t{3}) == 5);
  CHECK(reduce(Op::kAdd, T::kF32, 1e-39f, 0.0f) == 0);                        // f32 flushes subnormals
  CHECK(reduce(Op::kAdd, T::kF16, std::uint16_t{1}, std::uint16_t{1}) == 2);  // f16 keeps them
  CHECK(reduce(Op::kAdd, T::kF16, std::uint16_t{0x3c00}, std::uint16_t{0x3c00}) == 0x4000);
  CHECK(reduce(Op::kAdd, T::kBf16, std::uint16_t{0x3f80}, std::uint16_t{0x3b80}) ==
        0x3f80);  // 1 + 2^-8: tie to even
  CHECK(reduce(Op::kAdd, T::kBf16, std::uint16_t{0x3f81}, std::uint16_t{0x3b80}) == 0x3f82);
  CHECK(reduce(Op::kMax, T::kBf16, std::uint16_t{0xc000}, std::uint16_t{0x3f80}) == 0x3f80);
  CHECK_FALSE(reduction_exists(Op::kMin, T::kF32));
  CHECK_FALSE(reduction_exists(Op::kInc, T::kS32));
}

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

TEST_CASE("the source may be read, and after .read overwritten") {
  PtxRun run(kPrologue + kFill + kFence + kSync + kStore + "ld.shared.u32 %r1, [tile];\n" + kWaitRead +
             kSync + R"(
    @%first st.shared.u32 [tile], 12345;
  )");
  set_map(run, run.out, {});
  check_runs(run, 128, [&] { CHECK(run.output<std::uint32_t>(0) == 0); });
}

TEST_CASE("bulk copies in, out and through a reduction") {
  PtxRun run(kPrologue + R"(
    @!%first bra DONE;
    mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], 4096;
    cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [tile], [%in], 4096, [bar];
  )" + kWait +
             R"(
    cp.async.bulk.global.shared::cta.bulk_group [%out], [tile], 4096;
    cp.async.bulk.commit_group;
    cp.async.bulk.wait_group 0;
    cp.reduce.async.bulk.global.shared::cta.bulk_group.add.u32 [%out], [tile], 2048;
    cp.async.bulk.commit_group;
    cp.async.bulk.wait_group.read 0;
  DONE:
  )");
  for (std::uint32_t i = 0; i < 1024; ++i) run.input<std::uint32_t>()[i] = i * 3;
  check_runs(run, 32, [&] {
    for (std::uint32_t i = 0; i < 1024; ++i) CHECK(run.output<std::uint32_t>(i) == i * (i < 512 ? 6 : 3));
    CHECK(run.output<std::uint32_t>(1024) == 0xeeeeeeee);
  });
  check_mistakes({
      {"global +8",
       kPrologue + "add.u64 %a, %in, 8;\n @%first cp.async.bulk.shared::cluster.global."
                   "mbarrier::complete_tx::bytes [tile], [%a], 64, [bar];\n",
       ErrorKind::kMisaligned, "not 16-byte aligned"},
      {"size 24",
       kPrologue + "mov.u32 %r1, 24;\n @%first cp.async.bulk.shared::cluster.global."
                   "mbarrier::complete_tx::bytes [tile], [%in], %r1, [bar];\n",
       ErrorKind::kInvalidOperand, "size 24"},
  });
}

namespace {

// Both CTAs of a pair have their barriers before either goes on; %r9 is the rank.
const std::string kClusterPrologue = R"(
  mov.u32 %t, %tid.x;
  mov.u32 %r9, %cluster_ctarank;
  setp.eq.u32 %first, %t, 0;
  @%first mbarrier.init.shared::cta.b64 [bar], 1;
  @%first fence.mbarrier_init.release.cluster;
  barrier.cluster.arrive.relaxed.aligned;
  barrier.cluster.wait.aligned;
)";
const std::string kClusterEnd = R"(
  barrier.cluster.arrive.aligned;
  barrier.cluster.wait.aligned;
)";
// Each CTA copies its first 64 bytes to its own part of the output.
const std::string kCopyFirst = R"(
  mov.u32 %r1, tile;
  shl.b32 %r2, %t, 2;
  add.u32 %r1, %r1, %r2;
  setp.lt.u32 %q, %t, 16;
  @%q ld.shared.u32 %r4, [%r1];
  mad.lo.u32 %r2, %r9, 1024, %r2;
  cvt.u64.u32 %a, %r2;
  add.u64 %a, %out, %a;
  @%q st.global.u32 [%a], %r4;
)";

}  // namespace

TEST_CASE("multicast: every CTA of the mask gets the box and the bytes") {
  PtxRun run(kClusterPrologue + R"(
    @%first mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], 16384;
    setp.eq.u32 %p, %r9, 1;
    and.pred %p, %p, %first;
    mov.b16 %h, 3;
    @%p cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster
        [tile], [%map, {0, 0}], [bar], %h;
  )" + kWait +
             kCopyFirst + kClusterEnd);
  run.cluster = 2;
  set_map(run, run.in, {});
  for (std::uint32_t i = 0; i < 32; ++i) run.input<std::uint32_t>()[i] = i;
  check_runs(
      run, 32,
      [&] {
        for (std::uint32_t i = 0; i < 16; ++i) {
          CHECK(run.output<std::uint32_t>(i) == i);
          CHECK(run.output<std::uint32_t>(256 + i) == i);
        }
      },
      2);
}

TEST_CASE("cta_group::2: both CTAs load their own halves and signal the leader") {
  PtxRun run(kClusterPrologue + R"(
    setp.eq.u32 %q, %r9, 0;
    and.pred %p, %q, %first;
    @%p mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], 32768;
    barrier.cluster.arrive.aligned;
    barrier.cluster.wait.aligned;
    mov.u32 %r1, bar;
    and.b32 %r1, %r1, 0xFEFFFFFF;
    mov.u32 %r2, tile;
    shl.b32 %r3, %r9, 3;
    @%first cp.async.bulk.tensor.2d.cta_group::2.shared::cluster.global.tile.mbarrier::complete_tx::bytes
        [%r2], [%map, {0, %r3}], [%r1];
    @!%q bra S;
  )" + kWait +
             R"(
  S:
    barrier.cluster.arrive.aligned;
    barrier.cluster.wait.aligned;
  )" + kCopyFirst +
             kClusterEnd);
  run.cluster = 2;
  set_map(run, run.in, {});
  for (std::uint32_t i = 0; i < 8 * 32 + 32; ++i) run.input<std::uint32_t>()[i] = i;
  check_runs(
      run, 32,
      [&] {
        for (std::uint32_t i = 0; i < 16; ++i) {
          CHECK(run.output<std::uint32_t>(i) == i);
          CHECK(run.output<std::uint32_t>(256 + i) == 256 + i);
        }
      },
      2);
}

TEST_CASE("a copy between CTAs of a cluster signals the receiver") {
  PtxRun run(kClusterPrologue + R"(
    mov.u32 %r1, tile;
    shl.b32 %r2, %t, 2;
    add.u32 %r1, %r1, %r2;
    mad.lo.u32 %r3, %r9, 100, %t;
    st.shared.u32 [%r1+256], %r3;
    fence.proxy.async.shared::cta;
    bar.sync 0;
    @%first mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], 128;
    xor.b32 %r4, %r9, 1;
    mov.u32 %r5, tile;
    mapa.shared::cluster.u32 %r6, %r5, %r4;
    mov.u32 %r7, bar;
    mapa.shared::cluster.u32 %r7, %r7, %r4;
    @%first cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [%r6], [%r5+256], 128, [%r7];
  )" + kWait +
             kCopyFirst + kClusterEnd);
  run.cluster = 2;
  check_runs(
      run, 32,
      [&] {
        for (std::uint32_t i = 0; i < 16; ++i) {
          CHECK(run.output<std::uint32_t>(i) == 100 + i);
          CHECK(run.output<std::uint32_t>(256 + i) == i);
        }
      },
      2);
}

TEST_CASE("a barrier in another CTA than the destination needs cta_group::2") {
  for (const RunOptions& options : all_schedules()) {
    PtxRun run(kClusterPrologue + R"(
      mov.u32 %r1, bar;
      xor.b32 %r1, %r1, 0x01000000;
      mov.u32 %r2, tile;
      @%first cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes
          [%r2], [%map, {0, 0}], [%r1];
    )" + kClusterEnd);
    run.cluster = 2;
    run.options = options;
    set_map(run, run.in, {});
    const LaunchResult result = run.launch(32, 2);
    REQUIRE_FALSE(result.ok);
    CHECK(result.report.kind == ErrorKind::kInvalidOperand);
    CHECK(result.report.message.find("its mbarrier in CTA rank") != std::string::npos);
  }
}
