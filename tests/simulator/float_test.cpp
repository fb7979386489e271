// Floating point against the host's correctly rounded operations and against values the manual states.
#include <doctest/doctest.h>

#include <cfenv>
#include <cmath>
#include <random>

#include "simulator/machine/float_format.h"
#include "tests/simulator/one_op.h"

namespace jfa::simulator::test::float_test {
namespace {

using V32 = std::vector<std::uint32_t>;
using V64 = std::vector<std::uint64_t>;

constexpr std::uint32_t kNan = 0x7fffffff, kInf = 0x7f800000, kNegative = 0x80000000, kOne = 0x3f800000;
constexpr std::uint32_t kDenormal = 0x00000001, kLargestDenormal = 0x007fffff;

// Bit patterns that meet every exponent, with many special ones.
std::vector<float> random_floats(std::size_t count, unsigned seed) {
  std::mt19937 random(seed);
  const std::uint32_t special[] = {0,         kNegative,        kInf,       kInf | kNegative, kNan, kOne,
                                   kDenormal, kLargestDenormal, 0x00800000, 0x7f7fffff};
  std::vector<float> values;
  for (std::size_t i = 0; i < count; ++i) {
    std::uint32_t bits = random();
    if (i % 8 == 0) bits = special[random() % std::size(special)];
    if (i % 8 == 1) bits = (bits & 0x80ffffff) | 0x3f000000;  // of similar size, so that sums cancel
    values.push_back(std::bit_cast<float>(bits));
  }
  return values;
}

void check_same(const std::vector<float>& got, const std::vector<float>& want) {
  REQUIRE(got.size() == want.size());
  for (std::size_t i = 0; i < got.size(); ++i) {
    CAPTURE(i);
    if (std::isnan(want[i]))
      CHECK(bits_of(got[i]) == kNan);
    else
      CHECK(bits_of(got[i]) == bits_of(want[i]));
  }
}

struct Mode {
  const char* name;
  int fenv;
};
constexpr Mode kModes[] = {
    {"rn", FE_TONEAREST}, {"rz", FE_TOWARDZERO}, {"rm", FE_DOWNWARD}, {"rp", FE_UPWARD}};

template <class F>
std::vector<float> on_host(int fenv, std::size_t count, F f) {
  std::vector<float> result;
  std::fesetround(fenv);
  for (std::size_t i = 0; i < count; ++i) {
    volatile float r = f(i);
    const float value = r;
    result.push_back(value);
  }
  std::fesetround(FE_TONEAREST);
  return result;
}

TEST_CASE("f32 arithmetic rounds once, in every mode") {
  constexpr std::size_t kCount = 4000;
  const auto a = random_floats(kCount, 1), b = random_floats(kCount, 2), c = random_floats(kCount, 3);
  const auto at = [](const std::vector<float>& v, std::size_t i) {
    volatile float x = v[i];
    return static_cast<float>(x);
  };
  for (const Mode& mode : kModes) {
    CAPTURE(mode.name);
    const std::string m = std::string(".") + mode.name;
    check_same(run_f32("add" + m + ".f32 %d, %a, %b;", {f32s(a), f32s(b)}),
               on_host(mode.fenv, kCount, [&](std::size_t i) { return at(a, i) + at(b, i); }));
    check_same(run_f32("sub" + m + ".f32 %d, %a, %b;", {f32s(a), f32s(b)}),
               on_host(mode.fenv, kCount, [&](std::size_t i) { return at(a, i) - at(b, i); }));
    check_same(run_f32("mul" + m + ".f32 %d, %a, %b;", {f32s(a), f32s(b)}),
               on_host(mode.fenv, kCount, [&](std::size_t i) { return at(a, i) * at(b, i); }));
    check_same(run_f32("div" + m + ".f32 %d, %a, %b;", {f32s(a), f32s(b)}),
               on_host(mode.fenv, kCount, [&](std::size_t i) { return at(a, i) / at(b, i); }));
    check_same(run_f32("sqrt" + m + ".f32 %d, %a;", {f32s(a)}),
               on_host(mode.fenv, kCount, [&](std::size_t i) { return std::sqrt(at(a, i)); }));
    check_same(run_f32("rcp" + m + ".f32 %d, %a;", {f32s(a)}),
               on_host(mode.fenv, kCount, [&](std::size_t i) { return 1.0f / at(a, i); }));
    check_same(
        run_f32("fma" + m + ".f32 %d, %a, %b, %c;", {f32s(a), f32s(b), f32s(c)}),
        on_host(mode.fenv, kCount, [&](std::size_t i) { return std::fma(at(a, i), at(b, i), at(c, i)); }));
  }
}

TEST_CASE("fma has one rounding where two would differ") {
  // a·b = 1 + 2^−11 + 2^−24 exactly; rounding it first would lose the last bit.
  const float a = 1.0f + 0x1p-12f, c = -(1.0f + 0x1p-11f);
  CHECK(run_f32("fma.rn.f32 %d, %a, %a, %b;", {f32s({a}), f32s({c})})[0] == 0x1p-24f);
  // Round to odd must not be confused by a tie that only the low part breaks.
  const float x = 1.0f + 0x1p-23f, tiny = 0x1p-60f;
  CHECK(run_f32("fma.rn.f32 %d, %a, %b, %c;", {f32s({x}), f32s({0.5f + 0x1p-24f}), f32s({tiny})})[0] ==
        std::fma(x, 0.5f + 0x1p-24f, tiny));
}

TEST_CASE(".ftz flushes inputs and results to zeros of their sign") {
  const auto denormal = std::bit_cast<float>(kLargestDenormal);
  CHECK(run_op32("add.ftz.f32 %d, %a, %b;", {f32s({denormal, -denormal}), f32s({denormal, -0.0f})}) ==
        V32{0, kNegative});
  CHECK(run_op32("mul.ftz.f32 %d, %a, %b;", {f32s({0x1p-100f, -0x1p-100f}), f32s({0x1p-40f, 0x1p-40f})}) ==
        V32{0, kNegative});
  CHECK(run_op32("mul.f32 %d, %a, %b;", {f32s({0x1p-100f}), f32s({0x1p-40f})}) == V32{1u << 9});
  CHECK(run_op32("fma.rn.ftz.f32 %d, %a, %b, %c;", {f32s({denormal}), f32s({0x1p100f}), f32s({0})}) ==
        V32{0});
  CHECK(run_op("setp.eq.ftz.f32 %p, %a, %b;", 1, {f32s({denormal}), f32s({0})}) == V64{1});
  CHECK(run_op("setp.eq.f32 %p, %a, %b;", 1, {f32s({denormal}), f32s({0})}) == V64{0});
}

TEST_CASE(".sat clamps to [0, 1] and turns NaN to 0") {
  CHECK(run_f32("add.sat.f32 %d, %a, %b;", {f32s({2, -1, 0.25f, NAN}), f32s({0, 0, 0.25f, 0})}) ==
        std::vector<float>{1, 0, 0.5f, 0});
}

TEST_CASE("min and max order zeros and lose NaNs, unless told to keep them") {
  const Column a = f32s({-0.0f, NAN, 1, NAN, -3}), b = f32s({0.0f, 2, NAN, NAN, 2});
  CHECK(run_op32("min.f32 %d, %a, %b;", {a, b}) == V32{kNegative, bits_of(2), bits_of(1), kNan, bits_of(-3)});
  CHECK(run_op32("max.f32 %d, %a, %b;", {a, b}) == V32{0, bits_of(2), bits_of(1), kNan, bits_of(2)});
  CHECK(run_op32("max.NaN.f32 %d, %a, %b;", {a, b}) == V32{0, kNan, kNan, kNan, bits_of(2)});
  CHECK(run_op32("max.abs.f32 %d, %a, %b;", {a, b}) == V32{0, bits_of(2), bits_of(1), kNan, bits_of(3)});
  CHECK(run_op32("max.xorsign.abs.f32 %d, %a, %b;", {f32s({-3, -3}), f32s({2, -2})}) ==
        V32{bits_of(-3), bits_of(3)});
  CHECK(run_op32("max.f32 %d, %a, %b, %c;", {f32s({1, NAN}), f32s({5, NAN}), f32s({3, 2})}) ==
        V32{bits_of(5), bits_of(2)});
  CHECK(run_op32("min.f32 %d, %a, %b, %c;", {f32s({1}), f32s({5}), f32s({-INFINITY})}) ==
        V32{bits_of(-INFINITY)});
}

TEST_CASE("comparisons with NaN: ordered are false, unordered true") {
  const std::vector<Column> in = {f32s({NAN, 1, 1, 2}), f32s({1, NAN, 1, 1})};
  CHECK(run_op("setp.eq.f32 %p, %a, %b;", 1, in) == V64{0, 0, 1, 0});
  CHECK(run_op("setp.ne.f32 %p, %a, %b;", 1, in) == V64{0, 0, 0, 1});
  CHECK(run_op("setp.neu.f32 %p, %a, %b;", 1, in) == V64{1, 1, 0, 1});
  CHECK(run_op("setp.equ.f32 %p, %a, %b;", 1, in) == V64{1, 1, 1, 0});
  CHECK(run_op("setp.lt.f32 %p, %a, %b;", 1, in) == V64{0, 0, 0, 0});
  CHECK(run_op("setp.ltu.f32 %p, %a, %b;", 1, in) == V64{1, 1, 0, 0});
  CHECK(run_op("setp.leu.f32 %p, %a, %b;", 1, in) == V64{1, 1, 1, 0});
  CHECK(run_op("setp.gtu.f32 %p, %a, %b;", 1, in) == V64{1, 1, 0, 1});
  CHECK(run_op("setp.geu.f32 %p, %a, %b;", 1, in) == V64{1, 1, 1, 1});
  CHECK(run_op("setp.num.f32 %p, %a, %b;", 1, in) == V64{0, 0, 1, 1});
  CHECK(run_op("setp.nan.f32 %p, %a, %b;", 1, in) == V64{1, 1, 0, 0});
}

TEST_CASE("pairs of f32 are two independent operations") {
  const auto pair = [](float low, float high) { return std::uint64_t{bits_of(high)} << 32 | bits_of(low); };
  CHECK(run_op("add.rn.f32x2 %d, %a, %b;", 64, {u64s({pair(1, 2)}), u64s({pair(10, 20)})}) ==
        V64{pair(11, 22)});
  CHECK(run_op("fma.rn.ftz.f32x2 %d, %a, %b, %c;", 64,
               {u64s({pair(2, -3)}), u64s({pair(4, 5)}), u64s({pair(1, 1)})}) == V64{pair(9, -14)});
  CHECK(run_op("mul.rz.f32x2 %d, %a, %b;", 64, {u64s({pair(3, 7)}), u64s({pair(3, -7)})}) ==
        V64{pair(9, -49)});
}

TEST_CASE("approximations stay within the documented errors") {
  const auto relative = [](double got, double want) { return std::fabs(got - want) / std::fabs(want); };
  std::vector<float> x;
  for (int i = 0; i < 2000; ++i) x.push_back(-125.0f + 0.125f * static_cast<float>(i));
  const auto ex2 = run_f32("ex2.approx.ftz.f32 %d, %a;", {f32s(x)});
  for (std::size_t i = 0; i < x.size(); ++i)
    CHECK(relative(ex2[i], std::exp2(static_cast<double>(x[i]))) <= 0x1p-23);
  CHECK(run_op32("ex2.approx.ftz.f32 %d, %a;", {f32s({-INFINITY, INFINITY, NAN, -200, 128, -0.0f})}) ==
        V32{0, kInf, kNan, 0, kInf, kOne});
  CHECK(run_op32("ex2.approx.f32 %d, %a;", {f32s({-149})}) == V32{1});
  CHECK(run_op32("lg2.approx.ftz.f32 %d, %a;", {f32s({8, 0, -1, INFINITY, -0.0f})}) ==
        V32{bits_of(3), kInf | kNegative, kNan, kInf, kInf | kNegative});
  CHECK(run_op32("rcp.approx.ftz.f32 %d, %a;", {f32s({0.0f, -0.0f, INFINITY, 4, 0x1p127f})}) ==
        V32{kInf, kInf | kNegative, 0, bits_of(0.25f), 0});
  CHECK(run_op32("rsqrt.approx.f32 %d, %a;", {f32s({4, 0, -1, -0.0f})}) ==
        V32{bits_of(0.5f), kInf, kNan, kInf | kNegative});
  CHECK(run_op32("div.approx.f32 %d, %a, %b;", {f32s({6, 1, INFINITY}), f32s({3, 0x1.8p126f, 0x1.8p126f})}) ==
        V32{bits_of(2), 0, kNan});
}

TEST_CASE("16-bit arithmetic") {
  // f16: 1 = 3c00, 2 = 4000, 65504 = 7bff, smallest subnormal 0001
  CHECK(run_op("add.f16 %d, %a, %b;", 16, {u16s({0x3c00, 0x7bff, 0x0001}), u16s({0x3c00, 0x7bff, 0x0001})}) ==
        V64{0x4000, 0x7c00, 0x0002});
  CHECK(run_op("mul.ftz.f16 %d, %a, %b;", 16, {u16s({0x0001}), u16s({0x4000})}) == V64{0});
  CHECK(run_op32("fma.rn.bf16x2 %d, %a, %b, %c;",
                 {u32s({0x40003f80}), u32s({0x40404000}), u32s({0x3f803f80})}) == V32{0x40e04040});
  CHECK(run_op32("fma.rn.relu.f16x2 %d, %a, %b, %c;", {u32s({0xbc003c00}), u32s({0x3c003c00}), u32s({0})}) ==
        V32{0x00003c00});
  CHECK(run_op32("max.bf16x2 %d, %a, %b;", {u32s({0x3f807fc0}), u32s({0x40003f80})}) == V32{0x40003f80});
  CHECK(run_op32("max.NaN.bf16x2 %d, %a, %b;", {u32s({0x3f807fc0}), u32s({0x40003f80})}) == V32{0x40007fff});
  CHECK(run_f32("fma.rn.f32.bf16 %d, %a, %b, %c;", {u16s({0x4000}), u16s({0x4040}), f32s({1})})[0] == 7.0f);
}

TEST_CASE("f64") {
  CHECK(run_f64("fma.rn.f64 %d, %a, %b, %c;",
                {f64s({1 + 0x1p-30}), f64s({1 + 0x1p-30}), f64s({-1 - 0x1p-29})})[0] == 0x1p-60);
  CHECK(run_f64("add.rp.f64 %d, %a, %b;", {f64s({1}), f64s({0x1p-80})})[0] == 1 + 0x1p-52);
  CHECK(run_f64("add.rz.f64 %d, %a, %b;", {f64s({1}), f64s({0x1p-80})})[0] == 1);
  CHECK(run_f64("max.f64 %d, %a, %b;", {f64s({-0.0}), f64s({0.0})})[0] == 0);
  CHECK(run_f64("div.rn.f64 %d, %a, %b;", {f64s({1}), f64s({3})})[0] == 1.0 / 3.0);
}

TEST_CASE("formats: every value of a narrow one survives the way to double and back") {
  const FloatFormat formats[] = {kFloat16, kBfloat16, kE5m2, kE4m3, kE3m2, kE2m3, kE2m1};
  for (const FloatFormat& f : formats)
    for (std::uint32_t bits = 0; bits < 1u << f.total_bits(); ++bits) {
      const double value = decode_float(bits, f);
      if (std::isnan(value)) continue;
      CAPTURE(bits);
      REQUIRE(encode_float(value, f, Rounding::kNearest) == bits);
      REQUIRE(encode_float(value, f, Rounding::kZero) == bits);
    }
}

}  // namespace
}  // namespace jfa::simulator::test::float_test
