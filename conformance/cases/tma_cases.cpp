// Tensor copies: loads with every swizzle, ranks, element types and boxes that leave the tensor; stores and
// reductions.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstring>

#include "conformance/operands.h"
#include "conformance/test_kernel.h"

namespace jfa::conformance {
namespace {

constexpr std::uint32_t kTmaThreads = 128;

struct Element {
  const char* name;
  CUtensorMapDataType type;
  std::uint32_t bytes;
};
constexpr Element kU8{"u8", CU_TENSOR_MAP_DATA_TYPE_UINT8, 1}, kU16{"u16", CU_TENSOR_MAP_DATA_TYPE_UINT16, 2},
    kS32{"s32", CU_TENSOR_MAP_DATA_TYPE_INT32, 4}, kF32{"f32", CU_TENSOR_MAP_DATA_TYPE_FLOAT32, 4},
    kF16{"f16", CU_TENSOR_MAP_DATA_TYPE_FLOAT16, 2}, kBf16{"bf16", CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, 2},
    kU64{"u64", CU_TENSOR_MAP_DATA_TYPE_UINT64, 8};

struct Box {
  std::string name;
  Element element;
  std::vector<std::uint64_t> extents;
  std::vector<std::uint32_t> box;
  std::vector<int> start;
  std::uint32_t swizzle_bytes = 0;
  std::vector<std::uint64_t> strides_bytes;  // empty: packed
  const char* destination = "cta";           // or "cluster"

