// wgmma, dense and sparse: every operand layout, and sums whose order and roundings show.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <optional>

#include "conformance/operands.h"
#include "conformance/test_kernel.h"

namespace jfa::conformance {
namespace {

constexpr std::uint32_t kM = 64, kWgmmaDepth = 64, kWarpgroupThreads = 128;
constexpr std::uint32_t kMostSteps = kWgmmaDepth / 16;

enum class Values : std::uint8_t {
  kModerate,  // of similar size
  kWide,      // exponents far apart: what alignment and truncation lose shows
  kCancelling,
  kSpecial,  // zeros, denormals, infinities, NaNs among all finite values
};

struct WgmmaProduct {
  std::string name;
  std::uint32_t n = 64;
  bool bf16 = true;
  std::string_view types{};  // of other elements, "e4m3.e5m2": all bits are random, or small for tf32
  std::string_view accumulator = "f32";
  bool f32 = true;                                  // the accumulators
  std::uint32_t swizzle_a = 128, swizzle_b = 128;   // bytes; 0: none
  bool a_transposed = false, b_transposed = false;  // MN-major
  bool a_in_registers = false;
  bool accumulate = true;
  bool negate_a = false, negate_b = false;
  Values values = Values::kModerate;
  std::optional<Metadata> metadata{};  // of a sparse A, in every thread, selected or not
  std::uint32_t selector = 0;

