// Experiments with tensor copies, for the doubts that Hopper has in common with Blackwell.
#include <fmt/format.h>

#include <cstring>

#include "conformance/doubts.h"

namespace jfa::conformance {
namespace {

std::vector<std::byte> counting_words(std::size_t count, std::uint32_t first = 0) {
  std::vector<std::byte> bytes(count * 4);
  for (std::size_t i = 0; i < count; ++i) {
    const std::uint32_t word = first + static_cast<std::uint32_t>(i);
    std::memcpy(bytes.data() + 4 * i, &word, 4);
  }
  return bytes;
}

std::string kernel_text(const std::string& parameters, const std::string& body) {
  return fmt::format(
      ".visible .entry test(.param .u64 out{}, .param .align 64 .b8 map[128])\n{{\n"
      ".reg .b32 %t, %bar, %tile, %c<2>, %v<4>; .reg .b64 %out, %map, %a<2>; .reg .pred %first, %p; .reg "
      ".b16 %mask;\n"
      ".shared .align 1024 .b8 tile[4096];\n.shared .align 8 .b64 barrier;\nmov.u32 %t, %tid.x;\nmov.u32 "
      "%tile, tile;\n"
      "mov.u32 %bar, barrier;\nld.param.u64 %out, [out];\nsetp.eq.u32 %first, %t, 0;\nmov.b64 %map, map;\n"
      "cvta.param.u64 %map, %map;\n{}ret;\n}}\n",
      parameters, body);
}

// Thread t's word of the tile to the output at word `%v3` + t.
constexpr const char* kWriteTile =
    "shl.b32 %v0, %t, 2;\nadd.u32 %v1, %tile, %v0;\nld.shared.b32 %v2, [%v1];\nadd.u32 %v3, %v3, %t;\n"
    "mad.wide.u32 %a0, %v3, 4, %out;\nst.global.b32 [%a0], %v2;\n";

TensorMap words_map(std::uint64_t width, std::uint64_t height, std::uint32_t box_width,
                    std::uint32_t box_height, std::uint64_t pitch_bytes, std::size_t input) {
  return {CU_TENSOR_MAP_DATA_TYPE_UINT32,
          {width, height},
          {pitch_bytes},
          {box_width, box_height},
          CU_TENSOR_MAP_SWIZZLE_NONE,
          input};
}

// A box of 32 × 1 words at column 96 of rows of 102: what of words 102 to 127 is written?
TestKernel clipped_store() {
  constexpr std::uint32_t kWidth = 102, kPitch = 128, kStart = 96, kClipped = 104;
  TestKernel kernel;
  kernel.block.x = 32;
  kernel.output_bytes = kPitch * 4;
  kernel.maps.push_back(words_map(kWidth, 1, 32, 1, kPitch * 4, kOutput));
  kernel.expected.assign(kernel.output_bytes, std::byte{0xcd});
  const std::vector<std::byte> tile = counting_words(32, 1000);
  std::memcpy(kernel.expected.data() + kStart * 4, tile.data(), (kClipped - kStart) * 4);
  kernel.ptx = kernel_text(
      "",
      "shl.b32 %v0, %t, 2;\nadd.u32 %v1, %tile, %v0;\nadd.u32 %v2, %t, 1000;\nst.shared.b32 [%v1], %v2;\n"
      "fence.proxy.async;\nbar.sync 0;\nmov.s32 %c0, 96;\nmov.s32 %c1, 0;\n"
      "@%first cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%map, {%c0, %c1}], [%tile];\n"
      "@%first cp.async.bulk.commit_group;\n@%first cp.async.bulk.wait_group 0;\n");
  return kernel;
}

// Four CTAs along y, of which %ctaid.x is 0: rank 1 sends to the ranks of mask 0b1101.
TestKernel multicast_by_rank() {
  TestKernel kernel;
  kernel.block.x = 32;
  kernel.grid.y = kernel.cluster.y = 4;
  kernel.output_bytes = 4 * 32 * 4;
  kernel.inputs.push_back(counting_words(64, 7));
  kernel.maps.push_back(words_map(32, 2, 32, 1, 128, 0));
  kernel.expected.assign(kernel.output_bytes, std::byte{0});
  for (const std::size_t rank : {0, 2, 3})
    std::memcpy(kernel.expected.data() + rank * 128, kernel.inputs[0].data() + 128, 128);
  kernel.ptx = kernel_text(
      ", .param .u64 in0",
      "@%first mbarrier.init.shared::cta.b64 [%bar], 1;\n@%first fence.mbarrier_init.release.cluster;\n"
      "shl.b32 %v0, %t, 2;\nadd.u32 %v1, %tile, %v0;\nst.shared.b32 [%v1], 0;\nfence.proxy.async;\nbar.sync "
      "0;\n"
      "mov.u32 %v2, %cluster_ctarank;\nsetp.ne.and.u32 %p, %v2, 1, %first;\n"
      "@%p mbarrier.arrive.expect_tx.shared::cta.b64 _, [%bar], 128;\n"
      "barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;\n"
      "setp.eq.and.u32 %p, %v2, 1, %first;\nmov.b16 %mask, 13;\nmov.s32 %c0, 0;\nmov.s32 %c1, 1;\n"
      "@%p "
      "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster "
      "[%tile], [%map, {%c0, %c1}], [%bar], %mask;\n"
      "setp.eq.u32 %p, %v2, 1;\n@%p bra ARRIVED;\n"
      "WAIT: mbarrier.try_wait.parity.shared::cta.b64 %p, [%bar], 0;\n@!%p bra WAIT;\nARRIVED: mov.u32 %v3, "
      "%ctaid.y;\n"
      "shl.b32 %v3, %v3, 5;\n" +
          std::string(kWriteTile) + "barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;\n");
  return kernel;
}

// A load that is all right but for one thing, or a store.
TestKernel fault(int column, int destination_offset) {
  TestKernel kernel;
  kernel.block.x = 32;
  kernel.output_bytes = 32 * 4;
  kernel.inputs.push_back(counting_words(64));
  kernel.maps.push_back(words_map(64, 1, 32, 1, 256, 0));
  kernel.must_fail = true;
  kernel.ptx = kernel_text(
      ", .param .u64 in0",
      fmt::format(
          "@%first mbarrier.init.shared::cta.b64 [%bar], 1;\n@%first "
          "mbarrier.arrive.expect_tx.shared::cta.b64 _, "
          "[%bar], 128;\nadd.u32 %tile, %tile, {};\nmov.s32 %c0, {};\nmov.s32 %c1, 0;\nbar.sync 0;\n"
          "@%first cp.async.bulk.tensor.2d.shared::cta.global.tile.mbarrier::complete_tx::bytes "
          "[%tile], [%map, {{%c0, %c1}}], [%bar];\n"
          "WAIT: mbarrier.try_wait.parity.shared::cta.b64 %p, [%bar], 0;\n@!%p bra WAIT;\nmov.u32 %v3, 0;\n",
          destination_offset, column) +
          kWriteTile);
  return kernel;
}

TestKernel negative_store() {
  TestKernel kernel = clipped_store();
  kernel.expected.clear();
  kernel.must_fail = true;
  const std::size_t start = kernel.ptx.find("mov.s32 %c0, 96;");
  kernel.ptx.replace(start, 16, "mov.s32 %c0, -4;");
  return kernel;
}

}  // namespace

void add_copy_experiments(std::vector<TestCase>& cases) {
  const auto add = [&](const char* name, std::function<TestKernel()> make) {
    cases.push_back({name, "doubt", Needs::kAny, std::move(make)});
  };
  add("doubt 9: a multicast mask counts ranks", multicast_by_rank);
  add("doubt 12: a store is clipped in units of 16 bytes", clipped_store);
  add("doubt 13: a column that is not 16-byte aligned is a fault", [] { return fault(2, 0); });
  add("doubt 13: a destination that is not 128-byte aligned is a fault", [] { return fault(0, 16); });
  add("doubt 13: a store before the tensor is a fault", negative_store);
}

}  // namespace jfa::conformance
