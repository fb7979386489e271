// The approximations of the special-function unit: ex2, lg2, rcp, rsqrt, sqrt, sin, cos, tanh, div. The
// device's bits are not public; these are the exact results rounded to nearest, hence within the documented
// error bounds.
#include <cmath>

#include "simulator/instructions/lanes.h"
#include "simulator/machine/float_format.h"

namespace jfa::simulator {
namespace {

// f of a flushed input, the result flushed if ftz.
template <auto f, bool ftz>
constexpr auto approximate = [](float a) {
  if (ftz) a = flush_to_zero(a);
  float r = static_cast<float>(f(static_cast<double>(a)));
  if (ftz) r = flush_to_zero(r);
  return std::isnan(r) ? std::bit_cast<float>(0x7fffffffu) : r;
};

// 2^x in double with a polynomial of degree 8 on [−½, ½]: relative error below 2^−33, and vector code.
constexpr auto exp2 = [](double x) {
  const double clamped = x < -200.0 ? -200.0 : x > 200.0 ? 200.0 : x;
  const double shifted = clamped + 0x1.8p52;  // the integer nearest, in the low bits
  const u64 integer = std::bit_cast<u64>(shifted);
  const double r = clamped - (shifted - 0x1.8p52);
  double p = 1.3215486790144307e-6;
  p = p * r + 1.525273380405984e-5;
  p = p * r + 1.540353039338161e-4;
  p = p * r + 1.333355814642844e-3;
  p = p * r + 9.618129107628477e-3;
  p = p * r + 5.550410866482158e-2;
  p = p * r + 2.402265069591007e-1;
  p = p * r + 6.931471805599453e-1;
  p = p * r + 1.0;
  const double scaled = std::bit_cast<double>(std::bit_cast<u64>(p) + (integer << 52));
  return x != x ? x : x < -200.0 ? 0.0 : x > 200.0 ? static_cast<double>(INFINITY) : scaled;
};
constexpr auto log2 = [](double x) { return std::log2(x); };
constexpr auto reciprocal = [](double x) { return 1.0 / x; };
constexpr auto reciprocal_sqrt = [](double x) { return 1.0 / std::sqrt(x); };
constexpr auto square_root = [](double x) { return std::sqrt(x); };
constexpr auto sine = [](double x) { return std::sin(x); };
constexpr auto cosine = [](double x) { return std::cos(x); };
constexpr auto hyperbolic_tangent = [](double x) { return std::tanh(x); };

template <bool ftz>
constexpr auto divide = [](float a, float b) {
  if (ftz) a = flush_to_zero(a), b = flush_to_zero(b);
  float r = a / b;
  if (ftz) r = flush_to_zero(r);
  return std::isnan(r) ? std::bit_cast<float>(0x7fffffffu) : r;
};
// div.approx computes a · (1/b), and gives 0 for 2^126 < |b| < 2^128.
template <bool ftz>
constexpr auto divide_approx = [](float a, float b) {
  const float magnitude = std::fabs(b);
  if (magnitude > 0x1p126f && !std::isinf(b) && !std::isnan(a) && !std::isnan(b))
    return std::isinf(a) ? std::bit_cast<float>(0x7fffffffu)
                         : std::copysign(0.0f, a) * std::copysign(1.0f, b);
  return divide<ftz>(a, b);
};

template <auto f>
void register_function(InstructionTable& t, const std::string& name) {
  t.add(name + ".approx.f32", decode_unary<float, float, approximate<f, false>>);
  t.add(name + ".approx.ftz.f32", decode_unary<float, float, approximate<f, true>>);
}

// Halves: small[0] of them.
template <const FloatFormat& format, auto f>
Step half_function(Warp& warp, const Instruction& in, LaneMask active) {
  auto* d = warp.lanes<u32>(in.operand[0]);
  const auto* a = warp.lanes<u32>(in.operand[1]);
  for (int i = 0; i < kWarpSize; ++i) {
    if (!(active >> i & 1)) continue;
    u32 result = 0;
    for (int h = 0; h < in.small[0]; ++h) {
      double x = decode_float(a[i] >> 16 * h & 0xffff, format);
      const double least_normal = std::ldexp(1.0, 1 - format.bias());
      if (in.small[1] != 0 && std::fabs(x) < least_normal) x = std::copysign(0.0, x);
      u32 bits = encode_float(f(x), format, Rounding::kNearest);
      if (in.small[1] != 0 && std::fabs(decode_float(bits, format)) < least_normal) bits &= 0x8000;
      result |= bits << 16 * h;
    }
    d[i] = result;
  }
  return Step::kNext;
}

template <const FloatFormat& format, auto f>
void decode_half_function(Decoder& d) {
  const bool pair = d.has("f16x2") || d.has("bf16x2");
  const Slot a = d.source(1, pair ? 32 : 16);
  Instruction& in = d.emit(half_function<format, f>);
  in.operand = {d.destination(0, pair ? 32 : 16), a};
  in.small[0] = pair ? 2 : 1;
  in.small[1] = d.has("ftz");
}

}  // namespace

void register_approximate(InstructionTable& t) {
  register_function<exp2>(t, "ex2");
  register_function<log2>(t, "lg2");
  register_function<reciprocal>(t, "rcp");
  register_function<reciprocal_sqrt>(t, "rsqrt");
  register_function<square_root>(t, "sqrt");
  register_function<sine>(t, "sin");
  register_function<cosine>(t, "cos");
  t.add("tanh.approx.f32", decode_unary<float, float, approximate<hyperbolic_tangent, false>>);
  t.add("rcp.approx.ftz.f64", decode_unary<double, double, reciprocal>);
  t.add("rsqrt.approx.ftz?.f64", decode_unary<double, double, reciprocal_sqrt>);
  t.add("div.approx.f32", decode_binary<float, float, divide_approx<false>>);
  t.add("div.approx.ftz.f32", decode_binary<float, float, divide_approx<true>>);
  t.add("div.full.f32", decode_binary<float, float, divide<false>>);
  t.add("div.full.ftz.f32", decode_binary<float, float, divide<true>>);
  t.add("ex2.approx.(f16|f16x2)", decode_half_function<kFloat16, exp2>);
  t.add("ex2.approx.ftz.(bf16|bf16x2)", decode_half_function<kBfloat16, exp2>);
  t.add("tanh.approx.(f16|f16x2)", decode_half_function<kFloat16, hyperbolic_tangent>);
  t.add("tanh.approx.(bf16|bf16x2)", decode_half_function<kBfloat16, hyperbolic_tangent>);
}

}  // namespace jfa::simulator
