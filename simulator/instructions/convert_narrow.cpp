// cvt to and from f16, bf16, tf32, and the 8-, 6- and 4-bit formats in pairs.
#include <cmath>
#include <limits>

#include "simulator/instructions/lanes.h"
#include "simulator/machine/float_format.h"

namespace jfa::simulator {
namespace {

// One narrowing of one value, with everything the modifiers say.
struct Narrowing {
  const FloatFormat* format = &kBfloat16;
  Rounding rounding = Rounding::kNearest;
  bool relu = false;           // negative numbers become +0
  bool saturate = false;       // .satfinite: infinities and overflow become the largest number
  bool unit = false;           // .sat: clamp to [0, 1]
  bool flush = false;          // .ftz of an f32 source
  int shift = 0;               // tf32: its bits lie at the top of 32
  bool truncates_nan = false;  // it keeps its sign and the upper bits of its payload

  u32 operator()(double value) const {
    if (unit) value = value > 0 ? std::fmin(value, 1.0) : 0.0;
    if (relu && value < 0) value = 0.0;
    const u32 bits = encode_float(value, *format, rounding, saturate);
    const u32 sign = 1u << (format->total_bits() - 1);
    return (relu && bits == sign ? 0 : bits) << shift;
  }

  u32 operator()(float value, u32 bits) const {
    return truncates_nan && std::isnan(value) ? bits >> shift << shift
                                              : (*this)(flush ? flush_to_zero(value) : value);
  }
  u32 operator()(double value, u64 bits) const {
    if (!truncates_nan || !std::isnan(value)) return (*this)(value);
    const int mantissa_bits = format->mantissa_bits;
    const u64 quiet = ((2ull << format->exponent_bits) - 1) << (mantissa_bits - 1);
    const u64 payload = bits >> (52 - mantissa_bits) & ((1ull << mantissa_bits) - 1);
    return static_cast<u32>(bits >> 63 << (format->total_bits() - 1) | quiet | payload);
  }
};

double flushed(float value, bool flush) { return flush ? flush_to_zero(value) : value; }

// f32 or f64 to one narrow value.
template <class S>
Step narrow_one(Warp& warp, const Instruction& in, LaneMask active) {
  const auto& n = in.data<Narrowing>();
  auto* d = warp.lanes<u32>(in.operand[0]);
  const auto* a = Lane<S>::at(warp, in.operand[1]);
  for (int i = 0; i < kWarpSize; ++i) {
    if (!(active >> i & 1)) continue;
    d[i] = n(Lane<S>::get(a[i]), a[i]);
  }
  return Step::kNext;
}

// Two f32 to a pair: the first source goes to the upper half.
Step narrow_two(Warp& warp, const Instruction& in, LaneMask active) {
  const auto& n = in.data<Narrowing>();
  auto* d = warp.lanes<u32>(in.operand[0]);
  const auto* a = warp.lanes<u32>(in.operand[1]);
  const auto* b = warp.lanes<u32>(in.operand[2]);
  const int width = n.format->total_bits() <= 4 ? 4 : n.format->total_bits() <= 8 ? 8 : 16;
  for (int i = 0; i < kWarpSize; ++i)
    if (active >> i & 1)
      d[i] = n(flushed(std::bit_cast<float>(a[i]), n.flush)) << width |
             n(flushed(std::bit_cast<float>(b[i]), n.flush));
  return Step::kNext;
}

// The pairs that attention lives on, in integer code the compiler vectorises.
constexpr auto bf16_nearest = [](u32 bits) {
  const u32 rounded = (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
  return (bits & 0x7fffffff) > 0x7f800000 ? 0x7fffu : rounded;
};
constexpr auto bf16x2_nearest = [](u32 a, u32 b) { return bf16_nearest(a) << 16 | bf16_nearest(b); };

constexpr auto f16_nearest = [](u32 bits) {
  const u32 sign = bits >> 16 & 0x8000, magnitude = bits & 0x7fffffff;
  // Subnormal results: adding ½ makes the processor round at 2^−24.
  const u32 small = std::bit_cast<u32>(std::bit_cast<float>(magnitude) + 0.5f) - 0x3f000000;
  const u32 normal = (magnitude - 0x38000000 + 0xfff + (magnitude >> 13 & 1)) >> 13;
  const u32 finite = magnitude < 0x38800000 ? small : normal;
  const u32 number =
      magnitude >= 0x47800000 ? 0x7c00 : finite;  // 65536 and up; 65520…65536 carry there by themselves
  return magnitude > 0x7f800000 ? 0x7fffu : sign | number;
};
constexpr auto f16x2_nearest = [](u32 a, u32 b) { return f16_nearest(a) << 16 | f16_nearest(b); };

Rounding rounding_of(Decoder& d) {
  const std::string_view r = d.first_of({"rn", "rz", "rm", "rp", "rna"});
  if (r == "rz") return Rounding::kZero;
  if (r == "rm") return Rounding::kDown;
  if (r == "rp") return Rounding::kUp;
  if (r == "rna") return Rounding::kNearestAway;
  return Rounding::kNearest;
}

Narrowing narrowing_of(Decoder& d, const FloatFormat& format) {
  Narrowing n;
  n.format = &format;
  n.rounding = rounding_of(d);
  n.relu = d.has("relu");
  n.saturate = d.has("satfinite");
  n.unit = d.has("sat");
  n.flush = d.has("ftz");
  n.truncates_nan = n.rounding == Rounding::kNearestAway || (d.has("f64") && !n.unit);
  return n;
}

template <class S, const FloatFormat& format, int bits = 16, int shift = 0>
void decode_narrow_one(Decoder& d) {
  Narrowing n = narrowing_of(d, format);
  n.shift = shift;
  const Slot a = d.float_or_source<S>(1);
  const Narrowing* data = d.attach(n);
  Instruction& in = d.emit(narrow_one<S>);
  in.operand = {d.destination(0, bits), a};
  in.extra = data;
}

template <const FloatFormat& format, int bits>
void decode_narrow_two(Decoder& d) {
  const Narrowing n = narrowing_of(d, format);
  const Slot a = d.float_source(1, 32), b = d.float_source(2, 32);
  const bool quick = n.rounding == Rounding::kNearest && !n.relu && !n.saturate && !n.flush;
  const Narrowing* data = d.attach(n);
  Handler handler = narrow_two;
  if (quick && &format == &kBfloat16) handler = binary<u32, u32, bf16x2_nearest>;
  if (quick && &format == &kFloat16) handler = binary<u32, u32, f16x2_nearest>;
  Instruction& in = d.emit(handler);
  in.operand = {d.destination(0, bits), a, b};
  in.extra = data;
}

// --- widening: exact
template <class D, const FloatFormat& format, int flags>
constexpr auto widen_narrow = [](u32 a) {
  double value = decode_float(a & 0xffff, format);
  if ((flags & 1) != 0) value = flush_to_zero(static_cast<float>(value));
  if ((flags & 2) != 0) value = value > 0 ? std::fmin(value, 1.0) : 0.0;
  if (std::isnan(value)) {
    if (sizeof(D) == 4 || flags != 0) return static_cast<D>(std::bit_cast<float>(0x7fffffffu));
    const u64 payload = a & ((1u << format.mantissa_bits) - 1);
    return static_cast<D>(std::bit_cast<double>(u64{a >> 15 & 1} << 63 | 0x7ff8000000000000 |
                                                payload << (52 - format.mantissa_bits)));
  }
  return static_cast<D>(value);
};
template <class D, const FloatFormat& format>
void decode_widen(Decoder& d) {
  const Slot a = d.source(1, 16);
  const int flags = (d.has("ftz") ? 1 : 0) | (d.has("sat") ? 2 : 0);
  const Handler handlers[] = {
      unary<D, u32, widen_narrow<D, format, 0>>, unary<D, u32, widen_narrow<D, format, 1>>,
      unary<D, u32, widen_narrow<D, format, 2>>, unary<D, u32, widen_narrow<D, format, 3>>};
  d.emit(handlers[flags]).operand = {d.destination(0, Lane<D>::kBits), a};
}

// bf16 is the upper half of an f32.
constexpr auto widen_bf16 = [](u32 a) { return a << 16; };

// Pairs of narrow numbers to f16x2 or bf16x2.
template <const FloatFormat& from, const FloatFormat& to>
Step widen_pair(Warp& warp, const Instruction& in, LaneMask active) {
  auto* d = warp.lanes<u32>(in.operand[0]);
  const auto* a = warp.lanes<u32>(in.operand[1]);
  const int width = from.total_bits() <= 4 ? 4 : 8;
  const u32 mask = (1u << from.total_bits()) - 1;
  for (int i = 0; i < kWarpSize; ++i) {
    if (!(active >> i & 1)) continue;
    u32 result = 0;
    for (int h = 0; h < 2; ++h) {
      double value = decode_float(a[i] >> width * h & mask, from);
      if (in.small[0] != 0 && value <= 0) value = 0.0;  // .relu
      result |= encode_float(value, to, Rounding::kNearest) << 16 * h;
    }
    d[i] = result;
  }
  return Step::kNext;
}

template <const FloatFormat& from, const FloatFormat& to, int source_bits>
void decode_widen_pair(Decoder& d) {
  const Slot a = d.source(1, source_bits);
  Instruction& in = d.emit(widen_pair<from, to>);
  in.operand = {d.destination(0, 32), a};
  in.small[0] = d.has("relu");
}

// f16x2 to pairs of 8 bits.
template <const FloatFormat& from>
Step narrow_pair(Warp& warp, const Instruction& in, LaneMask active) {
  const auto& n = in.data<Narrowing>();
  auto* d = warp.lanes<u32>(in.operand[0]);
  const auto* a = warp.lanes<u32>(in.operand[1]);
  for (int i = 0; i < kWarpSize; ++i)
    if (active >> i & 1) d[i] = n(decode_float(a[i] & 0xffff, from)) | n(decode_float(a[i] >> 16, from)) << 8;
  return Step::kNext;
}

// --- f16 and bf16 with integers
template <class I, const FloatFormat& format>
Step half_to_integer(Warp& warp, const Instruction& in, LaneMask active) {
  auto* d = Lane<I>::at(warp, in.operand[0]);
  const auto* a = warp.lanes<u32>(in.operand[1]);
  const auto rounding = static_cast<Rounding>(in.immediate);
  for (int i = 0; i < kWarpSize; ++i) {
    if (!(active >> i & 1)) continue;
    const double value = decode_float(a[i] & 0xffff, format);
    double r = rounding == Rounding::kZero   ? std::trunc(value)
               : rounding == Rounding::kDown ? std::floor(value)
               : rounding == Rounding::kUp   ? std::ceil(value)
                                             : std::nearbyint(value);
    I result;
    if (std::isnan(value))
      result = sizeof(I) == 8 ? static_cast<I>(u64{1} << 63) : I{0};
    else if (r <= static_cast<double>(std::numeric_limits<I>::min()))
      result = std::numeric_limits<I>::min();
    else if (r >= static_cast<double>(std::numeric_limits<I>::max()))
      result = std::numeric_limits<I>::max();
    else
      result = static_cast<I>(r);
    d[i] = Lane<I>::put(result);
  }
  return Step::kNext;
}

template <class I, const FloatFormat& format>
Step integer_to_half(Warp& warp, const Instruction& in, LaneMask active) {
  auto* d = warp.lanes<u32>(in.operand[0]);
  const auto* a = Lane<I>::at(warp, in.operand[1]);
  const auto rounding = static_cast<Rounding>(in.immediate);
  for (int i = 0; i < kWarpSize; ++i) {
    if (!(active >> i & 1)) continue;
    // 64-bit integers: the upper 53 bits and a sticky one decide, as 11 are kept.
    const I value = Lane<I>::get(a[i]);
    const bool negative = std::is_signed_v<I> && value < 0;
    u64 magnitude = negative ? 0 - static_cast<u64>(static_cast<s64>(value)) : static_cast<u64>(value);
    if (magnitude >> 52 != 0) magnitude = (magnitude & ~u64{0xfff}) | ((magnitude & 0xfff) != 0 ? 0x800 : 0);
    const double v = static_cast<double>(magnitude);
    d[i] = encode_float(negative ? -v : v, format, rounding);
  }
  return Step::kNext;
}

template <class I, const FloatFormat& format>
void register_half_integer(InstructionTable& t, const std::string& integer, const std::string& half) {
  t.add("cvt .(rni|rzi|rmi|rpi) .sat? " + integer + half, [](Decoder& d) {
    const Slot a = d.source(1, 16);
    Instruction& in = d.emit(half_to_integer<I, format>);
    in.operand = {d.destination(0, Lane<I>::kBits, std::is_signed_v<I>), a};
    const std::string_view r = d.modifier(0);
    in.immediate = static_cast<s64>(r == "rzi"   ? Rounding::kZero
                                    : r == "rmi" ? Rounding::kDown
                                    : r == "rpi" ? Rounding::kUp
                                                 : Rounding::kNearest);
  });
  t.add("cvt .(rn|rz|rm|rp) " + half + integer, [](Decoder& d) {
    const Slot a = d.source(1, Lane<I>::kBits);
    Instruction& in = d.emit(integer_to_half<I, format>);
    in.operand = {d.destination(0, 16), a};
    in.immediate = static_cast<s64>(rounding_of(d));
  });
}

template <const FloatFormat& format>
void register_half_integers(InstructionTable& t, const std::string& half) {
  register_half_integer<u8, format>(t, ".u8", half);
  register_half_integer<s8, format>(t, ".s8", half);
  register_half_integer<u16, format>(t, ".u16", half);
  register_half_integer<s16, format>(t, ".s16", half);
  register_half_integer<u32, format>(t, ".u32", half);
  register_half_integer<s32, format>(t, ".s32", half);
  register_half_integer<u64, format>(t, ".u64", half);
  register_half_integer<s64, format>(t, ".s64", half);
}

// Between the 16-bit formats, and to integer values in place.
template <const FloatFormat& from>
Step half_to_half(Warp& warp, const Instruction& in, LaneMask active) {
  const auto& n = in.data<Narrowing>();
  auto* d = warp.lanes<u32>(in.operand[0]);
  const auto* a = warp.lanes<u32>(in.operand[1]);
  for (int i = 0; i < kWarpSize; ++i) {
    if (!(active >> i & 1)) continue;
    double value = decode_float(a[i] & 0xffff, from);
    if (in.small[0] != 0)
      value = n.rounding == Rounding::kZero   ? std::trunc(value)
              : n.rounding == Rounding::kDown ? std::floor(value)
              : n.rounding == Rounding::kUp   ? std::ceil(value)
                                              : std::nearbyint(value);
    d[i] = n(value);
  }
  return Step::kNext;
}

template <const FloatFormat& from, const FloatFormat& to>
void decode_half_to_half(Decoder& d) {
  Narrowing n = narrowing_of(d, to);
  const std::string_view whole = d.first_of({"rni", "rzi", "rmi", "rpi"});
  if (whole == "rzi") n.rounding = Rounding::kZero;
  if (whole == "rmi") n.rounding = Rounding::kDown;
  if (whole == "rpi") n.rounding = Rounding::kUp;
  const Slot a = d.source(1, 16);
  const Narrowing* data = d.attach(n);
  Instruction& in = d.emit(half_to_half<from>);
  in.operand = {d.destination(0, 16), a};
  in.extra = data;
  in.small[0] = !whole.empty();
}

template <const FloatFormat& format, int bits>
void register_tiny(InstructionTable& t, const std::string& type) {
  t.add("cvt .rn .satfinite .relu? " + type + ".f32", decode_narrow_two<format, bits>);
  t.add("cvt .rn .relu? .f16x2" + type, decode_widen_pair<format, kFloat16, bits>);
}

}  // namespace

void register_convert_narrow(InstructionTable& t) {
  const std::string narrow = "cvt .(rn|rz|rm|rp) .ftz? .relu? .(sat|satfinite)? ";
  t.add(narrow + ".f16.f32", decode_narrow_one<float, kFloat16>);
  t.add(narrow + ".bf16.f32", decode_narrow_one<float, kBfloat16>);
  t.add("cvt .(rn|rz|rm|rp) .sat? .f16.f64", decode_narrow_one<double, kFloat16>);
  t.add("cvt .(rn|rz|rm|rp) .sat? .bf16.f64", decode_narrow_one<double, kBfloat16>);
  t.add("cvt .(rna|rn|rz) .relu? .satfinite? .tf32.f32", decode_narrow_one<float, kTensorFloat32, 32, 13>);
  t.add("cvt .(rn|rz) .relu? .satfinite? .f16x2.f32", decode_narrow_two<kFloat16, 32>);
  t.add("cvt .(rn|rz) .relu? .satfinite? .bf16x2.f32", decode_narrow_two<kBfloat16, 32>);
  t.add("cvt .ftz? .sat? .f32.f16", decode_widen<float, kFloat16>);
  t.add("cvt .ftz .sat? .f32.bf16", decode_widen<float, kBfloat16>);
  t.add("cvt .sat .f32.bf16", decode_widen<float, kBfloat16>);
  t.add("cvt .f32.bf16", [](Decoder& d) {
    const Slot a = d.source(1, 16);
    d.emit(unary<u32, u32, widen_bf16>).operand = {d.destination(0, 32), a};
  });
  t.add("cvt .sat? .f64.f16", decode_widen<double, kFloat16>);
  t.add("cvt .sat? .f64.bf16", decode_widen<double, kBfloat16>);
  const std::string between = "cvt .(rn|rz|rm|rp|rni|rzi|rmi|rpi)? .ftz? .relu? .(sat|satfinite)? ";
  t.add(between + ".f16.f16", decode_half_to_half<kFloat16, kFloat16>);
  t.add(between + ".f16.bf16", decode_half_to_half<kBfloat16, kFloat16>);
  t.add(between + ".bf16.f16", decode_half_to_half<kFloat16, kBfloat16>);
  t.add(between + ".bf16.bf16", decode_half_to_half<kBfloat16, kBfloat16>);
  register_half_integers<kFloat16>(t, ".f16");
  register_half_integers<kBfloat16>(t, ".bf16");
  register_tiny<kE4m3, 16>(t, ".e4m3x2");
  register_tiny<kE5m2, 16>(t, ".e5m2x2");
  t.set_need(TargetNeed::kBlackwell);
  register_tiny<kE2m3, 16>(t, ".e2m3x2");
  register_tiny<kE3m2, 16>(t, ".e3m2x2");
  register_tiny<kE2m1, 8>(t, ".e2m1x2");
  t.set_need(TargetNeed::kNothing);
  const auto from_halves = [&](const std::string& type, const FloatFormat& format) {
    t.add("cvt .rn .satfinite .relu? " + type + ".f16x2", [&format](Decoder& d) {
      const Narrowing n = narrowing_of(d, format);
      const Slot a = d.source(1, 32);
      const Narrowing* data = d.attach(n);
      Instruction& in = d.emit(narrow_pair<kFloat16>);
      in.operand = {d.destination(0, 16), a};
      in.extra = data;
    });
  };
  from_halves(".e4m3x2", kE4m3);
  from_halves(".e5m2x2", kE5m2);
}

}  // namespace jfa::simulator
