// Integer arithmetic. Wrap-around is computed unsigned.
#include <algorithm>
#include <limits>

#include "simulator/instructions/lanes.h"

namespace jfa::simulator {
namespace {

template <class T>
using Unsigned = std::make_unsigned_t<T>;

// Twice as wide, for products.
template <class T>
struct Wider;
template <>
struct Wider<u16> {
  using Type = u32;
};
template <>
struct Wider<s16> {
  using Type = s32;
};
template <>
struct Wider<u32> {
  using Type = u64;
};
template <>
struct Wider<s32> {
  using Type = s64;
};
__extension__ typedef unsigned __int128 u128;
__extension__ typedef __int128 s128;
template <>
struct Wider<u64> {
  using Type = u128;
};
template <>
struct Wider<s64> {
  using Type = s128;
};
template <class T>
using Wide = typename Wider<T>::Type;

template <class T>
constexpr auto add = [](T a, T b) { return static_cast<T>(Unsigned<T>(a) + Unsigned<T>(b)); };
template <class T>
constexpr auto sub = [](T a, T b) { return static_cast<T>(Unsigned<T>(a) - Unsigned<T>(b)); };
// u16 products are computed as u32: int would overflow.
template <class T>
constexpr auto mul_lo = [](T a, T b) {
  using U = std::common_type_t<Unsigned<T>, u32>;
  return static_cast<T>(static_cast<U>(a) * static_cast<U>(b));
};
template <class T>
constexpr auto mul_hi = [](T a, T b) {
  return static_cast<T>((static_cast<Wide<T>>(a) * static_cast<Wide<T>>(b)) >> (sizeof(T) * 8));
};
template <class T>
constexpr auto mul_wide =
    [](T a, T b) { return static_cast<Wide<T>>(static_cast<Wide<T>>(a) * static_cast<Wide<T>>(b)); };
template <class T>
constexpr auto mad_lo = [](T a, T b, T c) { return add<T>(mul_lo<T>(a, b), c); };
template <class T>
constexpr auto mad_hi = [](T a, T b, T c) { return add<T>(mul_hi<T>(a, b), c); };
template <class T>
constexpr auto mad_wide = [](T a, T b, Wide<T> c) { return add<Wide<T>>(mul_wide<T>(a, b), c); };
// Division by zero gives all ones, as on the device; the most negative by −1 wraps.
template <class T>
constexpr auto divide = [](T a, T b) -> T {
  if (b == 0) return static_cast<T>(~T{0});
  if constexpr (std::is_signed_v<T>)
    if (b == -1) return sub<T>(0, a);
  return static_cast<T>(a / b);
};
template <class T>
constexpr auto remainder = [](T a, T b) -> T {
  if (b == 0) return a;
  if constexpr (std::is_signed_v<T>)
    if (b == -1) return 0;
  return static_cast<T>(a % b);
};
template <class T>
constexpr auto least = [](T a, T b) { return std::min(a, b); };
template <class T>
constexpr auto greatest = [](T a, T b) { return std::max(a, b); };
template <class T>
constexpr auto negate = [](T a) { return sub<T>(0, a); };
template <class T>
constexpr auto absolute = [](T a) { return a < 0 ? sub<T>(0, a) : a; };
template <class T>
constexpr auto sad = [](T a, T b, T c) { return add<T>(c, a < b ? sub<T>(b, a) : sub<T>(a, b)); };

constexpr auto saturate = [](s64 value) {
  return static_cast<s32>(
      std::clamp<s64>(value, std::numeric_limits<s32>::min(), std::numeric_limits<s32>::max()));
};
constexpr auto add_sat = [](s32 a, s32 b) { return saturate(s64{a} + b); };
constexpr auto sub_sat = [](s32 a, s32 b) { return saturate(s64{a} - b); };
constexpr auto mad_hi_sat = [](s32 a, s32 b, s32 c) { return saturate(s64{mul_hi<s32>(a, b)} + c); };
constexpr auto relu_min = [](s32 a, s32 b) { return std::max(std::min(a, b), 0); };
constexpr auto relu_max = [](s32 a, s32 b) { return std::max(std::max(a, b), 0); };

// Two 16-bit lanes in a register.
template <class T, auto f>
constexpr auto halves = [](u32 a, u32 b) {
  const auto low = static_cast<u16>(f(static_cast<T>(a), static_cast<T>(b)));
  const auto high = static_cast<u16>(f(static_cast<T>(a >> 16), static_cast<T>(b >> 16)));
  return low | u32{high} << 16;
};

// Dot product of four bytes: A and B are the types of the bytes.
template <class A, class B>
constexpr auto dp4a = [](u32 a, u32 b, u32 c) {
  for (int i = 0; i < 32; i += 8)
    c +=
        static_cast<u32>(static_cast<s32>(static_cast<A>(a >> i)) * static_cast<s32>(static_cast<B>(b >> i)));
  return c;
};

// --- add.cc, addc, sub.cc, subc, mad.cc, madc: carry in and out of the flag.
enum Carry { kIn = 1, kOut = 2 };

template <class T, bool subtract>
Step carry_add(Warp& warp, const Instruction& in, LaneMask active) {
  auto* d = warp.lanes<T>(in.operand[0]);
  const auto* a = warp.lanes<T>(in.operand[1]);
  const auto* b = warp.lanes<T>(in.operand[2]);
  const LaneMask flag_in = (in.small[0] & kIn) != 0 ? warp.predicate(in.operand[3]) : 0;
  LaneMask flag_out = 0;
  for (int i = 0; i < kWarpSize; ++i) {
    if (!(active >> i & 1)) continue;
    const T carry = flag_in >> i & 1;
    T sum;
    bool out;
    if constexpr (subtract) {
      T difference;
      out = __builtin_sub_overflow(a[i], b[i], &difference);
      out |= __builtin_sub_overflow(difference, carry, &sum);
    } else {
      T partial;
      out = __builtin_add_overflow(a[i], b[i], &partial);
      out |= __builtin_add_overflow(partial, carry, &sum);
    }
    d[i] = sum;
    flag_out |= LaneMask{out} << i;
  }
  if ((in.small[0] & kOut) != 0) warp.set_predicate(in.operand[3], active, flag_out);
  return Step::kNext;
}

template <class T, bool subtract>
void decode_carry_add(Decoder& d, int flags) {
  constexpr int bits = static_cast<int>(sizeof(T)) * 8;
  const Slot a = d.source(1, bits), b = d.source(2, bits), r = d.destination(0, bits);
  Instruction& in = d.emit(carry_add<T, subtract>);
  in.operand = {r, a, b, d.carry()};
  in.small[0] = static_cast<u8>(flags);
}

template <class T, auto product>
void decode_carry_mad(Decoder& d, int flags) {
  constexpr int bits = static_cast<int>(sizeof(T)) * 8;
  const Slot a = d.source(1, bits), b = d.source(2, bits), c = d.source(3, bits), r = d.destination(0, bits);
  const Slot p = d.scratch(bits);
  d.emit(binary<T, T, product>).operand = {p, a, b};
  Instruction& in = d.emit(carry_add<T, false>);
  in.operand = {r, p, c, d.carry()};
  in.small[0] = static_cast<u8>(flags);
}

template <class T>
void register_carry(InstructionTable& t, const std::string& types) {
  t.add("add.cc" + types, [](Decoder& d) { decode_carry_add<T, false>(d, kOut); });
  t.add("addc.cc" + types, [](Decoder& d) { decode_carry_add<T, false>(d, kIn | kOut); });
  t.add("addc" + types, [](Decoder& d) { decode_carry_add<T, false>(d, kIn); });
  t.add("sub.cc" + types, [](Decoder& d) { decode_carry_add<T, true>(d, kOut); });
  t.add("subc.cc" + types, [](Decoder& d) { decode_carry_add<T, true>(d, kIn | kOut); });
  t.add("subc" + types, [](Decoder& d) { decode_carry_add<T, true>(d, kIn); });
}

template <class T>
void register_carry_mad(InstructionTable& t, const std::string& type) {
  t.add("mad.lo.cc" + type, [](Decoder& d) { decode_carry_mad<T, mul_lo<T>>(d, kOut); });
  t.add("mad.hi.cc" + type, [](Decoder& d) { decode_carry_mad<T, mul_hi<T>>(d, kOut); });
  t.add("madc.lo.cc" + type, [](Decoder& d) { decode_carry_mad<T, mul_lo<T>>(d, kIn | kOut); });
  t.add("madc.hi.cc" + type, [](Decoder& d) { decode_carry_mad<T, mul_hi<T>>(d, kIn | kOut); });
  t.add("madc.lo" + type, [](Decoder& d) { decode_carry_mad<T, mul_lo<T>>(d, kIn); });
  t.add("madc.hi" + type, [](Decoder& d) { decode_carry_mad<T, mul_hi<T>>(d, kIn); });
}

template <class T>
void register_type(InstructionTable& t, const std::string& type) {
  t.add("add" + type, decode_binary<T, T, add<T>>);
  t.add("sub" + type, decode_binary<T, T, sub<T>>);
  t.add("mul.lo" + type, decode_binary<T, T, mul_lo<T>>);
  t.add("mul.hi" + type, decode_binary<T, T, mul_hi<T>>);
  t.add("mad.lo" + type, decode_ternary<T, T, mad_lo<T>>);
  t.add("mad.hi" + type, decode_ternary<T, T, mad_hi<T>>);
  if constexpr (sizeof(T) < 8) {
    t.add("mul.wide" + type, decode_binary<Wide<T>, T, mul_wide<T>>);
    t.add("mad.wide" + type, decode_ternary<Wide<T>, T, mad_wide<T>, Wide<T>>);
  }
  t.add("div" + type, decode_binary<T, T, divide<T>>);
  t.add("rem" + type, decode_binary<T, T, remainder<T>>);
  t.add("min" + type, decode_binary<T, T, least<T>>);
  t.add("max" + type, decode_binary<T, T, greatest<T>>);
  t.add("sad" + type, decode_ternary<T, T, sad<T>>);
  if constexpr (std::is_signed_v<T>) {
    t.add("neg" + type, decode_unary<T, T, negate<T>>);
    t.add("abs" + type, decode_unary<T, T, absolute<T>>);
  }
}

}  // namespace

void register_integer(InstructionTable& t) {
  register_integer_rare(t);
  register_type<u16>(t, ".u16");
  register_type<s16>(t, ".s16");
  register_type<u32>(t, ".u32");
  register_type<s32>(t, ".s32");
  register_type<u64>(t, ".u64");
  register_type<s64>(t, ".s64");
  t.add("add.sat.s32", decode_binary<s32, s32, add_sat>);
  t.add("sub.sat.s32", decode_binary<s32, s32, sub_sat>);
  t.add("mad.hi.sat.s32", decode_ternary<s32, s32, mad_hi_sat>);
  t.add("min.relu.s32", decode_binary<s32, s32, relu_min>);
  t.add("max.relu.s32", decode_binary<s32, s32, relu_max>);
  t.add("add.(u16x2|s16x2)", decode_binary<u32, u32, halves<u16, add<u16>>>);
  t.add("min.u16x2", decode_binary<u32, u32, halves<u16, least<u16>>>);
  t.add("min.s16x2", decode_binary<u32, u32, halves<s16, least<s16>>>);
  t.add("max.u16x2", decode_binary<u32, u32, halves<u16, greatest<u16>>>);
  t.add("max.s16x2", decode_binary<u32, u32, halves<s16, greatest<s16>>>);
  t.add("dp4a.u32.u32", decode_ternary<u32, u32, dp4a<u8, u8>>);
  t.add("dp4a.u32.s32", decode_ternary<u32, u32, dp4a<u8, s8>>);
  t.add("dp4a.s32.u32", decode_ternary<u32, u32, dp4a<s8, u8>>);
  t.add("dp4a.s32.s32", decode_ternary<u32, u32, dp4a<s8, s8>>);
  register_carry<u32>(t, ".(u32|s32|b32)");
  register_carry<u64>(t, ".(u64|s64|b64)");
  register_carry_mad<u32>(t, ".u32");
  register_carry_mad<s32>(t, ".s32");
  register_carry_mad<u64>(t, ".u64");
  register_carry_mad<s64>(t, ".s64");
}

}  // namespace jfa::simulator
