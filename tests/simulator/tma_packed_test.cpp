// TMA loads of elements of 4 and 6 bits: packed, and 16 of them at the start of every 16 bytes.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include "simulator/async/tensor_map.h"
#include "tests/simulator/async.h"

namespace jfa::simulator::tma_packed_test {

namespace {

struct PackedMap {
  CUtensorMapDataType type;
  CUtensorMapSwizzle swizzle = CU_TENSOR_MAP_SWIZZLE_128B;
  cuuint32_t elements = 128;  // of a box's row
};

constexpr cuuint32_t kRows = 8;
constexpr cuuint64_t kElements = 256, kStride = 256;  // of a row in global memory

std::string encode(CUtensorMap* map, std::uint64_t address, const PackedMap& p,
                   cuuint64_t extent = kElements) {
  const cuuint64_t dim[] = {extent, kRows}, stride[] = {kStride};
  const cuuint32_t box[] = {p.elements, kRows}, ones[] = {1, 1};
  std::string reason;
  encode_tiled_tensor_map(map, p.type, 2, reinterpret_cast<void*>(address), dim, stride, box, ones,
                          CU_TENSOR_MAP_INTERLEAVE_NONE, p.swizzle, CU_TENSOR_MAP_L2_PROMOTION_NONE,
                          CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE, &reason);
  return reason;
}

// Loads the box at (column, 0); thread i copies the words i % words of each 16-byte chunk.
std::string load_kernel(int column, std::uint32_t payload_bytes, std::uint32_t words) {
  return fmt::format(R"(
  mov.u32 %t, %tid.x;
  setp.eq.u32 %first, %t, 0;
  @%first mbarrier.init.shared::cta.b64 [bar], 1;
  @%first fence.mbarrier_init.release.cluster;
  bar.sync 0;
  @%first mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], {1};
  @%first cp.async.bulk.tensor.2d.shared::cta.global.tile.mbarrier::complete_tx::bytes [tile], [%map, {{{0}, 0}}], [bar];
W: mbarrier.try_wait.parity.shared::cta.b64 %p, [bar], 0;
  @!%p bra W;
  and.b32 %r1, %t, 3;
  setp.ge.u32 %q, %r1, {2};
  @%q bra DONE;
  mov.u32 %r2, tile;
  shl.b32 %r3, %t, 2;
  add.u32 %r2, %r2, %r3;
  ld.shared.u32 %r4, [%r2];
  cvt.u64.u32 %a, %r3;
  add.u64 %a, %out, %a;
  st.global.u32 [%a], %r4;
DONE:
)",
                     column, payload_bytes, words);
}

LaunchResult load(PtxRun& run, const RunOptions& options) {
  std::memset(run.memory.host(run.out, PtxRun::kBytes), 0xee, PtxRun::kBytes);
  auto* bytes = run.input<std::uint8_t>();
  for (std::uint32_t i = 0; i < kRows * kStride; ++i) bytes[i] = static_cast<std::uint8_t>(i * 7 + i / 256);
  run.options = options;
  return run.launch(256);  // a thread for each word of 8 rows of 128 bytes
}

}  // namespace

TEST_CASE("padded elements: a chunk of 16 begins every 16 bytes, and the barrier counts what was read") {
  for (const CUtensorMapDataType type :
       {CU_TENSOR_MAP_DATA_TYPE_16U4_ALIGN16B, CU_TENSOR_MAP_DATA_TYPE_16U6_ALIGN16B})
    for (const CUtensorMapSwizzle swizzle : {CU_TENSOR_MAP_SWIZZLE_NONE, CU_TENSOR_MAP_SWIZZLE_128B}) {
      const std::uint32_t bits = type == CU_TENSOR_MAP_DATA_TYPE_16U4_ALIGN16B ? 4 : 6;
      const std::uint32_t chunk = 2 * bits, row_bytes = 128 * bits / 8;
      PtxRun run(load_kernel(128, kRows * row_bytes, chunk / 4));
      REQUIRE(encode(&run.map, run.in, {type, swizzle}).empty());
      for (const RunOptions& options : all_schedules()) {
        const LaunchResult result = load(run, options);
        REQUIRE_MESSAGE(result.ok, result.report.text());
        for (std::uint32_t row = 0; row < kRows; ++row)
          for (std::uint32_t i = 0; i < row_bytes; ++i) {
            const std::uint32_t linear = row * 128 + i / chunk * 16 + i % chunk;
            const std::uint32_t byte = swizzle_shared_address(swizzle, linear & ~15u) + linear % 16;
            REQUIRE(run.output<std::uint8_t>(byte) ==
                    run.input<std::uint8_t>()[row * kStride + row_bytes + i]);  // from element 128 on
          }
      }
    }
}

