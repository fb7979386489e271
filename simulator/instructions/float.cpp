// IEEE arithmetic: add, sub, mul, fma, div, rcp, sqrt, min, max, neg, abs on f32, f64, f32x2 and the 16-bit
// formats. Everything is correctly rounded, with one rounding: 24-bit operands are computed in double,
// rounded to odd.
#include <cfenv>
#include <cmath>
#include <map>

#include "simulator/instructions/fused.h"
#include "simulator/instructions/lanes.h"
#include "simulator/machine/float_format.h"

namespace jfa::simulator {
namespace {

constexpr u32 kNanBits = 0x7fffffffu;  // the device's NaN

float to_float(double value, Rounding rounding) {
  if (rounding == Rounding::kNearest) return static_cast<float>(value);
  return std::bit_cast<float>(encode_float(value, kFloat32, rounding));
}

float saturate(float value) { return value > 0 ? std::fmin(value, 1.0f) : 0.0f; }  // NaN gives 0

// --- f32. Rounding to nearest has its modifiers as template arguments, so that the plain forms are vector
// code; the directed roundings, which are rare and call functions anyway, have them as data.
enum Flags : int { kPlain = 0, kFtz = 1, kSat = 2 };

struct Mode {
  Rounding rounding = Rounding::kNearest;
  int flags = kPlain;
};

inline float input(float value, int flags) { return (flags & kFtz) != 0 ? flush_to_zero(value) : value; }
inline float output(float value, int flags) {
  value = input(value, flags);
  if ((flags & kSat) != 0) return saturate(value);
  // Every NaN leaves as the canonical one.
  const u32 bits = std::bit_cast<u32>(value);
  return std::bit_cast<float>((bits & 0x7fffffffu) > 0x7f800000u ? kNanBits : bits);
}
float output(double value, const Mode& mode) { return output(to_float(value, mode.rounding), mode.flags); }

// a·b + c for a directed mode: rounding down, a sum that cancels is −0.
double sum_to_odd(double a, double b, double c, Rounding rounding) {
  const double sum = fma_round_to_odd(a, b, c);
  if (rounding == Rounding::kDown && sum == 0) return std::signbit(a * b) || std::signbit(c) ? -0.0 : 0.0;
  return sum;
}

// Operations on floats, each in the quick form for round to nearest, and in double (to odd) for the other
// modes.
struct Add {
  static float nearest(float a, float b) { return a + b; }
  static double odd(double a, double b, Rounding rounding) { return sum_to_odd(a, 1.0, b, rounding); }
};
struct Sub {
  static float nearest(float a, float b) { return a - b; }
  static double odd(double a, double b, Rounding rounding) { return sum_to_odd(a, 1.0, -b, rounding); }
};
struct Mul {
  static float nearest(float a, float b) { return a * b; }
  static double odd(double a, double b, Rounding) { return a * b; }  // exact
};
struct Div {
  static float nearest(float a, float b) { return a / b; }
  // The quotient of 24-bit numbers, with a sticky last bit.
  static double odd(double a, double b, Rounding) {
    const double q = a / b;
    if (!std::isfinite(q) || q == 0) return q;
    const double rest = std::fma(-q, b, a);
    if (rest == 0) return q;
    u64 bits = std::bit_cast<u64>(q);
    if ((bits & 1) == 0) bits += ((rest > 0) == (b > 0)) == (q > 0) ? 1 : ~u64{0};
    return std::bit_cast<double>(bits);
  }
};

template <class Op, int flags>
constexpr auto float_binary =
    [](float a, float b) { return output(Op::nearest(input(a, flags), input(b, flags)), flags); };
template <class Op>
constexpr auto directed_binary = [](const Mode& mode, float a, float b) {
  return output(Op::odd(input(a, mode.flags), input(b, mode.flags), mode.rounding), mode);
};

template <int flags>
constexpr auto float_fma = [](float a, float b, float c) {
  a = input(a, flags), b = input(b, flags), c = input(c, flags);
#ifdef __FMA__
  return output(std::fma(a, b, c), flags);
#else
  return output(static_cast<float>(fma_round_to_odd(a, b, c)), flags);
#endif
};
constexpr auto directed_fma = [](const Mode& mode, float a, float b, float c) {
  return output(sum_to_odd(input(a, mode.flags), input(b, mode.flags), input(c, mode.flags), mode.rounding),
                mode);
};

// --- f64: the processor's own rounding modes.
int fenv_mode(Rounding rounding) {
  switch (rounding) {
    case Rounding::kZero:
      return FE_TOWARDZERO;
    case Rounding::kDown:
      return FE_DOWNWARD;
    case Rounding::kUp:
      return FE_UPWARD;
    default:
      return FE_TONEAREST;
  }
}

class RoundingScope {
 public:
  explicit RoundingScope(Rounding rounding) : old_(std::fegetround()) {
    std::fesetround(fenv_mode(rounding));
  }
  ~RoundingScope() { std::fesetround(old_); }

