// cvt between integers and floats of 32 and 64 bits; the narrow formats are in convert_narrow.cpp.
#include <algorithm>
#include <cmath>
#include <limits>

#include "simulator/instructions/lanes.h"
#include "simulator/machine/float_format.h"

namespace jfa::simulator {
namespace {

// --- integer to integer: truncation or extension; .sat, which is rare, clamps to the destination's range.
template <class D, class S>
constexpr auto convert_integer = [](S a) { return static_cast<D>(a); };

template <class D, class S>
Step clamp_integer(Warp& warp, const Instruction& in, LaneMask active) {
  auto* d = Lane<D>::at(warp, in.operand[0]);
  const auto* a = Lane<S>::at(warp, in.operand[1]);
  const auto low = std::numeric_limits<D>::min(), high = std::numeric_limits<D>::max();
  for (int i = 0; i < kWarpSize; ++i) {
    if (!(active >> i & 1)) continue;
    const S value = Lane<S>::get(a[i]);
    d[i] = Lane<D>::put(std::cmp_less(value, low)       ? low
                        : std::cmp_greater(value, high) ? high
                                                        : static_cast<D>(value));
  }
  return Step::kNext;
}

template <class D, class S>
void decode_integers(Decoder& d) {
  const Slot a = d.source(1, Lane<S>::kBits);
  const Slot r = d.destination(0, Lane<D>::kBits, std::is_signed_v<D>);
  d.emit(d.has("sat") ? clamp_integer<D, S> : unary<D, S, convert_integer<D, S>>).operand = {r, a};
}

template <class D>
void register_integers_to(InstructionTable& t, const std::string& type) {
  const std::string head = "cvt.sat?" + type;
  t.add(head + ".u8", decode_integers<D, u8>);
  t.add(head + ".s8", decode_integers<D, s8>);
  t.add(head + ".u16", decode_integers<D, u16>);
  t.add(head + ".s16", decode_integers<D, s16>);
  t.add(head + ".u32", decode_integers<D, u32>);
  t.add(head + ".s32", decode_integers<D, s32>);
  t.add(head + ".u64", decode_integers<D, u64>);
  t.add(head + ".s64", decode_integers<D, s64>);
}

// --- integer to float
template <class S>
float integer_to_f32(S a, Rounding rounding) {
  if (rounding == Rounding::kNearest) return static_cast<float>(a);
  if constexpr (sizeof(S) < 8) {
    return std::bit_cast<float>(encode_float(static_cast<double>(a), kFloat32, rounding));  // exact in double
  } else {
    // 64 bits do not fit a double: keep the top 53 and a sticky bit.
    const bool negative = std::is_signed_v<S> && a < 0;
    u64 magnitude = negative ? 0 - static_cast<u64>(a) : static_cast<u64>(a);
    if (magnitude >> 52 != 0) magnitude = (magnitude & ~u64{0xfff}) | ((magnitude & 0xfff) != 0 ? 0x800 : 0);
    const double value = static_cast<double>(magnitude);
    return std::bit_cast<float>(encode_float(negative ? -value : value, kFloat32, rounding));
  }
}

template <class S>
double integer_to_f64(S a, Rounding rounding) {
  double value = static_cast<double>(a);
  if constexpr (sizeof(S) == 8) {
    if (rounding == Rounding::kNearest) return value;
    // Compare in 128 bits and step by one if nearest went the wrong way.
    __extension__ typedef __int128 s128;
    const s128 difference = static_cast<s128>(value) - static_cast<s128>(a);
    const bool towards_zero = rounding == Rounding::kZero;
    if (difference > 0 && (rounding == Rounding::kDown || (towards_zero && value > 0)))
      value = std::nextafter(value, -INFINITY);
    if (difference < 0 && (rounding == Rounding::kUp || (towards_zero && value < 0)))
      value = std::nextafter(value, INFINITY);
  }
  return value;
}

Rounding rounding_of(Decoder& d) {
  const std::string_view r = d.first_of({"rn", "rz", "rm", "rp", "rni", "rzi", "rmi", "rpi"});
  if (r == "rz" || r == "rzi") return Rounding::kZero;
  if (r == "rm" || r == "rmi") return Rounding::kDown;
  if (r == "rp" || r == "rpi") return Rounding::kUp;
  return Rounding::kNearest;
}

// immediate: the rounding; small[0]: saturate to [0, 1]; small[1]: ftz.
template <class D, class S>
Step integer_to_float(Warp& warp, const Instruction& in, LaneMask active) {
  auto* d = Lane<D>::at(warp, in.operand[0]);
  const auto* a = Lane<S>::at(warp, in.operand[1]);
  const auto rounding = static_cast<Rounding>(in.immediate);
  const bool sat = in.small[0] != 0;
  for_lanes(active, [=](int i) {
    const S value = Lane<S>::get(a[i]);
    D r;
    if constexpr (sizeof(D) == 4)
      r = integer_to_f32(value, rounding);
    else
      r = integer_to_f64(value, rounding);
    if (sat) r = std::clamp<D>(r, 0, 1);
    d[i] = Lane<D>::put(r);
  });
  return Step::kNext;
}

template <class D, class S>
void decode_integer_to_float(Decoder& d) {
  const Slot a = d.source(1, Lane<S>::kBits);
  Instruction& in = d.emit(integer_to_float<D, S>);
  in.operand = {d.destination(0, Lane<D>::kBits), a};
  in.immediate = static_cast<s64>(rounding_of(d));
  in.small[0] = d.has("sat");
}

// --- float to integer: rounded to an integer, clamped to the range; NaN gives 0, or only the top
// bit if either side has 64 bits.
double round_to_integer(double value, Rounding rounding) {
  switch (rounding) {
    case Rounding::kZero:
      return std::trunc(value);
    case Rounding::kDown:
      return std::floor(value);
    case Rounding::kUp:
      return std::ceil(value);
    default:
      return std::nearbyint(value);
  }
}

template <class D, class S>
D float_to_int(S value, Rounding rounding) {
  if (std::isnan(value)) {
    return sizeof(D) == 8 || sizeof(S) == 8 ? static_cast<D>(u64{1} << (sizeof(D) * 8 - 1)) : D{0};
  }
  const double rounded = round_to_integer(value, rounding);
  constexpr double kLow = static_cast<double>(std::numeric_limits<D>::min());
  constexpr double kHigh =
      static_cast<double>(std::numeric_limits<D>::max());  // may round up to a power of two
  if (rounded <= kLow) return std::numeric_limits<D>::min();
  if (rounded >= kHigh) return std::numeric_limits<D>::max();
  return static_cast<D>(rounded);
}

template <class D, class S>
Step float_to_integer(Warp& warp, const Instruction& in, LaneMask active) {
  auto* d = Lane<D>::at(warp, in.operand[0]);
  const auto* a = Lane<S>::at(warp, in.operand[1]);
  const auto rounding = static_cast<Rounding>(in.immediate);
  const bool ftz = in.small[1] != 0;
  for_lanes(active, [=](int i) {
    S value = Lane<S>::get(a[i]);
    if constexpr (sizeof(S) == 4)
      if (ftz) value = flush_to_zero(value);
    d[i] = Lane<D>::put(float_to_int<D, S>(value, rounding));
  });
  return Step::kNext;
}

template <class D, class S>
void decode_float_to_integer(Decoder& d) {
  const Slot a = d.float_or_source<S>(1);
  const Slot r = d.destination(0, Lane<D>::kBits, std::is_signed_v<D>);
  Instruction& in = d.emit(float_to_integer<D, S>);
  in.operand = {r, a};
  in.immediate = static_cast<s64>(rounding_of(d));
  in.small[1] = d.has("ftz");
}

template <class I>
void register_integer_and_float(InstructionTable& t, const std::string& type) {
  t.add("cvt .(rn|rz|rm|rp) .sat? .f32" + type, decode_integer_to_float<float, I>);
  t.add("cvt .(rn|rz|rm|rp) .sat? .f64" + type, decode_integer_to_float<double, I>);
  t.add("cvt .(rni|rzi|rmi|rpi) .ftz? .sat? " + type + ".f32", decode_float_to_integer<I, float>);
  t.add("cvt .(rni|rzi|rmi|rpi) .sat? " + type + ".f64", decode_float_to_integer<I, double>);
}

// --- float to float. immediate: rounding; small[0]: to an integer value; small[1]: 1 ftz, 2 sat.
enum { kFtz = 1, kSat = 2 };

float finish(float value, u8 flags) {
  if ((flags & kFtz) != 0) value = flush_to_zero(value);
  if ((flags & kSat) != 0) value = value > 0 ? std::fmin(value, 1.0f) : 0.0f;
  return std::isnan(value) ? std::bit_cast<float>(0x7fffffffu) : value;
}

Step f32_to_f32(Warp& warp, const Instruction& in, LaneMask active) {
  auto* d = Lane<float>::at(warp, in.operand[0]);
  const auto* a = Lane<float>::at(warp, in.operand[1]);
  const auto rounding = static_cast<Rounding>(in.immediate);
  for_lanes(active, [=](int i) {
    float value = Lane<float>::get(a[i]);
    if ((in.small[1] & kFtz) != 0) value = flush_to_zero(value);
    if (in.small[0] != 0) value = static_cast<float>(round_to_integer(value, rounding));
    d[i] = Lane<float>::put(finish(value, in.small[1]));
  });
  return Step::kNext;
}

// What remains of a NaN: its sign and the upper bits of its payload, quiet.
u32 narrowed_nan(double nan) {
  const u64 bits = std::bit_cast<u64>(nan);
  return static_cast<u32>(bits >> 63 << 31 | 0x7fc00000 | (bits >> 29 & 0x3fffff));
}

Step f64_to_f32(Warp& warp, const Instruction& in, LaneMask active) {
  auto* d = Lane<float>::at(warp, in.operand[0]);
  const auto* a = Lane<double>::at(warp, in.operand[1]);
  const auto rounding = static_cast<Rounding>(in.immediate);
  for_lanes(active, [=](int i) {
    const double value = Lane<double>::get(a[i]);
    if (std::isnan(value) && (in.small[1] & kSat) == 0) {
      d[i] = narrowed_nan(value);
      return;
    }
    const float r = rounding == Rounding::kNearest
                        ? static_cast<float>(value)
                        : std::bit_cast<float>(encode_float(value, kFloat32, rounding));
    d[i] = Lane<float>::put(finish(r, in.small[1]));
  });
  return Step::kNext;
}

Step f32_to_f64(Warp& warp, const Instruction& in, LaneMask active) {
  auto* d = Lane<double>::at(warp, in.operand[0]);
  const auto* a = Lane<float>::at(warp, in.operand[1]);
  for_lanes(active, [=](int i) {
    float value = Lane<float>::get(a[i]);
    if ((in.small[1] & kFtz) != 0)
      value = std::isnan(value) ? std::bit_cast<float>(0x7fffffffu) : flush_to_zero(value);
    double r = value;
    if ((in.small[1] & kSat) != 0) r = r > 0 ? std::fmin(r, 1.0) : 0.0;
    d[i] = Lane<double>::put(r);
  });
  return Step::kNext;
}

Step f64_to_f64(Warp& warp, const Instruction& in, LaneMask active) {
  auto* d = Lane<double>::at(warp, in.operand[0]);
  const auto* a = Lane<double>::at(warp, in.operand[1]);
  const auto rounding = static_cast<Rounding>(in.immediate);
  for_lanes(active, [=](int i) {
    double value = Lane<double>::get(a[i]);
    if (in.small[0] != 0) value = std::isnan(value) ? value + value : round_to_integer(value, rounding);
    if ((in.small[1] & kSat) != 0) value = value > 0 ? std::fmin(value, 1.0) : 0.0;
    d[i] = Lane<double>::put(value);
  });
  return Step::kNext;
}

template <class D, class S>
void decode_floats(Decoder& d, Handler handler) {
  const Slot a = d.float_or_source<S>(1);
  Instruction& in = d.emit(handler);
  in.operand = {d.destination(0, Lane<D>::kBits), a};
  in.immediate = static_cast<s64>(rounding_of(d));
  in.small[0] = !d.first_of({"rni", "rzi", "rmi", "rpi"}).empty();
  in.small[1] = static_cast<u8>((d.has("ftz") ? kFtz : 0) | (d.has("sat") ? kSat : 0));
}

}  // namespace

void register_convert(InstructionTable& t) {
  register_integers_to<u8>(t, ".u8");
  register_integers_to<s8>(t, ".s8");
  register_integers_to<u16>(t, ".u16");
  register_integers_to<s16>(t, ".s16");
  register_integers_to<u32>(t, ".u32");
  register_integers_to<s32>(t, ".s32");
  register_integers_to<u64>(t, ".u64");
  register_integers_to<s64>(t, ".s64");
  register_integer_and_float<u8>(t, ".u8");
  register_integer_and_float<s8>(t, ".s8");
  register_integer_and_float<u16>(t, ".u16");
  register_integer_and_float<s16>(t, ".s16");
  register_integer_and_float<u32>(t, ".u32");
  register_integer_and_float<s32>(t, ".s32");
  register_integer_and_float<u64>(t, ".u64");
  register_integer_and_float<s64>(t, ".s64");
  t.add("cvt .(rni|rzi|rmi|rpi)? .ftz? .sat? .f32.f32",
        [](Decoder& d) { decode_floats<float, float>(d, f32_to_f32); });
  t.add("cvt .(rn|rz|rm|rp) .ftz? .sat? .f32.f64",
        [](Decoder& d) { decode_floats<float, double>(d, f64_to_f32); });
  t.add("cvt .ftz? .sat? .f64.f32", [](Decoder& d) { decode_floats<double, float>(d, f32_to_f64); });
  t.add("cvt .(rni|rzi|rmi|rpi)? .sat? .f64.f64",
        [](Decoder& d) { decode_floats<double, double>(d, f64_to_f64); });
  register_convert_narrow(t);
  register_convert_scale(t);
}

}  // namespace jfa::simulator
