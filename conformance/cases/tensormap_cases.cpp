// Tensor maps that the kernel makes of zeros or changes: which number of tensormap.replace means what, and
// that copies see the change.
#include <fmt/format.h>

#include <cstring>

#include "conformance/test_kernel.h"

namespace jfa::conformance {
namespace {

// One warp; its lane 0 is %first. The map is made in shared memory at %smap and published at %gmap.
std::string tensormap_kernel_text(const std::string& parameters, const std::string& body) {
  return fmt::format(
      ".global .align 128 .b8 published[128];\n.visible .entry test(.param .u64 out{})\n{{\n"
      ".reg .b32 %t, %bar, %tile, %smap, %i, %v<6>;\n.reg .b64 %out, %in, %host, %map, %gmap, %a<4>;\n"
      ".reg .pred %first, %p;\n.shared .align 1024 .b8 tile[8192];\n"
      ".shared .align 128 .b8 smap[128];\n.shared .align 8 .b64 barrier;\nmov.u32 %t, %tid.x;\n"
      "mov.u32 %tile, tile;\nmov.u32 %smap, smap;\nmov.u32 %bar, barrier;\nmov.u64 %gmap, published;\n"
      "cvta.global.u64 %map, %gmap;\nld.param.u64 %out, [out];\nsetp.eq.u32 %first, %t, 0;\n{}ret;\n}}\n",
      parameters, body);
}

std::string replace(const std::string& field, const std::string& operands,
                    const std::string& map = "shared::cta.b1024.{} [%smap]") {
  const bool wide = field == "global_address" || field == "global_stride";
  return fmt::format("@%first tensormap.replace.tile.{}.{}, {};\n", field,
                     fmt::format(fmt::runtime(map), wide ? "b64" : "b32"), operands);
}

const char* const kZeroMap =
    "shl.b32 %v0, %t, 2;\nadd.u32 %v0, %smap, %v0;\nst.shared.b32 [%v0], 0;\n"
    "bar.warp.sync 0xffffffff;\n";
const char* const kReadHostMap =
    "mov.b64 %host, map;\ncvta.param.u64 %host, %host;\nmul.wide.u32 %a0, %t, 4;\n"
    "add.u64 %host, %host, %a0;\nld.b32 %v1, [%host];\n";
const char* const kCopyHostMap =
    "shl.b32 %v0, %t, 2;\nadd.u32 %v0, %smap, %v0;\nst.shared.b32 [%v0], %v1;\n"
    "bar.warp.sync 0xffffffff;\n";
const char* const kAcquire = "fence.proxy.tensormap::generic.acquire.gpu [%map], 128;\n";
const char* const kPublish =
    "bar.warp.sync 0xffffffff;\ntensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu"
    ".sync.aligned [%gmap], [%smap], 128;\n";

// Loads a 2-D box of `bytes` through the published map and copies it out as it lies.
std::string load_box(std::uint32_t bytes, int column, int row) {
  return fmt::format(
      "@%first mbarrier.init.shared::cta.b64 [%bar], 1;\n@%first fence.mbarrier_init.release.cluster;\n"
      "bar.warp.sync 0xffffffff;\nmov.s32 %v2, {1};\nmov.s32 %v3, {2};\n"
      "@%first mbarrier.arrive.expect_tx.shared::cta.b64 _, [%bar], {0};\n"
      "@%first cp.async.bulk.tensor.2d.shared::cta.global.tile.mbarrier::complete_tx::bytes [%tile], "
      "[%map, {{%v2, %v3}}], [%bar];\n"
      "WAIT: mbarrier.try_wait.parity.shared::cta.b64 %p, [%bar], 0;\n@!%p bra WAIT;\nmov.u32 %i, %t;\n"
      "COPY: setp.ge.u32 %p, %i, {3};\n@%p bra END;\nshl.b32 %v0, %i, 2;\nadd.u32 %v1, %tile, %v0;\n"
      "ld.shared.b32 %v2, [%v1];\ncvt.u64.u32 %a0, %v0;\nadd.u64 %a0, %out, %a0;\nst.global.b32 [%a0], %v2;\n"
      "add.u32 %i, %i, 32;\nbra COPY;\nEND:\n",
      bytes, column, row, bytes / 4);
}

std::vector<std::byte> numbered_words(std::size_t count) {
  std::vector<std::byte> bytes(count * 4);
  for (std::size_t i = 0; i < count; ++i) {
    const std::uint32_t word = static_cast<std::uint32_t>(i) * 2654435761u + 1;
    std::memcpy(bytes.data() + 4 * i, &word, 4);
  }
  return bytes;
}

// A grouped GEMM's: the host's map of 64 columns of 32 rows becomes one of 40 columns of 20 rows, somewhere
// else and farther apart. in_global: changed there, where ordinary stores have put it.
TestKernel changed_map(bool in_global) {
  constexpr std::uint32_t kColumns = 16, kRows = 8, kOffsetBytes = 1024, kStrideBytes = 512;
  constexpr std::uint32_t kNewColumns = 40, kNewRows = 20, kColumn = 32, kRow = 15;
  TestKernel kernel;
  kernel.output_bytes = kColumns * kRows * 4;
  kernel.inputs.push_back(numbered_words(4096));
  kernel.maps.push_back(
      {CU_TENSOR_MAP_DATA_TYPE_UINT32, {64, 32}, {256}, {kColumns, kRows}, CU_TENSOR_MAP_SWIZZLE_NONE, 0});
  const std::string map = in_global ? "global.b1024.{} [%gmap]" : "shared::cta.b1024.{} [%smap]";
  const std::string changes =
      fmt::format("ld.param.u64 %in, [in0];\nadd.u64 %in, %in, {};\nmov.b64 %a1, {};\nmov.u32 %v4, {};\n",
                  kOffsetBytes, kStrideBytes, kNewRows) +
      replace("global_address", "%in", map) + replace("global_dim", fmt::format("0, {}", kNewColumns), map) +
      replace("global_dim", "1, %v4", map) + replace("global_stride", "0, %a1", map);
  const std::string body =
      in_global ? "add.u64 %a2, %gmap, %a0;\nst.global.b32 [%a2], %v1;\nbar.warp.sync 0xffffffff;\n" +
                      changes + "@%first fence.proxy.tensormap::generic.release.gpu;\n@%first " + kAcquire
                : kCopyHostMap + changes + kPublish + kAcquire;
  kernel.ptx = tensormap_kernel_text(
      ", .param .u64 in0, .param .align 64 .b8 map[128]",
      kReadHostMap + body + load_box(static_cast<std::uint32_t>(kernel.output_bytes), kColumn, kRow));
  kernel.expected.resize(kernel.output_bytes);
  for (std::uint32_t row = 0; row < kRows; ++row)
    for (std::uint32_t column = 0; column < kColumns; ++column)
      if (kRow + row < kNewRows && kColumn + column < kNewColumns)
        std::memcpy(
            kernel.expected.data() + (row * kColumns + column) * 4,
            kernel.inputs[0].data() + kOffsetBytes + (kRow + row) * kStrideBytes + (kColumn + column) * 4, 4);
  return kernel;
}

// All that a map of zeros needs; columns × rows of elements, boxes of box_columns × box_rows.
std::string set_all(int type, int swizzle, std::uint32_t columns, std::uint32_t rows,
                    std::uint32_t stride_bytes, std::uint32_t box_columns, std::uint32_t box_rows) {
  std::string text = fmt::format("mov.b64 %a1, {};\n", stride_bytes) + replace("rank", "1") +
                     replace("global_stride", "0, %a1") + replace("elemtype", fmt::format("{}", type)) +
                     replace("interleave_layout", "0") + replace("swizzle_mode", fmt::format("{}", swizzle)) +
                     replace("fill_mode", "0");
  const std::pair<std::uint32_t, std::uint32_t> dimensions[] = {{columns, box_columns}, {rows, box_rows}};
  for (int i = 0; i < 2; ++i)
    text += replace("global_dim", fmt::format("{}, {}", i, dimensions[i].first)) +
            replace("box_dim", fmt::format("{}, {}", i, dimensions[i].second)) +
            replace("element_stride", fmt::format("{}, 1", i));
  return text;
}

// 16-bit elements under a swizzle of 32, 64 or 128 bytes, or none with rows of 128; swizzle_mode 0…3.
TestKernel swizzled_map(int mode) {
  constexpr std::uint32_t kRows = 16, kStrideBytes = 256;
  const std::uint32_t row_bytes = mode == 0 ? 128 : 16u << mode;
  const std::uint32_t period = 128 / row_bytes;  // rows whose chunks are permuted alike
  TestKernel kernel;
  kernel.output_bytes = row_bytes * kRows;
  kernel.inputs.push_back(numbered_words(64 * kRows));
  kernel.ptx = tensormap_kernel_text(
      ", .param .u64 in0",
      kZeroMap + std::string("ld.param.u64 %in, [in0];\n") + replace("global_address", "%in") +
          set_all(/*bf16=*/10, mode, kStrideBytes / 2, kRows, kStrideBytes, row_bytes / 2, kRows) + kPublish +
          kAcquire + load_box(static_cast<std::uint32_t>(kernel.output_bytes), 8, 0));
  kernel.expected.resize(kernel.output_bytes);
  for (std::uint32_t row = 0; row < kRows; ++row)
    for (std::uint32_t chunk = 0; chunk < row_bytes / 16; ++chunk) {
      const std::uint32_t to = mode == 0 ? chunk : chunk ^ (row / period % (row_bytes / 16));
      std::memcpy(kernel.expected.data() + row * row_bytes + to * 16,
                  kernel.inputs[0].data() + row * kStrideBytes + 16 + chunk * 16, 16);
    }
  return kernel;
}

// A reduction takes its arithmetic from the map's type.
struct SumType {
  const char* name;
  int number;           // of .elemtype
  std::uint32_t bytes;  // of an element
  // Words: an element, or two of 16 bits, or half of one of 64, whose upper half begins as 0.
  std::uint32_t left, right, sum, upper_sum;
};
constexpr SumType kSumTypes[] = {
    {"u32", 2, 4, 0xffff'ffff, 3, 2, 0},
    {"u64", 4, 8, 0xffff'ffff, 3, 2, 1},
    {"s32", 3, 4, 0xffff'ffff, 3, 2, 0},
    {"f16", 6, 2, 0x3c00'4200, 0x4000'3800, 0x4200'4300, 0},   // 1 + 2, 3 + 0.5
    {"f32", 7, 4, 0x3fc0'0000, 0x3e80'0000, 0x3fe0'0000, 0},   // 1.5 + 0.25
    {"bf16", 10, 2, 0x3f80'4040, 0x4000'3f00, 0x4040'4060, 0}  // 1 + 2, 3 + 0.5
};

TestKernel summing_map(const SumType& type) {
  constexpr std::uint32_t kRowBytes = 64, kRows = 2;
  TestKernel kernel;
  kernel.output_bytes = kRowBytes * kRows;
  // Each lane has a word of the output and one of the tile.
  const bool wide = type.bytes == 8;
  kernel.ptx = tensormap_kernel_text(
      "",
      fmt::format("and.b32 %v1, %t, 1;\nsetp.eq.u32 %p, %v1, {};\nselp.b32 %v2, 0, {}, %p;\n"
                  "selp.b32 %v3, 0, {}, %p;\nshl.b32 %v0, %t, 2;\nadd.u32 %v1, %tile, %v0;\n"
                  "st.shared.b32 [%v1], %v3;\ncvt.u64.u32 %a0, %v0;\nadd.u64 %a0, %out, %a0;\n"
                  "st.global.b32 [%a0], %v2;\nfence.proxy.async;\nbar.warp.sync 0xffffffff;\n",
                  wide ? 1 : 2, type.left, type.right) +
          kZeroMap + replace("global_address", "%out") +
          set_all(type.number, 0, kRowBytes / type.bytes, kRows, kRowBytes, kRowBytes / type.bytes, kRows) +
          kPublish + kAcquire +
          "mov.u32 %v4, 0;\n@%first cp.reduce.async.bulk.tensor.2d.global.shared::cta.add.tile.bulk_group "
          "[%map, {%v4, %v4}], [%tile];\n@%first cp.async.bulk.commit_group;\n"
          "@%first cp.async.bulk.wait_group 0;\n");
  kernel.expected.resize(kernel.output_bytes);
  for (std::uint32_t i = 0; i < kernel.output_bytes / 4; ++i) {
    const std::uint32_t word = wide && i % 2 == 1 ? type.upper_sum : type.sum;
    std::memcpy(kernel.expected.data() + 4 * i, &word, 4);
  }
  return kernel;
}

}  // namespace

void add_tensormap_cases(std::vector<TestCase>& cases) {
  cases.push_back({"tensormap.replace of a host's map in shared memory", "TMA", Needs::kAny,
                   [] { return changed_map(false); }});
  cases.push_back({"tensormap.replace of a host's map in global memory", "TMA", Needs::kAny,
                   [] { return changed_map(true); }});
  for (int mode = 0; mode < 4; ++mode)
    cases.push_back({fmt::format("tensormap.replace of zeros, swizzle_mode {}", mode), "TMA", Needs::kAny,
                     [mode] { return swizzled_map(mode); }});
  for (const SumType& type : kSumTypes)
    cases.push_back({fmt::format("tensormap.replace of zeros, elemtype {}", type.name), "TMA", Needs::kAny,
                     [type] { return summing_map(type); }});
}

}  // namespace jfa::conformance