  bool sparse() const { return metadata.has_value(); }
  std::uint32_t registers() const { return f32 ? n / 2 : n / 4; }
};

std::uint16_t value_of(const WgmmaProduct& p, bool upper_half, Random& random) {
  if (p.types == "tf32.tf32") {  // halves of floats: the upper ones of magnitude 2^-13 … 2^13, the lower any
    const std::uint64_t any = random.next();
    return static_cast<std::uint16_t>(upper_half ? (any & 0x807f) | (114 + random.below(27)) << 7 : any);
  }
  // Pairs of bytes; of FP8 those below 2, so that not every sum is a NaN.
  if (!p.types.empty())
    return static_cast<std::uint16_t>(random.next() & (p.types[0] == 'e' ? 0xbfbf : 0xffff));
  const int mantissa_bits = p.bf16 ? 7 : 10;
  const int bias = p.bf16 ? 127 : 15;
  const auto bits = static_cast<std::uint32_t>(random.next());
  const std::uint32_t mantissa = bits & ((1u << mantissa_bits) - 1), sign = bits >> 31 << 15;
  const auto with = [&](int exponent) {
    return static_cast<std::uint16_t>(sign | static_cast<std::uint32_t>(exponent) << mantissa_bits |
                                      mantissa);
  };
  switch (p.values) {
    case Values::kModerate:
      return with(bias - 4 + static_cast<int>(random.below(6)));
    case Values::kWide:
      return with(bias - 13 + static_cast<int>(random.below(27)));
    case Values::kCancelling:
      return static_cast<std::uint16_t>(sign | static_cast<std::uint32_t>(bias) << mantissa_bits |
                                        (mantissa & 3));
    case Values::kSpecial:
      break;
  }
  return static_cast<std::uint16_t>(random_operand(p.bf16 ? OperandType::kBf16 : OperandType::kF16, random));
}

// The first descriptor of an operand of `rows` rows (or columns), and what it moves by for 16 more of K, in
// bytes.
struct Descriptor {
  std::uint64_t bits = 0;
  std::uint32_t step_bytes = 0;
};
Descriptor descriptor(std::uint32_t rows, std::uint32_t swizzle, bool transposed) {
  std::uint32_t leading = 16, stride = swizzle * 8, step = 32;
  if (!transposed && swizzle == 0) {
    leading = rows * 16, stride = 128, step = 2 * leading;
  } else if (transposed && swizzle == 0) {
    leading = 128, stride = kWgmmaDepth * 16, step = 256;
  } else if (transposed) {
    leading = kWgmmaDepth * swizzle, step = 2 * stride;
  }
  const std::uint64_t mode = swizzle == 0 ? 0 : swizzle == 128 ? 1 : swizzle == 64 ? 2 : 3;
  return {mode << 62 | std::uint64_t{stride >> 4} << 32 | std::uint64_t{leading >> 4} << 16, step};
}

// Products, each of 16 elements of K of A, that the operands' tiles hold: a K-major tile is one swizzle width
// deep. Of B a product has twice as many if A is sparse.
std::uint32_t steps_of(const WgmmaProduct& p) {
  std::uint32_t a_depth = kWgmmaDepth, b_depth = kWgmmaDepth;
  if (!p.a_in_registers && !p.a_transposed && p.swizzle_a != 0) a_depth = std::min(a_depth, p.swizzle_a / 2);
  if (!p.b_transposed && p.swizzle_b != 0) b_depth = std::min(b_depth, p.swizzle_b / 2);
  return std::min(a_depth / 16, b_depth / (p.sparse() ? 32 : 16));
}

std::string list(const char* prefix, std::uint32_t count) {
  std::string text;
  for (std::uint32_t i = 0; i < count; ++i) text += fmt::format("{}{}{}", i == 0 ? "" : ", ", prefix, i);
  return text;
}

// Copies words from an input to shared memory at %base.
std::string copy_in(int input, std::uint32_t bytes, const std::string& label) {
  return fmt::format(
      "ld.param.u64 %in, [in{1}];\nmov.u32 %i, %t;\n{0}: setp.ge.u32 %p, %i, {2};\n@%p bra {0}_END;\n"
      "mad.wide.u32 %a0, %i, 4, %in;\nld.global.b32 %v0, [%a0];\nshl.b32 %v1, %i, 2;\n"
      "add.u32 %v1, %base, %v1;\nst.shared.b32 [%v1], %v0;\nadd.u32 %i, %i, {3};\nbra {0};\n{0}_END:\n",
      label, input, bytes / 4, kWarpgroupThreads);
}

TestKernel wgmma_product(const WgmmaProduct& p) {
  TestKernel kernel;
  kernel.block.x = kWarpgroupThreads;
  const std::uint32_t a_bytes = kM * kWgmmaDepth * 2, b_bytes = std::max(p.n, 64u) * kWgmmaDepth * 2;
  kernel.output_bytes = std::size_t{kWarpgroupThreads} * p.registers() * 4;
  Random random(seed_of(p.name));
  for (const std::uint32_t bytes : {a_bytes, b_bytes}) {
    std::vector<std::byte> matrix(bytes);
    for (std::uint32_t i = 0; i < bytes; i += 2) {
      const std::uint16_t value = value_of(p, i % 4 != 0, random);
      std::memcpy(matrix.data() + i, &value, 2);
    }
    kernel.inputs.push_back(std::move(matrix));
  }
  std::vector<std::byte> start(kernel.output_bytes);
  for (std::size_t i = 0; i < start.size(); i += 4) {
    const OperandType type = p.values == Values::kSpecial ? (p.f32 ? OperandType::kF32 : OperandType::kF16x2)
                                                          : OperandType::kSmallF32;
    std::uint64_t value = random_operand(type, random);
    if (p.values != Values::kSpecial)  // of the products' size: exponents −4 … 3; as halves, anything
      value = (value & 0x807fffff) | (123 + random.below(8)) << 23;
    if (!p.f32 && p.values != Values::kSpecial) value = (value & 0x83ff83ff) | 0x30003000;
    std::memcpy(start.data() + i, &value, 4);
  }
  kernel.inputs.push_back(std::move(start));
  std::string load_metadata;
  if (p.sparse()) {
    std::vector<std::byte> metadata(kWarpgroupThreads * kMostSteps * 4);
    for (std::size_t i = 0; i < metadata.size(); i += 4) {
      const std::uint32_t word = random_metadata(*p.metadata, random);
      std::memcpy(&metadata[i], &word, 4);
    }
    kernel.inputs.push_back(std::move(metadata));
    load_metadata = fmt::format("ld.param.u64 %in, [in3];\nmad.wide.u32 %a1, %t, {}, %in;\n", kMostSteps * 4);
    for (std::uint32_t step = 0; step < kMostSteps; ++step)
      load_metadata += fmt::format("ld.global.b32 %e{}, [%a1+{}];\n", step, 4 * step);
  }

  const Descriptor a = descriptor(kM, p.swizzle_a, p.a_transposed),
                   b = descriptor(p.n, p.swizzle_b, p.b_transposed);
  const char* type = p.bf16 ? "bf16" : "f16";
  std::string multiply;
  for (std::uint32_t step = 0; step < steps_of(p); ++step) {
    const std::string operand = p.a_in_registers ? fmt::format("{{%x{}, %x{}, %x{}, %x{}}}", 4 * step,
                                                               4 * step + 1, 4 * step + 2, 4 * step + 3)
                                                 : "%da";
    const std::string majors = p.a_in_registers
                                   ? fmt::format("{}", p.b_transposed ? 1 : 0)
                                   : fmt::format("{}, {}", p.a_transposed ? 1 : 0, p.b_transposed ? 1 : 0);
    const std::string types = p.types.empty() ? fmt::format("{}.{}.{}", p.f32 ? "f32" : "f16", type, type)
                                              : fmt::format("{}.{}", p.accumulator, p.types);
    std::string factors =
        p.accumulator == "s32" ? "" : fmt::format(", {}, {}", p.negate_a ? -1 : 1, p.negate_b ? -1 : 1);
    if (p.types.empty()) factors += ", " + majors;
    const int dense_k = p.types.empty()          ? 16
                        : p.types == "tf32.tf32" ? 8
                                                 : 32,
              steps_of_b = p.sparse() ? 2 : 1;
    const std::string metadata = p.sparse() ? fmt::format("%e{}, {}, ", step, p.selector) : "";
    multiply += fmt::format(
        "wgmma.mma_async{}.sync.aligned.m64n{}k{}.{} {{{}}}, {}, %db, {}{}{};\n"
        "add.u64 %da, %da, {};\nadd.u64 %db, %db, {};\n",
        p.sparse() ? ".sp" : "", p.n, dense_k * steps_of_b, types, list("%d", p.registers()), operand,
        metadata, step > 0 || p.accumulate ? "%yes" : "%no", factors, a.step_bytes / 16,
        steps_of_b * b.step_bytes / 16);
  }
  std::string load, store, fragments;
  for (std::uint32_t i = 0; i < p.registers(); ++i) {
    load += fmt::format("ld.global.b32 %d{}, [%a1+{}];\n", i, 4 * i);
    store += fmt::format("st.global.b32 [%a1+{}], %d{};\n", 4 * i, i);
  }
  for (std::uint32_t i = 0; i < 4 * kWgmmaDepth / 16; ++i)
    fragments += fmt::format("ld.global.b32 %x{}, [%a1+{}];\n", i, 4 * i);
  kernel.ptx = fmt::format(
      R"(.visible .entry test(.param .u64 out, .param .u64 in0, .param .u64 in1, .param .u64 in2{13})
.reqntid {0}
{{
.reg .b32 %t, %base, %i, %v<4>, %d<{1}>, %x<16>, %e<4>; .reg .b64 %in, %out, %a<2>, %da, %db; .reg .pred %p, %yes, %no;
.shared .align 1024 .b8 a_tile[{2}];
.shared .align 1024 .b8 b_tile[{3}];
mov.u32 %t, %tid.x;
setp.eq.u32 %yes, 0, 0;
setp.ne.u32 %no, 0, 0;
mov.u32 %base, a_tile;
{4}shr.u32 %v2, %base, 4;
cvt.u64.u32 %da, %v2;
or.b64 %da, %da, {5};
mov.u32 %base, b_tile;
{6}shr.u32 %v2, %base, 4;
cvt.u64.u32 %db, %v2;
or.b64 %db, %db, {7};
ld.param.u64 %in, [in0];
mad.wide.u32 %a1, %t, 64, %in;
{8}ld.param.u64 %in, [in2];
mad.wide.u32 %a1, %t, {9}, %in;
{10}{14}fence.proxy.async;
bar.sync 0;
wgmma.fence.sync.aligned;
{11}wgmma.commit_group.sync.aligned;
wgmma.wait_group.sync.aligned 0;
ld.param.u64 %out, [out];
mad.wide.u32 %a1, %t, {9}, %out;
{12}ret;
}}
)",
      kWarpgroupThreads, p.registers(), a_bytes, b_bytes, copy_in(0, a_bytes, "A"), a.bits,
      copy_in(1, b_bytes, "B"), b.bits, fragments, p.registers() * 4, load, multiply, store,
      p.sparse() ? ", .param .u64 in3" : "", load_metadata);
  return kernel;
}

void add_wgmma_case(std::vector<TestCase>& cases, WgmmaProduct p) {
  p.name = (p.sparse() ? "wgmma.sp " : "wgmma ") + p.name;
  cases.push_back({p.name, "wgmma", Needs::kHopper, [p] { return wgmma_product(p); }});
}

void add_sparse_cases(std::vector<TestCase>& cases) {
  const auto add_sparse = [&](WgmmaProduct p) {
    if (!p.metadata) p.metadata = p.types == "tf32.tf32" ? Metadata::kOneOfTwo : Metadata::kAscending;
    add_wgmma_case(cases, std::move(p));
  };
  for (const bool bf16 : {true, false})
    for (const std::uint32_t n : {8u, 24u, 64u, 256u})
      add_sparse({.name = fmt::format("n{} {}", n, bf16 ? "bf16" : "f16"), .n = n, .bf16 = bf16});
  for (const std::uint32_t swizzle : {0u, 32u, 64u, 128u})
    for (const bool transposed : {false, true}) {
      const std::string layout = fmt::format("{}-major, swizzle {}", transposed ? "MN" : "K", swizzle);
      add_sparse({.name = "A " + layout, .swizzle_a = swizzle, .a_transposed = transposed});
      if (swizzle == 32 && !transposed) continue;  // a product's K of B is 64 bytes
      add_sparse({.name = "B " + layout, .n = 128, .swizzle_b = swizzle, .b_transposed = transposed});
      add_sparse({.name = "A in registers, B " + layout,
                  .swizzle_b = swizzle,
                  .b_transposed = transposed,
                  .a_in_registers = true});
    }
  for (const bool in_registers : {false, true}) {
    const std::string where = in_registers ? ", A in registers" : "";
    for (const bool bf16 : {true, false}) {
      const char* type = bf16 ? "bf16" : "f16";
      const auto add_values = [&](const char* name, Values values) {
        add_sparse({.name = fmt::format("{} {}{}", type, name, where),
                    .bf16 = bf16,
                    .a_in_registers = in_registers,
                    .values = values});
      };
      add_values("wide exponents", Values::kWide);
      add_values("cancelling sums", Values::kCancelling);
      add_values("special values", Values::kSpecial);
      add_sparse({.name = fmt::format("{}, selector 1{}", type, where),
                  .bf16 = bf16,
                  .a_in_registers = in_registers,
                  .selector = 1});
      add_sparse({.name = fmt::format("{}, positions in any order{}", type, where),
                  .bf16 = bf16,
                  .a_in_registers = in_registers,
                  .metadata = Metadata::kAnyOrder});
    }
    for (const char* types : {"tf32.tf32", "e4m3.e4m3", "e4m3.e5m2", "e5m2.e4m3", "e5m2.e5m2"})
      add_sparse({.name = types + where, .types = types, .a_in_registers = in_registers});
    add_sparse({.name = "tf32.tf32, selector 1" + where,
                .types = "tf32.tf32",
                .a_in_registers = in_registers,
                .selector = 1});
    add_sparse({.name = "e4m3.e4m3, f16 accumulators" + where,
                .types = "e4m3.e4m3",
                .accumulator = "f16",
                .f32 = false,
                .a_in_registers = in_registers});
    for (const char* types : {"s8.s8", "s8.u8", "u8.s8", "u8.u8"})
      add_sparse({.name = types + where,
                  .types = types,
                  .accumulator = "s32",
                  .a_in_registers = in_registers,
                  .values = Values::kSpecial});
    for (const char* types : {"e4m3.e4m3", "s8.s8"})
      add_sparse({.name = fmt::format("{}, positions in any order{}", types, where),
                  .types = types,
                  .accumulator = types[0] == 's' ? "s32" : "f32",
                  .a_in_registers = in_registers,
                  .values = types[0] == 's' ? Values::kSpecial : Values::kModerate,
                  .metadata = Metadata::kAnyOrder});
  }
  add_sparse({.name = "f16 accumulators", .n = 128, .bf16 = false, .f32 = false});
  add_sparse({.name = "without accumulators", .accumulate = false});
  add_sparse({.name = "negated A", .negate_a = true});
  add_sparse({.name = "negated B", .negate_b = true});
}

}  // namespace