 private:
  int old_;
};

template <class F>
double rounded(Rounding rounding, F f) {
  if (rounding == Rounding::kNearest) return f();
  const RoundingScope scope(rounding);
  volatile double result = f();
  return result;
}

// A NaN keeps its sign and payload and becomes quiet; of several the device prefers operand b, then c.
double quiet(double nan) { return std::bit_cast<double>(std::bit_cast<u64>(nan) | 0x0008000000000000ull); }

constexpr auto add_f64 = [](const Mode& mode, double a, double b) {
  if (std::isnan(b)) return quiet(b);
  volatile double x = a, y = b;
  return rounded(mode.rounding, [&] { return x + y; });
};
constexpr auto sub_f64 = [](const Mode& mode, double a, double b) {
  if (std::isnan(b)) return quiet(b);
  volatile double x = a, y = b;
  return rounded(mode.rounding, [&] { return x - y; });
};
constexpr auto mul_f64 = [](const Mode& mode, double a, double b) {
  if (std::isnan(b)) return quiet(b);
  volatile double x = a, y = b;
  return rounded(mode.rounding, [&] { return x * y; });
};
constexpr auto div_f64 = [](const Mode& mode, double a, double b) {
  volatile double x = a, y = b;
  return rounded(mode.rounding, [&] { return x / y; });
};
constexpr auto fma_f64 = [](const Mode& mode, double a, double b, double c) {
  if (std::isnan(b) || std::isnan(c)) return quiet(std::isnan(b) ? b : c);
  volatile double x = a, y = b, z = c;
  return rounded(mode.rounding, [&] { return std::fma(x, y, z); });
};
constexpr auto sqrt_f64 = [](const Mode& mode, double a) {
  volatile double x = a;
  return rounded(mode.rounding, [&] { return std::sqrt(x); });
};
constexpr auto rcp_f64 = [](const Mode& mode, double a) {
  volatile double x = a;
  return rounded(mode.rounding, [&] { return 1.0 / x; });
};

// --- f32 square root and reciprocal
template <int flags>
constexpr auto sqrt_f32 = [](float a) { return output(std::sqrt(input(a, flags)), flags); };
constexpr auto directed_sqrt = [](const Mode& mode, float a) {
  const double value = input(a, mode.flags);
  double root = std::sqrt(value);
  if (root > 0 && std::isfinite(root)) {
    const double rest = std::fma(-root, root, value);
    u64 bits = std::bit_cast<u64>(root);
    if (rest != 0 && (bits & 1) == 0) bits += rest > 0 ? 1 : ~u64{0};
    root = std::bit_cast<double>(bits);
  }
  return output(root, mode);
};
template <int flags>
constexpr auto rcp_f32 = [](float a) { return float_binary<Div, flags>(1.0f, a); };
constexpr auto directed_rcp = [](const Mode& mode, float a) { return directed_binary<Div>(mode, 1.0f, a); };

// --- min and max. −0 < +0. A NaN loses, unless .NaN; .abs and .xorsign.abs look at magnitudes.
enum MinMax : int { kGreatest = 1, kKeepNan = 2, kAbs = 4, kXorSign = 8, kFlush = 16 };

template <class T>
T pick(T a, T b, int flags) {
  if (std::isnan(a) || std::isnan(b)) {
    if ((flags & kKeepNan) != 0 || (std::isnan(a) && std::isnan(b))) {
      if constexpr (sizeof(T) == 4) return std::bit_cast<float>(kNanBits);
      return static_cast<T>(quiet(static_cast<double>(b)));
    }
    return std::isnan(a) ? b : a;
  }
  const bool a_first = a < b || (a == b && std::signbit(a));
  return a_first == ((flags & kGreatest) != 0) ? b : a;
}

template <class T>
constexpr auto min_max = [](const Mode& mode, T a, T b) {
  if constexpr (std::is_same_v<T, float>)
    if ((mode.flags & kFlush) != 0) a = flush_to_zero(a), b = flush_to_zero(b);
  const bool sign = std::signbit(a) != std::signbit(b);
  if ((mode.flags & (kAbs | kXorSign)) != 0) a = std::fabs(a), b = std::fabs(b);
  T result = pick(a, b, mode.flags);
  if ((mode.flags & kXorSign) != 0 && !std::isnan(result)) result = sign ? -result : result;
  return result;
};
constexpr auto min_max3 = [](const Mode& mode, float a, float b, float c) {
  return min_max<float>(mode, min_max<float>(mode, a, b), c);
};

// The usual case in four operations the compiler vectorises: no NaN left of the comparison.
template <bool greatest, bool flush>
constexpr auto quick_min_max = [](float a, float b) {
  if (flush) a = flush_to_zero(a), b = flush_to_zero(b);
  const u32 x = std::bit_cast<u32>(a), y = std::bit_cast<u32>(b);
  // As integers that order like the floats do, −0 below +0.
  const s32 i = static_cast<s32>(x ^ (static_cast<u32>(static_cast<s32>(x) >> 31) >> 1));
  const s32 j = static_cast<s32>(y ^ (static_cast<u32>(static_cast<s32>(y) >> 31) >> 1));
  const bool x_nan = (x & 0x7fffffffu) > 0x7f800000u, y_nan = (y & 0x7fffffffu) > 0x7f800000u;
  const u32 chosen = (i < j) == greatest ? y : x;
  const u32 number = x_nan ? y : y_nan ? x : chosen;
  return std::bit_cast<float>(x_nan && y_nan ? kNanBits : number);
};
template <bool greatest, bool flush>
constexpr auto quick_min_max3 = [](float a, float b, float c) {
  return quick_min_max<greatest, flush>(quick_min_max<greatest, flush>(a, b), c);
};

template <bool flush>
constexpr auto neg_f32 = [](float a) { return output(-a, flush ? kFtz : kPlain); };
template <bool flush>
constexpr auto abs_f32 = [](float a) { return output(std::fabs(a), flush ? kFtz : kPlain); };
constexpr auto copysign_f32 = [](float a, float b) { return std::copysign(b, a); };
constexpr auto copysign_f64 = [](double a, double b) { return std::copysign(b, a); };

// --- Two f32 in a 64-bit register.
inline float half_of(u64 pair, int shift) { return std::bit_cast<float>(static_cast<u32>(pair >> shift)); }
inline u64 pair_of(float low, float high) {
  return u64{std::bit_cast<u32>(low)} | u64{std::bit_cast<u32>(high)} << 32;
}
template <auto f>
constexpr auto on_pairs =
    [](auto... pairs) { return pair_of(f(half_of(pairs, 0)...), f(half_of(pairs, 32)...)); };
template <auto f>
constexpr auto directed_on_pairs = [](const Mode& mode, auto... pairs) {
  return pair_of(f(mode, half_of(pairs, 0)...), f(mode, half_of(pairs, 32)...));
};

// Fused multiply-add of whole warps by the processor's own instruction; T is float, or u64 for pairs.
template <class T, int flags>
Step fused(Warp& warp, const Instruction& in, LaneMask active) {
  static const FusedMultiplyAdd multiply_add = fused_multiply_add((flags & kFtz) != 0);
  if (active != kAllLanes) {
    constexpr auto lane = float_fma<flags>;
    if constexpr (sizeof(T) == 4)
      return ternary<float, float, lane>(warp, in, active);
    else
      return ternary<u64, u64, on_pairs<lane>>(warp, in, active);
  }
  const auto floats = [&](int operand) {
    return reinterpret_cast<float*>(warp.lanes<T>(in.operand[static_cast<std::size_t>(operand)]));
  };
  multiply_add(floats(0), floats(1), floats(2), floats(3),
               kWarpSize * static_cast<int>(sizeof(T) / sizeof(float)));
  return Step::kNext;
}

template <class T, int flags>
void decode_nearest_fma(Decoder& d) {
  constexpr auto lane = float_fma<flags>;
  Handler handler = nullptr;
  if constexpr (sizeof(T) == 4)
    handler = ternary<float, float, lane>;
  else
    handler = ternary<u64, u64, on_pairs<lane>>;
  if constexpr ((flags & kSat) == 0)
    if (fused_multiply_add(false) != nullptr) handler = fused<T, flags>;
  const Slot a = d.float_or_source<T>(1);
  const Slot b = d.float_or_source<T>(2);
  const Slot c = d.float_or_source<T>(3);
  const Slot result = d.destination(0, Lane<T>::kBits);
  d.emit(handler).operand = {result, a, b, c};
}

// --- Statements whose mode is data: small[0] the rounding, small[1] the flags. f(mode, sources...).
template <class T, auto f, int sources>
Step with_mode(Warp& warp, const Instruction& in, LaneMask active) {
  const Mode mode{static_cast<Rounding>(in.small[0]), in.small[1]};
  auto* d = Lane<T>::at(warp, in.operand[0]);
  const auto* a = Lane<T>::at(warp, in.operand[1]);
  const auto* b = Lane<T>::at(warp, in.operand[sources > 1 ? 2 : 1]);
  const auto* c = Lane<T>::at(warp, in.operand[sources > 2 ? 3 : 1]);
  for (int i = 0; i < kWarpSize; ++i) {
    if (!(active >> i & 1)) continue;
    if constexpr (sources == 1)
      d[i] = Lane<T>::put(f(mode, Lane<T>::get(a[i])));
    else if constexpr (sources == 2)
      d[i] = Lane<T>::put(f(mode, Lane<T>::get(a[i]), Lane<T>::get(b[i])));
    else
      d[i] = Lane<T>::put(f(mode, Lane<T>::get(a[i]), Lane<T>::get(b[i]), Lane<T>::get(c[i])));
  }
  return Step::kNext;
}

Mode mode_of(Decoder& d) {
  const std::string_view r = d.first_of({"rn", "rz", "rm", "rp"});
  return {r == "rz"   ? Rounding::kZero
          : r == "rm" ? Rounding::kDown
          : r == "rp" ? Rounding::kUp
                      : Rounding::kNearest,
          (d.has("ftz") ? kFtz : kPlain) | (d.has("sat") ? kSat : kPlain)};
}

template <class T, auto f, int sources>
void decode_with(Decoder& d, const Mode& mode) {
  Slot s[3] = {kNoSlot, kNoSlot, kNoSlot};
  for (int k = 0; k < sources; ++k) s[k] = d.float_or_source<T>(k + 1);
  const Slot result = d.destination(0, Lane<T>::kBits);
  Instruction& in = d.emit(with_mode<T, f, sources>);
  in.operand = {result, s[0], s[1], s[2]};
  in.small[0] = static_cast<u8>(mode.rounding);
  in.small[1] = static_cast<u8>(mode.flags);
}

template <class T, auto f, int sources>
void decode_with_mode(Decoder& d) {
  decode_with<T, f, sources>(d, mode_of(d));
}

// Calls nearest with the statement's flags as a compile-time constant, or decodes the directed form.
template <class T, auto directed, int sources, class Nearest>
void choose(Decoder& d, Nearest nearest) {
  const Mode mode = mode_of(d);
  if (mode.rounding != Rounding::kNearest) return decode_with<T, directed, sources>(d, mode);
  switch (mode.flags) {
    case kPlain:
      return nearest(std::integral_constant<int, kPlain>());
    case kFtz:
      return nearest(std::integral_constant<int, kFtz>());
    case kSat:
      return nearest(std::integral_constant<int, kSat>());
    default:
      return nearest(std::integral_constant<int, kFtz | kSat>());
  }
}

template <class Op>
void decode_f32(Decoder& d) {
  choose<float, directed_binary<Op>, 2>(
      d, [&](auto flags) { decode_binary<float, float, float_binary<Op, flags.value>>(d); });
}

template <class Op>
void decode_f32x2(Decoder& d) {
  choose<u64, directed_on_pairs<directed_binary<Op>>, 2>(
      d, [&](auto flags) { decode_binary<u64, u64, on_pairs<float_binary<Op, flags.value>>>(d); });
}

void register_f32(InstructionTable& t) {
  const std::string modifiers = " .(rn|rz|rm|rp)? .ftz? .sat? ";
  t.add("add" + modifiers + ".f32", decode_f32<Add>);
  t.add("sub" + modifiers + ".f32", decode_f32<Sub>);
  t.add("mul" + modifiers + ".f32", decode_f32<Mul>);
  t.add("div .(rn|rz|rm|rp) .ftz? .f32", decode_f32<Div>);
  for (const char* name : {"fma .(rn|rz|rm|rp) .ftz? .sat? .f32", "mad .(rn|rz|rm|rp) .ftz? .sat? .f32"})
    t.add(name, [](Decoder& d) {
      choose<float, directed_fma, 3>(d, [&](auto flags) { decode_nearest_fma<float, flags.value>(d); });
    });
  t.add("sqrt .(rn|rz|rm|rp) .ftz? .f32", [](Decoder& d) {
    choose<float, directed_sqrt, 1>(
        d, [&](auto flags) { decode_unary<float, float, sqrt_f32<flags.value>>(d); });
  });
  t.add("rcp .(rn|rz|rm|rp) .ftz? .f32", [](Decoder& d) {
    choose<float, directed_rcp, 1>(d,
                                   [&](auto flags) { decode_unary<float, float, rcp_f32<flags.value>>(d); });
  });
  t.set_need(TargetNeed::kVersion100);
  t.add("add .(rn|rz|rm|rp)? .ftz? .f32x2", decode_f32x2<Add>);
  t.add("sub .(rn|rz|rm|rp)? .ftz? .f32x2", decode_f32x2<Sub>);
  t.add("mul .(rn|rz|rm|rp)? .ftz? .f32x2", decode_f32x2<Mul>);
  t.add("fma .(rn|rz|rm|rp) .ftz? .f32x2", [](Decoder& d) {
    choose<u64, directed_on_pairs<directed_fma>, 3>(
        d, [&](auto flags) { decode_nearest_fma<u64, flags.value>(d); });
  });
  t.set_need(TargetNeed::kNothing);
  t.add("neg.f32", decode_unary<float, float, neg_f32<false>>);
  t.add("neg.ftz.f32", decode_unary<float, float, neg_f32<true>>);
  t.add("abs.f32", decode_unary<float, float, abs_f32<false>>);
  t.add("abs.ftz.f32", decode_unary<float, float, abs_f32<true>>);
  t.add("copysign.f32", decode_binary<float, float, copysign_f32>);
}

template <bool greatest, bool flush>
void decode_quick_min_max(Decoder& d) {
  if (d.count() == 4)
    decode_ternary<float, float, quick_min_max3<greatest, flush>>(d);
  else
    decode_binary<float, float, quick_min_max<greatest, flush>>(d);
}

// flags: MinMax
DecodeFunction decode_min_max(int flags) {
  const Mode mode{Rounding::kNearest, flags};
  return [mode](Decoder& d) {
    if (d.count() == 4)
      decode_with<float, min_max3, 3>(d, mode);
    else
      decode_with<float, min_max<float>, 2>(d, mode);
  };
}

template <bool greatest>
void register_min_max(InstructionTable& t, const std::string& name) {
  constexpr int base = greatest ? kGreatest : 0;
  t.add(name + ".f32", decode_quick_min_max<greatest, false>);
  t.add(name + ".ftz.f32", decode_quick_min_max<greatest, true>);
  t.add(name + ".NaN.f32", decode_min_max(base | kKeepNan));
  t.add(name + ".ftz.NaN.f32", decode_min_max(base | kFlush | kKeepNan));
  t.add(name + ".abs.f32", decode_min_max(base | kAbs));
  t.add(name + ".ftz.abs.f32", decode_min_max(base | kFlush | kAbs));
  t.add(name + ".NaN.abs.f32", decode_min_max(base | kKeepNan | kAbs));
  t.add(name + ".ftz.NaN.abs.f32", decode_min_max(base | kFlush | kKeepNan | kAbs));
  t.add(name + ".xorsign.abs.f32", decode_min_max(base | kXorSign));
  t.add(name + ".ftz.xorsign.abs.f32", decode_min_max(base | kFlush | kXorSign));
  t.add(name + ".NaN.xorsign.abs.f32", decode_min_max(base | kKeepNan | kXorSign));
  t.add(name + ".ftz.NaN.xorsign.abs.f32", decode_min_max(base | kFlush | kKeepNan | kXorSign));
  t.add(name + ".f64", [](Decoder& d) {
    decode_with<double, min_max<double>, 2>(d, {Rounding::kNearest, base});
  });
}

void register_f64(InstructionTable& t) {
  t.add("add .(rn|rz|rm|rp)? .f64", decode_with_mode<double, add_f64, 2>);
  t.add("sub .(rn|rz|rm|rp)? .f64", decode_with_mode<double, sub_f64, 2>);
  t.add("mul .(rn|rz|rm|rp)? .f64", decode_with_mode<double, mul_f64, 2>);
  t.add("div .(rn|rz|rm|rp) .f64", decode_with_mode<double, div_f64, 2>);
  for (const char* name : {"fma .(rn|rz|rm|rp) .f64", "mad .(rn|rz|rm|rp) .f64"})
    t.add(name, decode_with_mode<double, fma_f64, 3>);
  t.add("sqrt .(rn|rz|rm|rp) .f64", decode_with_mode<double, sqrt_f64, 1>);
  t.add("rcp .(rn|rz|rm|rp) .f64", decode_with_mode<double, rcp_f64, 1>);
  t.add("neg.f64", decode_unary<double, double, [](double a) { return std::isnan(a) ? quiet(a) : -a; }>);
  t.add("abs.f64",
        decode_unary<double, double, [](double a) { return std::isnan(a) ? quiet(a) : std::fabs(a); }>);
  t.add("copysign.f64", decode_binary<double, double, copysign_f64>);
}

}  // namespace

void register_float(InstructionTable& t) {
  register_f32(t);
  register_f64(t);
  register_min_max<false>(t, "min");
  register_min_max<true>(t, "max");
  register_half(t);
}

}  // namespace jfa::simulator
