// Arithmetic on f16, bf16 and pairs of them: in double, rounded once.
#include <cmath>

#include "simulator/instructions/lanes.h"
#include "simulator/machine/float_format.h"

namespace jfa::simulator {
namespace {

struct Modifiers {
  bool ftz = false, sat = false, relu = false;
};

template <const FloatFormat& format>
double load(u32 bits, const Modifiers& m) {
  const double value = decode_float(bits & 0xffff, format);
  const double least_normal = std::ldexp(1.0, 1 - format.bias());
  return m.ftz && std::fabs(value) < least_normal ? std::copysign(0.0, value) : value;
}

template <const FloatFormat& format>
u32 finish(double value, const Modifiers& m) {
  if (m.sat) value = value > 0 ? std::fmin(value, 1.0) : 0.0;
  u32 bits = encode_float(value, format, Rounding::kNearest);
  if (m.ftz && std::fabs(decode_float(bits, format)) < std::ldexp(1.0, 1 - format.bias())) bits &= 0x8000;
  if (m.relu && !std::isnan(value) && (bits & 0x8000) != 0) bits = 0;
  return bits;
}

using Function = double (*)(double a, double b, double c);

double add(double a, double b, double) { return fma_round_to_odd(a, 1.0, b); }
double sub(double a, double b, double) { return fma_round_to_odd(a, 1.0, -b); }
double mul(double a, double b, double) { return a * b; }
double fma(double a, double b, double c) { return fma_round_to_odd(a, b, c); }

double extreme(double a, double b, bool greatest, bool keep_nan) {
  if (std::isnan(a) || std::isnan(b)) {
    if (keep_nan || (std::isnan(a) && std::isnan(b))) return NAN;
    return std::isnan(a) ? b : a;
  }
  const bool a_first = a < b || (a == b && std::signbit(a));
  return a_first == greatest ? b : a;
}
double min(double a, double b, double) { return extreme(a, b, false, false); }
double max(double a, double b, double) { return extreme(a, b, true, false); }
double min_nan(double a, double b, double) { return extreme(a, b, false, true); }
double max_nan(double a, double b, double) { return extreme(a, b, true, true); }

// One handler for all: small[0] halves, small[1] modifiers, immediate the function.
struct HalfOperation {
  Function function = nullptr;
  Modifiers modifiers;
  int sources = 2;
  int halves = 1;
};

template <const FloatFormat& format>
Step half_arithmetic(Warp& warp, const Instruction& in, LaneMask active) {
  const auto& o = in.data<HalfOperation>();
  auto* d = warp.lanes<u32>(in.operand[0]);
  const u32* s[3];
  for (int k = 0; k < 3; ++k)
    s[k] = warp.lanes<u32>(in.operand[static_cast<std::size_t>(k < o.sources ? k + 1 : 1)]);
  for (int i = 0; i < kWarpSize; ++i) {
    if (!(active >> i & 1)) continue;
    u32 result = 0;
    for (int h = 0; h < o.halves; ++h) {
      double v[3];
      for (int k = 0; k < 3; ++k) v[k] = load<format>(s[k][i] >> 16 * h, o.modifiers);
      result |= finish<format>(o.function(v[0], v[1], v[2]), o.modifiers) << 16 * h;
    }
    d[i] = result;
  }
  return Step::kNext;
}

template <const FloatFormat& format>
void decode_half(Decoder& d, Function function, int sources) {
  HalfOperation o;
  o.function = function;
  o.sources = sources;
  o.modifiers = {d.has("ftz"), d.has("sat"), d.has("relu")};
  const bool pair = d.has("f16x2") || d.has("bf16x2");
  o.halves = pair ? 2 : 1;
  const int bits = pair ? 32 : 16;
  Slot s[3] = {kNoSlot, kNoSlot, kNoSlot};
  for (int k = 0; k < sources; ++k) s[k] = d.source(k + 1, bits);
  const HalfOperation* data = d.attach(o);
  Instruction& in = d.emit(half_arithmetic<format>);
  in.operand = {d.destination(0, bits), s[0], s[1], s[2]};
  in.extra = data;
}

// Signs are bit operations; a NaN becomes the canonical one. `infinity`: the format's.
template <u32 infinity, u32 keep, u32 flip>
constexpr auto sign_bits = [](u32 a) {
  const u32 low = (a & 0x7fff) > infinity ? 0x7fffu : ((a & keep) ^ flip) & 0xffff;
  const u32 high = (a >> 16 & 0x7fff) > infinity ? 0x7fffu : ((a >> 16 & keep) ^ flip) & 0xffff;
  return high << 16 | low;
};
template <u32 infinity, u32 keep, u32 flip>
void decode_sign(Decoder& d) {
  const bool pair = d.has("f16x2") || d.has("bf16x2");
  const Slot a = d.source(1, pair ? 32 : 16);
  d.emit(unary<u32, u32, sign_bits<infinity, keep, flip>>).operand = {d.destination(0, pair ? 32 : 16), a};
}

// add, sub, fma of a 16-bit operand and f32: the 16-bit ones are widened exactly.
template <const FloatFormat& format>
Step mixed(Warp& warp, const Instruction& in, LaneMask active) {
  const auto& o = in.data<HalfOperation>();
  auto* d = warp.lanes<float>(in.operand[0]);
  const auto* a = warp.lanes<u32>(in.operand[1]);
  const auto* b = warp.lanes<u32>(in.operand[2]);
  const auto* c = warp.lanes<float>(in.operand[3]);
  for (int i = 0; i < kWarpSize; ++i) {
    if (!(active >> i & 1)) continue;
    const double x = decode_float(a[i] & 0xffff, format);
    const double y = o.sources == 3 ? decode_float(b[i] & 0xffff, format) : 1.0;
    const double z = o.function == sub ? -static_cast<double>(c[i]) : static_cast<double>(c[i]);
    float r = static_cast<float>(fma_round_to_odd(x, y, z));
    if (o.modifiers.sat) r = r > 0 ? std::fmin(r, 1.0f) : 0.0f;
    d[i] = r;
  }
  return Step::kNext;
}

template <const FloatFormat& format>
void decode_mixed(Decoder& d, Function function, int sources) {
  HalfOperation o;
  o.function = function;
  o.sources = sources;
  o.modifiers.sat = d.has("sat");
  const Slot a = d.source(1, 16), b = sources == 3 ? d.source(2, 16) : a, c = d.float_source(sources, 32);
  const HalfOperation* data = d.attach(o);
  Instruction& in = d.emit(mixed<format>);
  in.operand = {d.destination(0, 32), a, b, c};
  in.extra = data;
}

template <const FloatFormat& format>
void register_format(InstructionTable& t, const std::string& types, const std::string& one) {
  const auto row = [&](const std::string& pattern, Function f, int sources) {
    t.add(pattern + types, [=](Decoder& d) { decode_half<format>(d, f, sources); });
  };
  row("add .rn? .ftz? .sat? ", add, 2);
  row("sub .rn? .ftz? .sat? ", sub, 2);
  row("mul .rn? .ftz? .sat? ", mul, 2);
  row("fma .rn .ftz? .(sat|relu)? ", fma, 3);
  row("min .ftz? ", min, 2);
  row("max .ftz? ", max, 2);
  row("min .ftz? .NaN ", min_nan, 2);
  row("max .ftz? .NaN ", max_nan, 2);
  t.add("add .rn? .sat? .f32" + one, [](Decoder& d) { decode_mixed<format>(d, add, 2); });
  t.add("sub .rn? .sat? .f32" + one, [](Decoder& d) { decode_mixed<format>(d, sub, 2); });
  t.add("fma .rn .sat? .f32" + one, [](Decoder& d) { decode_mixed<format>(d, fma, 3); });
}

}  // namespace

void register_half(InstructionTable& t) {
  register_format<kFloat16>(t, ".(f16|f16x2)", ".f16");
  register_format<kBfloat16>(t, ".(bf16|bf16x2)", ".bf16");
  t.add("neg.(f16|f16x2)", decode_sign<0x7c00, 0xffff, 0x8000>);
  t.add("abs.(f16|f16x2)", decode_sign<0x7c00, 0x7fff, 0>);
  t.add("neg.(bf16|bf16x2)", decode_sign<0x7f80, 0xffff, 0x8000>);
  t.add("abs.(bf16|bf16x2)", decode_sign<0x7f80, 0x7fff, 0>);
}

}  // namespace jfa::simulator