TEST_CASE("padded elements: nothing writes the padding, and rows outside are zeros") {
  PtxRun padding(load_kernel(0, kRows * 64, 3));
  REQUIRE(encode(&padding.map, padding.in, {CU_TENSOR_MAP_DATA_TYPE_16U4_ALIGN16B}).empty());
  const LaunchResult result = load(padding, {});
  CHECK(!result.ok);
  CHECK(result.report.kind == ErrorKind::kUninitialised);

  PtxRun outside(load_kernel(256, kRows * 64, 2));
  REQUIRE(encode(&outside.map, outside.in, {CU_TENSOR_MAP_DATA_TYPE_16U4_ALIGN16B}).empty());
  REQUIRE(load(outside, {}).ok);
  CHECK(outside.output<std::uint32_t>(0) == 0);
  CHECK(outside.output<std::uint32_t>(2) == 0xeeeeeeee);
}

TEST_CASE("packed 4-bit elements lie as in global memory") {
  PtxRun run(load_kernel(32, kRows * 64, 4));
  REQUIRE(
      encode(&run.map, run.in, {CU_TENSOR_MAP_DATA_TYPE_16U4_ALIGN8B, CU_TENSOR_MAP_SWIZZLE_64B}).empty());
  run.options = {};
  const LaunchResult result = load(run, {});
  // Rows are 64 bytes: the second half of the threads reads behind the box.
  CHECK(result.report.kind == ErrorKind::kUninitialised);
  PtxRun wide(load_kernel(-32, kRows * 128, 4));
  REQUIRE(encode(&wide.map, wide.in, {CU_TENSOR_MAP_DATA_TYPE_16U4_ALIGN8B, CU_TENSOR_MAP_SWIZZLE_128B, 256})
              .empty());
  for (const RunOptions& options : all_schedules()) {
    const LaunchResult loaded = load(wide, options);
    REQUIRE_MESSAGE(loaded.ok, loaded.report.text());
    for (std::uint32_t row = 0; row < kRows; ++row)
      for (std::uint32_t i = 0; i < 128; ++i) {
        const std::uint32_t byte = swizzle_shared_address(CU_TENSOR_MAP_SWIZZLE_128B, row * 128 + i);
        const std::uint32_t want = i < 16 ? 0 : wide.input<std::uint8_t>()[row * kStride + i - 16];
        REQUIRE(wide.output<std::uint8_t>(byte) == want);
      }
  }
}

TEST_CASE("what maps of narrow elements must keep to") {
  CUtensorMap map;
  const auto reason = [&](const PackedMap& p, std::uint64_t address = 0x10000,
                          cuuint64_t extent = kElements) { return encode(&map, address, p, extent); };
  const auto has = [](const std::string& text, const char* part) {
    return text.find(part) != std::string::npos;
  };
  const PackedMap u4{CU_TENSOR_MAP_DATA_TYPE_16U4_ALIGN16B}, u6{CU_TENSOR_MAP_DATA_TYPE_16U6_ALIGN16B};
  CHECK(has(reason(u4, 0x10010), "not 32-byte aligned"));
  CHECK(has(reason(u6, 0x10000, 192), "globalDim[0] = 192 of a padded type"));
  CHECK(has(reason({u4.type, u4.swizzle, 64}), "boxDim[0] = 64"));
  CHECK(has(reason({u4.type, CU_TENSOR_MAP_SWIZZLE_64B}), "more than the swizzle's 64"));
  CHECK(has(reason({CU_TENSOR_MAP_DATA_TYPE_16U4_ALIGN8B}, 0x10000, 255), "is odd"));

  PtxRun between(load_kernel(64, kRows * 64, 2));
  REQUIRE(encode(&between.map, between.in, u4).empty());
  CHECK(has(load(between, {}).report.text(), "coordinate 0 = 64 of padded elements"));
  PtxRun store(
      "mov.u32 %t, %tid.x;\nsetp.eq.u32 %first, %t, 0;\n@%first "
      "cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group "
      "[%map, {0, 0}], [tile];\n");
  REQUIRE(encode(&store.map, store.in, u6).empty());
  CHECK(has(load(store, {}).report.text(), "a store of a padded type"));
}

}  // namespace jfa::simulator::tma_packed_test