void add_wgmma_cases(std::vector<TestCase>& cases) {
  for (const bool bf16 : {true, false})
    for (const std::uint32_t n : {8u, 16u, 24u, 32u, 64u, 96u, 128u, 192u, 256u})
      add_wgmma_case(cases, {.name = fmt::format("n{} {}", n, bf16 ? "bf16" : "f16"), .n = n, .bf16 = bf16});
  struct Layout {
    std::uint32_t swizzle;
    bool transposed;
  };
  for (const std::uint32_t swizzle : {0u, 32u, 64u, 128u})
    for (const bool transposed : {false, true}) {
      const std::string layout = fmt::format("{}-major, swizzle {}", transposed ? "MN" : "K", swizzle);
      add_wgmma_case(cases, {.name = "A " + layout, .swizzle_a = swizzle, .a_transposed = transposed});
      add_wgmma_case(cases,
                     {.name = "B " + layout, .n = 128, .swizzle_b = swizzle, .b_transposed = transposed});
      add_wgmma_case(cases, {.name = "A in registers, B " + layout,
                             .n = 64,
                             .swizzle_b = swizzle,
                             .b_transposed = transposed,
                             .a_in_registers = true});
    }
  struct Kind {
    Values values;
    const char* name;
  };
  for (const Kind kind : {Kind{Values::kWide, "wide exponents"}, Kind{Values::kCancelling, "cancelling sums"},
                          Kind{Values::kSpecial, "special values"}})
    for (const bool bf16 : {true, false}) {
      const char* type = bf16 ? "bf16" : "f16";
      add_wgmma_case(cases,
                     {.name = fmt::format("{} {}", type, kind.name), .bf16 = bf16, .values = kind.values});
      add_wgmma_case(cases, {.name = fmt::format("{} {}, A in registers", type, kind.name),
                             .bf16 = bf16,
                             .a_in_registers = true,
                             .values = kind.values});
      if (!bf16)
        add_wgmma_case(cases, {.name = fmt::format("f16 {}, f16 accumulators", kind.name),
                               .bf16 = false,
                               .f32 = false,
                               .values = kind.values});
    }
  for (const char* types : {"tf32.tf32", "e4m3.e4m3", "e4m3.e5m2", "e5m2.e4m3", "e5m2.e5m2"})
    for (const bool in_registers : {false, true})
      add_wgmma_case(cases, {.name = fmt::format("{}{}", types, in_registers ? ", A in registers" : ""),
                             .types = types,
                             .a_in_registers = in_registers});
  for (const char* types : {"s8.s8", "s8.u8", "u8.s8", "u8.u8"})
    add_wgmma_case(cases, {.name = types, .types = types, .accumulator = "s32", .values = Values::kSpecial});
  add_wgmma_case(cases, {.name = "f16 accumulators", .n = 128, .bf16 = false, .f32 = false});
  add_wgmma_case(cases, {.name = "without accumulators", .accumulate = false});
  add_wgmma_case(cases, {.name = "negated A", .negate_a = true});
  add_wgmma_case(cases, {.name = "negated B", .negate_b = true});
  add_sparse_cases(cases);
}

}  // namespace jfa::conformance