  std::uint32_t box_bytes() const {
    std::uint32_t bytes = element.bytes;
    for (const std::uint32_t extent : box) bytes *= extent;
    return bytes;
  }
  std::vector<std::uint64_t> strides() const {
    if (!strides_bytes.empty()) return strides_bytes;
    std::vector<std::uint64_t> packed;
    std::uint64_t stride = element.bytes;
    for (std::size_t i = 0; i + 1 < extents.size(); ++i) packed.push_back(stride *= extents[i]);
    return packed;
  }
  std::uint64_t tensor_bytes() const {
    std::uint64_t bytes = extents[0] * element.bytes;
    const std::vector<std::uint64_t> steps = strides();
    for (std::size_t i = 1; i < extents.size(); ++i) bytes += (extents[i] - 1) * steps[i - 1];
    return bytes;
  }
  TensorMap map(std::size_t input) const {
    TensorMap map{element.type, extents, strides(), box, CU_TENSOR_MAP_SWIZZLE_NONE, input};
    if (swizzle_bytes == 32) map.swizzle = CU_TENSOR_MAP_SWIZZLE_32B;
    if (swizzle_bytes == 64) map.swizzle = CU_TENSOR_MAP_SWIZZLE_64B;
    if (swizzle_bytes == 128) map.swizzle = CU_TENSOR_MAP_SWIZZLE_128B;
    return map;
  }
  // %c0 … %c4 set to the start, and `{%c0, …}`.
  std::string set_coordinates() const {
    std::string text;
    for (std::size_t i = 0; i < start.size(); ++i) text += fmt::format("mov.s32 %c{}, {};\n", i, start[i]);
    return text;
  }
  std::string coordinates() const {
    std::vector<std::string> names;
    for (std::size_t i = 0; i < start.size(); ++i) names.push_back(fmt::format("%c{}", i));
    return fmt::format("{{{}}}", fmt::join(names, ", "));
  }
  std::vector<std::byte> tensor() const {
    Random random(seed_of(name));
    std::vector<std::byte> bytes(tensor_bytes());
    const bool is_float = element.name[0] == 'f' || element.name[0] == 'b';
    const OperandType type = !is_float                ? OperandType::kU32
                             : element.name[0] == 'b' ? OperandType::kBf16x2
                             : element.bytes == 2     ? OperandType::kF16x2
                                                      : OperandType::kSmallF32;
    for (std::size_t i = 0; i + 4 <= bytes.size(); i += 4) {
      const std::uint64_t value = random_operand(type, random);
      std::memcpy(bytes.data() + i, &value, 4);
    }
    return bytes;
  }
};

std::string tma_kernel_text(const std::string& parameters, const std::string& body) {
  return fmt::format(
      ".visible .entry test(.param .u64 out{})\n{{\n.reg .b32 %t, %bar, %tile, %i, %c<5>, %v<8>; .reg .b64 "
      "%out, %in, %map, %a<4>;\n.reg .pred %first, %p;\n.reg .b16 %mask;\n"
      ".shared .align 1024 .b8 tile[32768];\n.shared .align 8 .b64 barrier;\nmov.u32 %t, %tid.x;\n"
      "mov.u32 %tile, tile;\nmov.u32 %bar, barrier;\nld.param.u64 %out, [out];\n"
      "setp.eq.u32 %first, %t, 0;\nmov.b64 %map, map;\ncvta.param.u64 %map, %map;\n{}ret;\n}}\n",
      parameters, body);
}

// for (%i = %t; %i < words; %i += threads) { %v0 = 4 · %i; %v1 = tile + %v0; text }
std::string for_words(std::uint32_t words, const std::string& label, const std::string& text) {
  return fmt::format(
      "mov.u32 %i, %t;\n{0}: shl.b32 %v0, %i, 2;\nadd.u32 %v1, %tile, %v0;\nsetp.ge.u32 %p, %i, {1};\n"
      "@%p bra {0}_END;\n{2}add.u32 %i, %i, {3};\nbra {0};\n{0}_END:\n",
      label, words, text, kTmaThreads);
}

TestKernel load(const Box& box, bool multicast) {
  TestKernel kernel;
  kernel.block.x = kTmaThreads;
  const std::uint32_t bytes = box.box_bytes();
  if (multicast) kernel.grid.x = kernel.cluster.x = 2;
  kernel.output_bytes = bytes * kernel.grid.x;
  kernel.inputs.push_back(box.tensor());
  kernel.maps.push_back(box.map(0));
  const std::string barrier =
      multicast ? "barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;\n" : "bar.sync 0;\n";
  const std::string issue =
      multicast
          ? fmt::format(
                "mov.u32 %v2, %cluster_ctarank;\nsetp.eq.and.u32 %p, %v2, 0, %first;\nmov.b16 %mask, 3;\n"
                "@%p cp.async.bulk.tensor.{}d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
                ".multicast::cluster [%tile], [%map, {}], [%bar], %mask;\n",
                box.start.size(), box.coordinates())
          : fmt::format(
                "@%first cp.async.bulk.tensor.{}d.shared::{}.global.tile.mbarrier::complete_tx::bytes "
                "[%tile], [%map, {}], [%bar];\n",
                box.start.size(), box.destination, box.coordinates());
  kernel.ptx = tma_kernel_text(
      ", .param .u64 in0, .param .align 64 .b8 map[128]",
      "@%first mbarrier.init.shared::cta.b64 [%bar], 1;\n@%first fence.mbarrier_init.release.cluster;\n" +
          box.set_coordinates() +
          fmt::format("@%first mbarrier.arrive.expect_tx.shared::cta.b64 _, [%bar], {};\n", bytes) + barrier +
          issue +
          "bar.sync 0;\nWAIT: mbarrier.try_wait.parity.shared::cta.b64 %p, [%bar], 0;\n@!%p bra WAIT;\n" +
          fmt::format("mov.u32 %v3, %ctaid.x;\nmad.wide.u32 %out, %v3, {}, %out;\n", bytes) +
          for_words(bytes / 4, "COPY",
                    "ld.shared.b32 %v2, [%v1];\ncvt.u64.u32 %a0, %v0;\nadd.u64 %a0, %out, %a0;\n"
                    "st.global.b32 [%a0], %v2;\n") +
          (multicast ? barrier : ""));
  return kernel;
}

// The tile is the second input's bytes; the tensor, in the output, begins as the first input. operation:
// empty for a plain store.
TestKernel store(const Box& box, const std::string& operation) {
  TestKernel kernel;
  kernel.block.x = kTmaThreads;
  const std::uint32_t bytes = box.box_bytes();
  const std::vector<std::byte> tensor = box.tensor();
  kernel.output_bytes = tensor.size();
  kernel.inputs.push_back(tensor);
  Box tile = box;
  tile.name += " tile";
  tile.extents = {bytes / box.element.bytes};
  kernel.inputs.push_back(tile.tensor());
  kernel.maps.push_back(box.map(kOutput));
  const std::string copy = operation.empty() ? "cp.async.bulk.tensor" : "cp.reduce.async.bulk.tensor";
  kernel.ptx = tma_kernel_text(
      ", .param .u64 in0, .param .u64 in1, .param .align 64 .b8 map[128]",
      box.set_coordinates() + "ld.param.u64 %in, [in0];\n" +
          for_words(static_cast<std::uint32_t>(tensor.size() / 4), "FILL",
                    "cvt.u64.u32 %a0, %v0;\nadd.u64 %a1, %in, %a0;\nld.global.b32 %v2, [%a1];\n"
                    "add.u64 %a1, %out, %a0;\nst.global.b32 [%a1], %v2;\n") +
          "ld.param.u64 %in, [in1];\n" +
          for_words(bytes / 4, "TILE",
                    "cvt.u64.u32 %a0, %v0;\nadd.u64 %a1, %in, %a0;\nld.global.b32 %v2, [%a1];\n"
                    "st.shared.b32 [%v1], %v2;\n") +
          "fence.proxy.async;\nbar.sync 0;\n" +
          fmt::format("@%first {}.{}d.global.shared::cta{}.tile.bulk_group [%map, {}], [%tile];\n", copy,
                      box.start.size(), operation.empty() ? "" : "." + operation, box.coordinates()) +
          "@%first cp.async.bulk.commit_group;\n@%first cp.async.bulk.wait_group 0;\n");
  return kernel;
}

std::vector<Box> load_boxes() {
  std::vector<Box> boxes;
  struct Row {
    std::uint32_t swizzle, inner;
  };
  for (const Row row : {Row{0, 40}, Row{32, 16}, Row{64, 32}, Row{128, 64}}) {
    const std::string swizzle = row.swizzle == 0 ? "no swizzle" : fmt::format("swizzle {}", row.swizzle);
    const auto box = [&](const char* where, int column, int line) {
      boxes.push_back({fmt::format("TMA load bf16 2d, {}, {}", swizzle, where),
                       kBf16,
                       {144, 70},
                       {row.inner, 48},
                       {column, line},
                       row.swizzle,
                       {},
                       "cluster"});
    };
    box("inside", 16, 5);
    box("past both ends", 120, 50);
    box("before both starts", -8, -3);
    box("wholly outside", 1000, -100);
  }
  for (const Element& element : {kU8, kU16, kS32, kF32, kU64})
    boxes.push_back({fmt::format("TMA load {} 3d", element.name),
                     element,
                     {48, 9, 5},
                     {64 / element.bytes, 6, 3},
                     {static_cast<int>(32 / element.bytes), 5, -1},
                     0,
                     {}});
  boxes.push_back({"TMA load f32 3d, swizzle 128", kF32, {64, 9, 5}, {32, 6, 3}, {44, -2, 3}, 128, {}});
  boxes.push_back({"TMA load u16 1d", kU16, {1000}, {128}, {936}, 0, {}});
  boxes.push_back({"TMA load u16 4d", kU16, {32, 5, 6, 4}, {16, 4, 3, 2}, {24, 3, 4, 3}, 32, {}});
  boxes.push_back({"TMA load u16 5d", kU16, {32, 5, 6, 4, 3}, {16, 2, 3, 2, 2}, {-8, 4, -1, 3, 2}, 32, {}});
  boxes.push_back({"TMA load with stride 0", kF16, {64, 40}, {64, 16}, {0, 30}, 128, {0}});
  boxes.push_back({"TMA load with overlapping rows", kF16, {64, 40}, {64, 16}, {16, 30}, 128, {48}});
  boxes.push_back({"TMA load with gaps", kF16, {40, 8, 30}, {32, 2, 16}, {16, 7, 20}, 64, {96, 1024}});
  return boxes;
}

std::vector<Box> store_boxes() {
  return {{"bf16 2d, swizzle 128", kBf16, {144, 70}, {64, 48}, {16, 5}, 128, {}},
          {"bf16 2d past both ends", kBf16, {144, 70}, {64, 48}, {104, 50}, 128, {}},
          {"f32 2d, swizzle 64, past the end", kF32, {40, 30}, {16, 16}, {32, 20}, 64, {}},
          {"f32 3d, swizzle 128", kF32, {64, 9, 5}, {32, 6, 3}, {32, 4, 3}, 128, {}},
          {"u16 1d", kU16, {1000}, {128}, {936}, 0, {}},
          {"u16 5d, swizzle 32", kU16, {32, 5, 6, 4, 3}, {16, 2, 3, 2, 2}, {24, 4, 5, 3, 2}, 32, {}}};
}

}  // namespace

void add_tma_cases(std::vector<TestCase>& cases) {
  for (const Box& box : load_boxes())
    cases.push_back({box.name, "TMA", Needs::kAny, [box] { return load(box, false); }});
  Box shared = load_boxes()[13];
  shared.name = "TMA load, multicast";
  cases.push_back({shared.name, "TMA", Needs::kAny, [shared] { return load(shared, true); }});
  for (Box box : store_boxes()) {
    box.name = "TMA store " + box.name;
    cases.push_back({box.name, "TMA", Needs::kAny, [box] { return store(box, {}); }});
  }
  struct Reduction {
    Element element;
    const char* operation;
  };
  for (const Reduction reduction : {Reduction{kF32, "add"}, Reduction{kF16, "add"}, Reduction{kBf16, "add"},
                                    Reduction{kBf16, "min"}, Reduction{kF16, "max"}, Reduction{kS32, "add"},
                                    Reduction{kS32, "min"}, Reduction{kS32, "max"}, Reduction{kS32, "xor"}}) {
    const Box box{fmt::format("TMA reduction {} of {}", reduction.operation, reduction.element.name),
                  reduction.element,
                  {96, 30},
                  {64 / reduction.element.bytes, 16},
                  {static_cast<int>(64 / reduction.element.bytes), 20},
                  64,
                  {}};
    const std::string operation = reduction.operation;
    cases.push_back({box.name, "TMA", Needs::kAny, [box, operation] { return store(box, operation); }});
  }
}

}  // namespace jfa::conformance
