// TMA and bulk copies through their instructions: what arrives where, on every schedule.
#include "simulator/async/tma.h"

#include <doctest/doctest.h>

#include <cstring>

#include "tests/simulator/tma_support.h"

namespace jfa::simulator::tma_test {

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

}  // namespace jfa::simulator::tma_test
