// cvt: rounding, saturation, extension, and the narrow formats.
#include <doctest/doctest.h>

#include <cmath>
#include <random>

#include "simulator/machine/float_format.h"
#include "tests/simulator/one_op.h"

namespace jfa::simulator::test::convert_test {
namespace {

using V32 = std::vector<std::uint32_t>;
using V64 = std::vector<std::uint64_t>;

TEST_CASE("between integers: truncation, extension, saturation") {
  CHECK(run_op32("cvt.s32.s8 %d, %a;", {u32s({0x80, 0x17f})}) == V32{0xffffff80, 0x7f});
  CHECK(run_op32("cvt.u32.u8 %d, %a;", {u32s({0x1ff})}) == V32{0xff});
  CHECK(run_op("cvt.s64.s32 %d, %a;", 64, {u32s({0x80000000})}) == V64{0xffffffff80000000});
  CHECK(run_op32("cvt.u32.u64 %d, %a;", {u64s({0x1234567890abcdef})}) == V32{0x90abcdef});
  CHECK(run_op32("cvt.sat.s8.s32 %d, %a;", {u32s({1000, static_cast<std::uint32_t>(-1000), 5})}) ==
        V32{127, 0xffffff80, 5});
  CHECK(run_op32("cvt.sat.u8.s32 %d, %a;", {u32s({1000, static_cast<std::uint32_t>(-1000)})}) == V32{255, 0});
  CHECK(run_op("cvt.s16.s8 %d, %a;", 16, {u32s({0x80})}) == V64{0xff80});
  // A destination wider than the type: the result is extended into it.
  CHECK(run_op32("cvt.s16.s32 %d, %a;", {u32s({0x8000})}) == V32{0xffff8000});
  CHECK(run_op32("cvt.u16.u32 %d, %a;", {u32s({0x18000})}) == V32{0x8000});
}

TEST_CASE("float to integer: modes, clamping, NaN") {
  const Column a = f32s({2.5f, -2.5f, 3.5f, 3e9f, -3e9f, NAN, -0.4f});
  CHECK(run_op32("cvt.rni.s32.f32 %d, %a;", {a}) ==
        V32{2, static_cast<std::uint32_t>(-2), 4, 0x7fffffff, 0x80000000, 0, 0});
  CHECK(run_op32("cvt.rzi.s32.f32 %d, %a;", {a}) ==
        V32{2, static_cast<std::uint32_t>(-2), 3, 0x7fffffff, 0x80000000, 0, 0});
  CHECK(run_op32("cvt.rmi.s32.f32 %d, %a;", {a})[1] == static_cast<std::uint32_t>(-3));
  CHECK(run_op32("cvt.rpi.s32.f32 %d, %a;", {a})[0] == 3);
  CHECK(run_op32("cvt.rzi.u32.f32 %d, %a;", {a}) == V32{2, 0, 3, 3000000000u, 0, 0, 0});
  CHECK(run_op("cvt.rzi.s64.f32 %d, %a;", 64, {f32s({-1e30f, 1e30f, NAN})}) ==
        V64{0x8000000000000000, 0x7fffffffffffffff, 0x8000000000000000});
  CHECK(run_op("cvt.rzi.u64.f64 %d, %a;", 64, {f64s({1e19, -1})}) == V64{10000000000000000000u, 0});
}

TEST_CASE("integer to float: modes") {
  const Column a = u32s({0x7fffffff, 0x01000001, 0x80000000});
  CHECK(run_f32("cvt.rn.f32.s32 %d, %a;", {a}) == std::vector<float>{0x1p31f, 0x1p24f, -0x1p31f});
  CHECK(run_f32("cvt.rz.f32.s32 %d, %a;", {a})[0] == 2147483520.0f);
  CHECK(run_f32("cvt.rp.f32.u32 %d, %a;", {a})[1] == 16777218.0f);
  CHECK(run_f32("cvt.rz.f32.u64 %d, %a;", {u64s({0xffffffffffffffff})})[0] == 0x1.fffffep63f);
  CHECK(run_f32("cvt.rn.f32.u64 %d, %a;", {u64s({0xffffffffffffffff})})[0] == 0x1p64f);
  CHECK(run_f64("cvt.rz.f64.u64 %d, %a;", {u64s({0xffffffffffffffff})})[0] == 0x1.fffffffffffffp63);
}

TEST_CASE("float to float") {
  CHECK(run_f32("cvt.rni.f32.f32 %d, %a;", {f32s({2.5f, -0.3f})}) == std::vector<float>{2, -0.0f});
  CHECK(run_op32("cvt.ftz.f32.f32 %d, %a;", {u32s({0x807fffff})}) == V32{0x80000000});
  CHECK(run_f32("cvt.rz.f32.f64 %d, %a;", {f64s({0.1})})[0] < 0.1f);
  CHECK(run_f64("cvt.f64.f32 %d, %a;", {f32s({0.1f})})[0] == static_cast<double>(0.1f));
  CHECK(run_f32("cvt.sat.f32.f32 %d, %a;", {f32s({NAN, 7})}) == std::vector<float>{0, 1});
}

// Independent of the simulator: nearest by searching the neighbours.
std::uint32_t nearest(double value, const FloatFormat& f) {
  const std::uint32_t sign = std::signbit(value) ? 1u << (f.total_bits() - 1) : 0;
  std::uint32_t low = 0, high = ((1u << f.exponent_bits) - 1) << f.mantissa_bits;  // 0 … infinity
  const double magnitude = std::fabs(value);
  while (high - low > 1) {
    const std::uint32_t middle = (low + high) / 2;
    (decode_float(middle, f) <= magnitude ? low : high) = middle;
  }
  if (decode_float(high, f) <= magnitude) return sign | high;
  const double below = decode_float(low, f);
  // Above the largest number the midpoint is where the next one would be.
  const double above =
      std::isinf(decode_float(high, f)) ? below + (below - decode_float(low - 1, f)) : decode_float(high, f);
  const double middle = (below + above) / 2;
  return sign | (magnitude > middle || (magnitude == middle && (low & 1) != 0) ? high : low);
}

TEST_CASE("packed pairs: the first source goes up, every rounding case") {
  CHECK(run_op32("cvt.rn.bf16x2.f32 %d, %a, %b;", {f32s({1.0f}), f32s({2.0f})}) == V32{0x3f804000});
  CHECK(run_op32("cvt.rn.f16x2.f32 %d, %a, %b;", {f32s({1.0f}), f32s({2.0f})}) == V32{0x3c004000});
  std::mt19937 random(5);
  std::vector<float> values;
  for (int i = 0; i < 4000; ++i) {
    std::uint32_t bits = random();
    if (i % 4 == 1) bits = (bits & 0x8fffffff) | 0x30000000;                            // the range of f16
    if (i % 4 == 2) bits = (bits & 0x8fffe000) | 0x30001000;                            // ties of f16
    if (i % 4 == 3) bits = (bits & 0xffff0000) | 0x00008000;                            // ties of bf16
    if (std::isnan(std::bit_cast<float>(bits))) bits = 0x477fe000 + random() % 0x4000;  // around 65504
    values.push_back(std::bit_cast<float>(bits));
  }
  const auto bf16 = run_op32("cvt.rn.bf16x2.f32 %d, %a, %a;", {f32s(values)});
  const auto f16 = run_op32("cvt.rn.f16x2.f32 %d, %a, %a;", {f32s(values)});
  const auto slow = run_op("cvt.rn.f16.f32 %d, %a;", 16, {f32s(values)});
  for (std::size_t i = 0; i < values.size(); ++i) {
    CAPTURE(values[i]);
    CHECK(bf16[i] == nearest(values[i], kBfloat16) * 0x10001);
    CHECK(f16[i] == nearest(values[i], kFloat16) * 0x10001);
    CHECK(slow[i] == nearest(values[i], kFloat16));
  }
  CHECK(run_op32("cvt.rn.bf16x2.f32 %d, %a, %b;", {f32s({NAN}), f32s({INFINITY})}) == V32{0x7fff7f80});
  CHECK(run_op32("cvt.rn.satfinite.f16x2.f32 %d, %a, %b;", {f32s({1e9f}), f32s({-INFINITY})}) ==
        V32{0x7bfffbff});
  CHECK(run_op32("cvt.rn.relu.bf16x2.f32 %d, %a, %b;", {f32s({-1}), f32s({1})}) == V32{0x00003f80});
  CHECK(run_op32("cvt.rz.bf16x2.f32 %d, %a, %b;", {u32s({0x3f80ffff}), u32s({0xbf80ffff})}) ==
        V32{0x3f80bf80});
}

TEST_CASE("widening is exact") {
  CHECK(run_op32("cvt.f32.bf16 %d, %a;", {u16s({0x3f80, 0x0001, 0x8000})}) ==
        V32{0x3f800000, 0x10000, 0x80000000});
  CHECK(run_f32("cvt.f32.f16 %d, %a;", {u16s({0x3c00, 0x0001, 0x7c00})}) ==
        std::vector<float>{1, 0x1p-24f, INFINITY});
}

TEST_CASE("8-bit pairs and tf32") {
  // e4m3: 448 = 7e, 1 = 38; e5m2: 1 = 3c
  CHECK(run_op("cvt.rn.satfinite.e4m3x2.f32 %d, %a, %b;", 16, {f32s({1e6f, 1}), f32s({1, NAN})}) ==
        V64{0x7e38, 0x387f});
  CHECK(run_op("cvt.rn.satfinite.e5m2x2.f32 %d, %a, %b;", 16, {f32s({-1}), f32s({0})}) == V64{0xbc00});
  CHECK(run_op32("cvt.rn.f16x2.e4m3x2 %d, %a;", {u16s({0x7e38})}) == V32{0x5f003c00});
  CHECK(run_op32("cvt.rna.tf32.f32 %d, %a;", {u32s({0x3f801000, 0x3f800fff})}) ==
        V32{0x3f802000, 0x3f800000});
}

TEST_CASE("scales of blocks: powers of two that round toward zero or up") {
  const Column a =
      f32s({1.0f, 1.5f, -3.0f, 0x1p127f, 0x1.8p127f, INFINITY, NAN, 0.0f, 0x1p-127f, 0x1.8p-127f});
  const Column b = f32s({2, 2, 2, 2, 2, 2, 2, 2, 2, 2});
  CHECK(run_op("cvt.rz.ue8m0x2.f32 %d, %a, %b;", 16, {a, b}) ==
        V64{0x7f80, 0x7f80, 0x8080, 0xfe80, 0xfe80, 0xff80, 0xff80, 0x0080, 0x0080, 0x0080});
  CHECK(run_op("cvt.rp.ue8m0x2.f32 %d, %a, %b;", 16, {a, b}) ==
        V64{0x7f80, 0x8080, 0x8180, 0xfe80, 0xff80, 0xff80, 0xff80, 0x0080, 0x0080, 0x0180});
  CHECK(run_op("cvt.rp.satfinite.ue8m0x2.f32 %d, %a, %b;", 16, {a, b}) ==
        V64{0x7f80, 0x8080, 0x8180, 0xfe80, 0xfe80, 0xfe80, 0xff80, 0x0080, 0x0080, 0x0180});
  CHECK(run_op("cvt.rp.satfinite.ue8m0x2.bf16x2 %d, %a;", 16, {u32s({0x3fc03f80, 0x7f800040})}) ==
        V64{0x807f, 0xfe00});
  CHECK(run_op32("cvt.rn.bf16x2.ue8m0x2 %d, %a;", {u16s({0x807f, 0xff00})}) == V32{0x40003f80, 0x7fff0040});
}

}  // namespace
}  // namespace jfa::simulator::test::convert_test
