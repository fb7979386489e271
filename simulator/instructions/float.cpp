// IEEE arithmetic: add, sub, mul, fma, div, rcp, sqrt, min, max, neg, abs on f32, f64, f32x2 and the 16-bit
// formats. Everything is correctly rounded, with one rounding: 24-bit operands are computed in double,
// rounded to odd.
#include <cfenv>
#include <cmath>
#include <map>

#include "simulator/float_format.h"
#include "simulator/instructions/fused.h"
#include "simulator/instructions/lanes.h"

namespace jfa::simulator {
namespace {

constexpr u32 kNanBits = 0x7fffffffu;  // the device's NaN

float to_float(double value, Rounding rounding) {
  if (rounding == Rounding::kNearest) return static_cast<float>(value);
  return std::bit_cast<float>(encode_float(value, kFloat32, rounding));
}

float saturate(float value) { return value > 0 ? std::fmin(value, 1.0f) : 0.0f; }  // NaN gives 0

// --- f32. Modifiers are template arguments, so that the plain forms are vector code.
enum Flags : int { kPlain = 0, kFtz = 1, kSat = 2 };

template <int flags>
float input(float value) {
  return (flags & kFtz) != 0 ? flush_to_zero(value) : value;
}
template <int flags>
float output(float value) {
  if ((flags & kFtz) != 0) value = flush_to_zero(value);
  if ((flags & kSat) != 0) return saturate(value);
  // Every NaN leaves as the canonical one.
  const u32 bits = std::bit_cast<u32>(value);
  return std::bit_cast<float>((bits & 0x7fffffffu) > 0x7f800000u ? kNanBits : bits);
}

// a·b + c for a directed mode: rounding down, a sum that cancels is −0.
template <Rounding rounding>
double sum_to_odd(double a, double b, double c) {
  const double sum = fma_round_to_odd(a, b, c);
  if (rounding == Rounding::kDown && sum == 0) return std::signbit(a * b) || std::signbit(c) ? -0.0 : 0.0;
  return sum;
}

// Operations on floats, each in the quick form for round to nearest, and in double (to odd) for the other
// modes.
struct Add {
  static float nearest(float a, float b) { return a + b; }
  template <Rounding rounding>
  static double odd(double a, double b) {
    return sum_to_odd<rounding>(a, 1.0, b);
  }
};
struct Sub {
  static float nearest(float a, float b) { return a - b; }
  template <Rounding rounding>
  static double odd(double a, double b) {
    return sum_to_odd<rounding>(a, 1.0, -b);
  }
};
struct Mul {
  static float nearest(float a, float b) { return a * b; }
  template <Rounding>
  static double odd(double a, double b) {
    return a * b;  // exact
  }
};
struct Div {
  static float nearest(float a, float b) { return a / b; }
  // The quotient of 24-bit numbers, with a sticky last bit.
  template <Rounding>
  static double odd(double a, double b) {
    const double q = a / b;
    if (!std::isfinite(q) || q == 0) return q;
    const double rest = std::fma(-q, b, a);
    if (rest == 0) return q;
    u64 bits = std::bit_cast<u64>(q);
    if ((bits & 1) == 0) bits += ((rest > 0) == (b > 0)) == (q > 0) ? 1 : ~u64{0};
    return std::bit_cast<double>(bits);
  }
};

template <class Op, Rounding rounding, int flags>
constexpr auto float_binary = [](float a, float b) {
  a = input<flags>(a), b = input<flags>(b);
  if constexpr (rounding == Rounding::kNearest)
    return output<flags>(Op::nearest(a, b));
  else
    return output<flags>(to_float(Op::template odd<rounding>(a, b), rounding));
};

template <Rounding rounding, int flags>
constexpr auto float_fma = [](float a, float b, float c) {
  a = input<flags>(a), b = input<flags>(b), c = input<flags>(c);
#ifdef __FMA__
  if constexpr (rounding == Rounding::kNearest) return output<flags>(std::fma(a, b, c));
#endif
  return output<flags>(to_float(sum_to_odd<rounding>(a, b, c), rounding));
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

template <Rounding rounding>
constexpr auto add_f64 = [](double a, double b) {
  if (std::isnan(b)) return quiet(b);
  volatile double x = a, y = b;
  return rounded(rounding, [&] { return x + y; });
};
template <Rounding rounding>
constexpr auto sub_f64 = [](double a, double b) {
  if (std::isnan(b)) return quiet(b);
  volatile double x = a, y = b;
  return rounded(rounding, [&] { return x - y; });
};
template <Rounding rounding>
constexpr auto mul_f64 = [](double a, double b) {
  if (std::isnan(b)) return quiet(b);
  volatile double x = a, y = b;
  return rounded(rounding, [&] { return x * y; });
};
template <Rounding rounding>
constexpr auto div_f64 = [](double a, double b) {
  volatile double x = a, y = b;
  return rounded(rounding, [&] { return x / y; });
};
template <Rounding rounding>
constexpr auto fma_f64 = [](double a, double b, double c) {
  if (std::isnan(b) || std::isnan(c)) return quiet(std::isnan(b) ? b : c);
  volatile double x = a, y = b, z = c;
  return rounded(rounding, [&] { return std::fma(x, y, z); });
};
template <Rounding rounding>
constexpr auto sqrt_f64 = [](double a) {
  volatile double x = a;
  return rounded(rounding, [&] { return std::sqrt(x); });
};
template <Rounding rounding>
constexpr auto rcp_f64 = [](double a) {
  volatile double x = a;
  return rounded(rounding, [&] { return 1.0 / x; });
};

// --- f32 square root and reciprocal
template <Rounding rounding, int flags>
constexpr auto sqrt_f32 = [](float a) {
  a = input<flags>(a);
  if constexpr (rounding == Rounding::kNearest) return output<flags>(std::sqrt(a));
  double root = std::sqrt(static_cast<double>(a));
  if (root > 0 && std::isfinite(root)) {
    const double rest = std::fma(-root, root, static_cast<double>(a));
    u64 bits = std::bit_cast<u64>(root);
    if (rest != 0 && (bits & 1) == 0) bits += rest > 0 ? 1 : ~u64{0};
    root = std::bit_cast<double>(bits);
  }
  return output<flags>(to_float(root, rounding));
};
template <Rounding rounding, int flags>
constexpr auto rcp_f32 = [](float a) { return float_binary<Div, rounding, flags>(1.0f, a); };

// --- min and max. −0 < +0. A NaN loses, unless .NaN; .abs and .xorsign.abs look at magnitudes.
enum MinMax : int { kGreatest = 1, kKeepNan = 2, kAbs = 4, kXorSign = 8, kFlush = 16 };

template <class T, int mode>
T pick(T a, T b) {
  if (std::isnan(a) || std::isnan(b)) {
    if ((mode & kKeepNan) != 0 || (std::isnan(a) && std::isnan(b))) {
      if constexpr (sizeof(T) == 4) return std::bit_cast<float>(kNanBits);
      return static_cast<T>(quiet(static_cast<double>(b)));
    }
    return std::isnan(a) ? b : a;
  }
  const bool a_first = a < b || (a == b && std::signbit(a));
  return a_first == ((mode & kGreatest) != 0) ? b : a;
}

template <class T, int mode>
constexpr auto min_max = [](T a, T b) {
  if constexpr (std::is_same_v<T, float>)
    if ((mode & kFlush) != 0) a = flush_to_zero(a), b = flush_to_zero(b);
  const bool sign = std::signbit(a) != std::signbit(b);
  if ((mode & (kAbs | kXorSign)) != 0) a = std::fabs(a), b = std::fabs(b);
  T result = pick<T, mode>(a, b);
  if ((mode & kXorSign) != 0 && !std::isnan(result)) result = sign ? -result : result;
  return result;
};
template <class T, int mode>
constexpr auto min_max3 = [](T a, T b, T c) { return min_max<T, mode>(min_max<T, mode>(a, b), c); };

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
constexpr auto neg_f32 = [](float a) { return output < flush ? kFtz : kPlain > (-a); };
template <bool flush>
constexpr auto abs_f32 = [](float a) { return output < flush ? kFtz : kPlain > (std::fabs(a)); };
constexpr auto copysign_f32 = [](float a, float b) { return std::copysign(b, a); };
constexpr auto copysign_f64 = [](double a, double b) { return std::copysign(b, a); };

// --- Two f32 in a 64-bit register.
template <auto f>
constexpr auto pair_binary = [](u64 a, u64 b) {
  const auto half = [](u64 v, int shift) { return std::bit_cast<float>(static_cast<u32>(v >> shift)); };
  return u64{std::bit_cast<u32>(f(half(a, 0), half(b, 0)))} |
         u64{std::bit_cast<u32>(f(half(a, 32), half(b, 32)))} << 32;
};
template <auto f>
constexpr auto pair_ternary = [](u64 a, u64 b, u64 c) {
  const auto half = [](u64 v, int shift) { return std::bit_cast<float>(static_cast<u32>(v >> shift)); };
  return u64{std::bit_cast<u32>(f(half(a, 0), half(b, 0), half(c, 0)))} |
         u64{std::bit_cast<u32>(f(half(a, 32), half(b, 32), half(c, 32)))} << 32;
};

// Fused multiply-add of whole warps by the processor's own instruction; T is float, or u64 for pairs.
template <class T, int flags>
Step fused(Warp& warp, const Instruction& in, LaneMask active) {
  static const FusedMultiplyAdd multiply_add = fused_multiply_add((flags & kFtz) != 0);
  if (active != kAllLanes) {
    constexpr auto lane = float_fma<Rounding::kNearest, flags>;
    if constexpr (sizeof(T) == 4)
      return ternary<float, float, lane>(warp, in, active);
    else
      return ternary<u64, u64, pair_ternary<lane>>(warp, in, active);
  }
  const auto floats = [&](int operand) {
    return reinterpret_cast<float*>(warp.lanes<T>(in.operand[static_cast<std::size_t>(operand)]));
  };
  multiply_add(floats(0), floats(1), floats(2), floats(3),
               kWarpSize * static_cast<int>(sizeof(T) / sizeof(float)));
  return Step::kNext;
}

template <class T, Rounding rounding, int flags>
void decode_fma(Decoder& d) {
  constexpr auto lane = float_fma<rounding, flags>;
  Handler handler = nullptr;
  if constexpr (sizeof(T) == 4)
    handler = ternary<float, float, lane>;
  else
    handler = ternary<u64, u64, pair_ternary<lane>>;
  if constexpr (rounding == Rounding::kNearest && (flags & kSat) == 0)
    if (fused_multiply_add(false) != nullptr) handler = fused<T, flags>;
  const Slot a = d.float_or_source<T>(1);
  const Slot b = d.float_or_source<T>(2);
  const Slot c = d.float_or_source<T>(3);
  const Slot result = d.destination(0, Lane<T>::kBits);
  d.emit(handler).operand = {result, a, b, c};
}

// --- registration helpers: one row for each modifier set, the handler chosen when decoding.

template <class T, template <Rounding> class Choice>
void choose_rounding(Decoder& d, T emit) {
  const std::string_view r = d.first_of({"rn", "rz", "rm", "rp"});
  if (r == "rz") return emit(Choice<Rounding::kZero>());
  if (r == "rm") return emit(Choice<Rounding::kDown>());
  if (r == "rp") return emit(Choice<Rounding::kUp>());
  emit(Choice<Rounding::kNearest>());
}

template <Rounding r>
struct RoundingTag {
  static constexpr Rounding value = r;
};

// Calls f with the rounding and the ftz/sat flags of the statement as compile-time constants.
template <class F>
void with_rounding(Decoder& d, F f) {
  choose_rounding<F, RoundingTag>(d, f);
}
template <class F>
void with_flags(Decoder& d, F f) {
  const bool ftz = d.has("ftz"), sat = d.has("sat");
  if (ftz && sat) return f(std::integral_constant<int, kFtz | kSat>());
  if (ftz) return f(std::integral_constant<int, kFtz>());
  if (sat) return f(std::integral_constant<int, kSat>());
  f(std::integral_constant<int, kPlain>());
}

template <class Op>
void decode_f32(Decoder& d) {
  with_rounding(d, [&](auto r) {
    with_flags(d, [&](auto flags) {
      decode_binary<float, float, float_binary<Op, decltype(r)::value, flags.value>>(d);
    });
  });
}

template <class Op>
void decode_f32x2(Decoder& d) {
  with_rounding(d, [&](auto r) {
    with_flags(d, [&](auto flags) {
      decode_binary<u64, u64, pair_binary<float_binary<Op, decltype(r)::value, flags.value>>>(d);
    });
  });
}

void register_f32(InstructionTable& t) {
  const std::string modifiers = " .(rn|rz|rm|rp)? .ftz? .sat? ";
  t.add("add" + modifiers + ".f32", decode_f32<Add>);
  t.add("sub" + modifiers + ".f32", decode_f32<Sub>);
  t.add("mul" + modifiers + ".f32", decode_f32<Mul>);
  t.add("div .(rn|rz|rm|rp) .ftz? .f32", decode_f32<Div>);
  for (const char* name : {"fma .(rn|rz|rm|rp) .ftz? .sat? .f32", "mad .(rn|rz|rm|rp) .ftz? .sat? .f32"})
    t.add(name, [](Decoder& d) {
      with_rounding(d, [&](auto r) {
        with_flags(d, [&](auto flags) { decode_fma<float, decltype(r)::value, flags.value>(d); });
      });
    });
  t.add("sqrt .(rn|rz|rm|rp) .ftz? .f32", [](Decoder& d) {
    with_rounding(d, [&](auto r) {
      with_flags(
          d, [&](auto flags) { decode_unary<float, float, sqrt_f32<decltype(r)::value, flags.value>>(d); });
    });
  });
  t.add("rcp .(rn|rz|rm|rp) .ftz? .f32", [](Decoder& d) {
    with_rounding(d, [&](auto r) {
      with_flags(
          d, [&](auto flags) { decode_unary<float, float, rcp_f32<decltype(r)::value, flags.value>>(d); });
    });
  });
  t.add("add .(rn|rz|rm|rp)? .ftz? .f32x2", decode_f32x2<Add>);
  t.add("sub .(rn|rz|rm|rp)? .ftz? .f32x2", decode_f32x2<Sub>);
  t.add("mul .(rn|rz|rm|rp)? .ftz? .f32x2", decode_f32x2<Mul>);
  t.add("fma .(rn|rz|rm|rp) .ftz? .f32x2", [](Decoder& d) {
    with_rounding(d, [&](auto r) {
      with_flags(d, [&](auto flags) { decode_fma<u64, decltype(r)::value, flags.value>(d); });
    });
  });
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

template <int mode>
void decode_min_max(Decoder& d) {
  if (d.count() == 4)
    decode_ternary<float, float, min_max3<float, mode>>(d);
  else
    decode_binary<float, float, min_max<float, mode>>(d);
}

template <bool greatest>
void register_min_max(InstructionTable& t, const std::string& name) {
  constexpr int base = greatest ? kGreatest : 0;
  t.add(name + ".f32", decode_quick_min_max<greatest, false>);
  t.add(name + ".ftz.f32", decode_quick_min_max<greatest, true>);
  t.add(name + ".NaN.f32", decode_min_max<base | kKeepNan>);
  t.add(name + ".ftz.NaN.f32", decode_min_max<base | kFlush | kKeepNan>);
  t.add(name + ".abs.f32", decode_min_max<base | kAbs>);
  t.add(name + ".ftz.abs.f32", decode_min_max<base | kFlush | kAbs>);
  t.add(name + ".NaN.abs.f32", decode_min_max<base | kKeepNan | kAbs>);
  t.add(name + ".ftz.NaN.abs.f32", decode_min_max<base | kFlush | kKeepNan | kAbs>);
  t.add(name + ".xorsign.abs.f32", decode_min_max<base | kXorSign>);
  t.add(name + ".ftz.xorsign.abs.f32", decode_min_max<base | kFlush | kXorSign>);
  t.add(name + ".NaN.xorsign.abs.f32", decode_min_max<base | kKeepNan | kXorSign>);
  t.add(name + ".ftz.NaN.xorsign.abs.f32", decode_min_max<base | kFlush | kKeepNan | kXorSign>);
  t.add(name + ".f64", decode_binary<double, double, min_max<double, base>>);
}

void register_f64(InstructionTable& t) {
  t.add("add .(rn|rz|rm|rp)? .f64", [](Decoder& d) {
    with_rounding(d, [&](auto r) { decode_binary<double, double, add_f64<decltype(r)::value>>(d); });
  });
  t.add("sub .(rn|rz|rm|rp)? .f64", [](Decoder& d) {
    with_rounding(d, [&](auto r) { decode_binary<double, double, sub_f64<decltype(r)::value>>(d); });
  });
  t.add("mul .(rn|rz|rm|rp)? .f64", [](Decoder& d) {
    with_rounding(d, [&](auto r) { decode_binary<double, double, mul_f64<decltype(r)::value>>(d); });
  });
  t.add("div .(rn|rz|rm|rp) .f64", [](Decoder& d) {
    with_rounding(d, [&](auto r) { decode_binary<double, double, div_f64<decltype(r)::value>>(d); });
  });
  for (const char* name : {"fma .(rn|rz|rm|rp) .f64", "mad .(rn|rz|rm|rp) .f64"})
    t.add(name, [](Decoder& d) {
      with_rounding(d, [&](auto r) { decode_ternary<double, double, fma_f64<decltype(r)::value>>(d); });
    });
  t.add("sqrt .(rn|rz|rm|rp) .f64", [](Decoder& d) {
    with_rounding(d, [&](auto r) { decode_unary<double, double, sqrt_f64<decltype(r)::value>>(d); });
  });
  t.add("rcp .(rn|rz|rm|rp) .f64", [](Decoder& d) {
    with_rounding(d, [&](auto r) { decode_unary<double, double, rcp_f64<decltype(r)::value>>(d); });
  });
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
