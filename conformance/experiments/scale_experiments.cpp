// Experiments with block scales, and with elements of 4 and 6 bits.
#include <fmt/format.h>

#include <bit>
#include <cmath>

#include "conformance/doubts.h"
#include "conformance/operands.h"
#include "conformance/product_program.h"

namespace jfa::conformance {
namespace {

constexpr std::uint32_t kAScales = kProductFreeColumn, kBScales = kProductFreeColumn + 8;
constexpr std::uint32_t kPower = 1u << 23;  // of the instruction descriptor: factors are ue8m0

// Small powers of two for rows of A and columns of B, of every block along k.
struct ScaledProduct {
  ExactProduct product;
  std::uint32_t scales = 1;
};

ScaledProduct mxf8(std::uint32_t ctas, std::uint32_t m, std::uint32_t n) {
  ScaledProduct p;
  p.product = {.opcode = fmt::format("tcgen05.mma.cta_group::{}.kind::mxf8f6f4.block_scale", ctas),
               .ctas = ctas,
               .m = m,
               .n = n,
               .descriptor_bits = kPower,
               .a_code = e4m3_code,
               .b_code = e4m3_code};
  return p;
}

ScaledProduct mxf4() {
  ScaledProduct p{.product = {.opcode = "tcgen05.mma.cta_group::1.kind::mxf4.block_scale",
                              .descriptor_bits = kPower | 1u << 7 | 1u << 10,
                              .a_code = packed_f4_code,
                              .b_code = packed_f4_code},
                  .scales = 2};
  return p;
}

// The factors of row r are the bytes of one cell, in every quarter of the lanes; those of B for a pair of
// CTAs with M = 128 in halves.
void store_scales(TensorProgram& p, const ScaledProduct& scaled) {
  const ExactProduct& product = scaled.product;
  const auto store = [&](std::uint32_t column, std::uint32_t cta, std::uint32_t row, std::uint32_t place,
                         std::uint32_t first_quarter, std::uint32_t quarters) {
    std::uint32_t word = 0x01010101u * 0x3f;  // what must not be read
    for (std::uint32_t block = 0; block < scaled.scales; ++block) {
      word &= ~(0xffu << 8 * block);
      word |= static_cast<std::uint32_t>(127 + scale_exponent(row, block)) << 8 * block;
    }
    for (std::uint32_t quarter = first_quarter; quarter < first_quarter + quarters; ++quarter)
      p.cell(p.tensor, cta, quarter * 32 + place % 32, column + place / 32) =
          p.cell(p.expected, cta, quarter * 32 + place % 32, column + place / 32) = word;
  };
  const std::uint32_t a_rows = product.m / product.ctas;
  for (std::uint32_t m = 0; m < product.m; ++m) store(kAScales, m / a_rows, m, m % a_rows, 0, 4);
  const bool halves = product.ctas == 2 && product.m == 128;
  for (std::uint32_t cta = 0; cta < product.ctas; ++cta)
    for (std::uint32_t n = 0; n < product.n; ++n) {
      const std::uint32_t half = product.n / 2;
      if (halves)
        store(kBScales, cta, n, n % half, n / half * 2, 2);
      else
        store(kBScales, cta, n, n, 0, 4);
    }
}

TensorProgram scaled_program(ScaledProduct scaled, std::string_view name) {
  ExactProduct& product = scaled.product;
  const std::uint32_t block_elements = product.a_code().elements / scaled.scales;
  product.before =
      fmt::format("add.u32 %b1, %t, {};\nadd.u32 %b2, %t, {};\n", kAScales, kBScales) + product.before;
  product.operands = ", [%b1], [%b2]";
  product.factor = [block_elements](std::uint32_t m, std::uint32_t n, std::uint32_t k) {
    const std::uint32_t block = k / block_elements;
    return std::ldexp(1.0, scale_exponent(m, block) + scale_exponent(n, block));
  };
  TensorProgram program = exact_program(product, name);
  store_scales(program, scaled);
  return program;
}

// Scale factors that a copy brings, products with them, and at once a copy of others over them.
TestKernel copies_behind_products(std::string_view name) {
  constexpr std::uint32_t kImage = 8192, kOthers = kImage + 512, kRepeats = 8;
  TensorProgram p = scaled_program(mxf8(1, 128, 128), name);
  // The factors of A as tcgen05.cp takes them: 32 rows of 16 bytes; and 2^0 for everybody.
  for (std::uint32_t m = 0; m < 128; ++m)
    for (std::uint32_t i = 0; i < 4; ++i) {
      const std::uint32_t word = p.cell(p.tensor, 0, m % 32, kAScales + m / 32);
      const std::uint32_t at = m % 32 * 16 + m / 32 * 4 + i;
      p.shared[0][kImage + at] = static_cast<std::byte>(word >> 8 * i & 0xff);
      p.shared[0][kOthers + at] = std::byte{127};
    }
  const std::string product = p.issue.substr(p.issue.find("tcgen05.mma"));
  const std::string addresses = p.issue.substr(0, p.issue.find("tcgen05.mma"));
  const std::uint64_t layout = std::uint64_t{1} << 46 | std::uint64_t{128 >> 4} << 32;
  p.issue = addresses + fmt::format(
                            "add.s64 %a2, %s, {};\nadd.s64 %a3, %s, {};\n"
                            "tcgen05.cp.cta_group::1.32x128b.warpx4 [%b1], %a2;\n",
                            layout | kImage >> 4, layout | kOthers >> 4);
  for (std::uint32_t i = 0; i < kRepeats; ++i) p.issue += product;
  p.issue += "tcgen05.cp.cta_group::1.32x128b.warpx4 [%b1], %a3;\n";
  for (std::uint32_t lane = 0; lane < kTensorProgramLanes; ++lane) {
    for (std::uint32_t n = 0; n < 128; ++n) {
      const float before = std::bit_cast<float>(p.cell(p.tensor, 0, lane, n));
      std::uint32_t& d = p.cell(p.expected, 0, lane, n);
      d = std::bit_cast<std::uint32_t>(before + kRepeats * (std::bit_cast<float>(d) - before));
    }
    for (std::uint32_t column = kAScales; column < kAScales + 4; ++column)
      p.cell(p.expected, 0, lane, column) = 0x7f7f7f7f;
  }
  return kernel_of(p);
}

// Sixteen products that cancel, under scale factors of 2^100: beside their exponent the accumulator is
// nothing, unless a sum of zero does not count.
TestKernel cancelled_group() {
  ScaledProduct scaled = mxf4();
  TensorProgram p = scaled_program(scaled, "cancelled group");
  std::fill(p.shared[0].begin(), p.shared[0].end(), std::byte{0});
  const std::byte ones{0x22}, one_and_minus_one{0xa2};
  for (std::uint32_t i = 0; i < 128 * 16; ++i) p.shared[0][i] = ones;  // A's first chunks
  for (std::uint32_t i = 0; i < 64 * 16; ++i) p.shared[0][4096 + i] = one_and_minus_one;
  p.expected = p.tensor;
  for (std::uint32_t lane = 0; lane < kTensorProgramLanes; ++lane) {
    for (std::uint32_t column = kAScales; column < kProductColumns; ++column)
      p.cell(p.tensor, 0, lane, column) = p.cell(p.expected, 0, lane, column) =
          0x7f7f0000u | (127 + 50) << 8 | (127 + 50);
    for (std::uint32_t n = 0; n < 64; ++n) p.cell(p.expected, 0, lane, n) = 0;
  }
  return kernel_of(p);
}

// Any numbers under any factors near 1; compared with the simulator.
TestKernel rounded_sums(const ScaledProduct& scaled, std::string_view name) {
  TensorProgram p = scaled_program(scaled, name);
  Random random(seed_of(name));
  for (std::byte& byte : p.shared[0]) byte = static_cast<std::byte>(random.below(256));
  for (std::uint32_t lane = 0; lane < kTensorProgramLanes; ++lane)
    for (std::uint32_t n = 0; n < scaled.product.n; ++n)
      p.cell(p.tensor, 0, lane, n) =
          (random.below(2) << 31) | (110 + random.below(40)) << 23 | random.below(1u << 23);
  p.expected.clear();
  return kernel_of(p);
}

}  // namespace

void add_scale_experiments(std::vector<TestCase>& cases) {
  const auto add = [&](const std::string& name, std::function<TestKernel()> make) {
    cases.push_back({name, "doubt", Needs::kBlackwell, std::move(make)});
  };
  const auto exact = [&](const std::string& name, const ScaledProduct& scaled) {
    add(name, [scaled, name] { return kernel_of(scaled_program(scaled, name)); });
  };
  const auto rounded = [&](const std::string& name, const ScaledProduct& scaled) {
    add(name, [scaled, name] { return rounded_sums(scaled, name); });
  };
  rounded("doubt 14: sums with block scales, e4m3", mxf8(1, 128, 64));
  rounded("doubt 14: sums with block scales, e2m1", mxf4());
  const std::string behind = "doubt 27: a copy over scale factors behind eight products";
  add(behind, [behind] { return copies_behind_products(behind); });
  exact("doubt 28: kind mxf8f6f4 with a factor for each row and column", mxf8(1, 128, 96));
  exact("doubt 28: kind mxf4 with two factors for each row and column", mxf4());
  exact("doubt 28: a pair of CTAs with M = 256", mxf8(2, 256, 96));
  exact("doubt 28: a pair of CTAs with M = 128, columns in halves", mxf8(2, 128, 128));
  add("doubt 29: a cancelled group of large products beside a small accumulator", cancelled_group);
  const std::string name = "doubt 30: e2m3 times e2m1";
  add(name, [name] {
    return kernel_of(exact_program({.opcode = "tcgen05.mma.cta_group::1.kind::f8f6f4",
                                    .descriptor_bits = 1u << 4 | 3u << 7 | 5u << 10,
                                    .a_code = e2m3_code,
                                    .b_code = e2m1_code},
                                   name));
  });
}

}  // namespace jfa::conformance
