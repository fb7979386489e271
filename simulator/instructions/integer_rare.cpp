// Integer instructions that compilers hardly emit: 24-bit products, dot products of halves and bytes, masks.
#include "simulator/instructions/lanes.h"

namespace jfa::simulator {
namespace {

template <class T>
constexpr s64 low_24(T value) {
  return std::is_signed_v<T> ? s64{static_cast<s32>(static_cast<u32>(value) << 8) >> 8}
                             : s64{static_cast<u32>(value) & 0xffffff};
}
// Bits 31:0 of the 48-bit product, or bits 47:16.
template <class T, bool high>
constexpr auto product_24 = [](T a, T b) { return static_cast<T>(low_24(a) * low_24(b) >> (high ? 16 : 0)); };
template <class T, bool high>
constexpr auto mad_24 = [](T a, T b, T c) {
  return static_cast<T>(static_cast<u32>(product_24<T, high>(a, b)) + static_cast<u32>(c));
};

// Two halves of a times two bytes of b, the low or the high ones.
template <class A, class B, bool high>
constexpr auto dp2a = [](u32 a, u32 b, u32 c) {
  for (int i = 0; i < 2; ++i)
    c += static_cast<u32>(s32{static_cast<A>(a >> 16 * i)} * s32{static_cast<B>(b >> (16 * high + 8 * i))});
  return c;
};

// `width` ones from bit `first` on.
template <bool clamp>
constexpr auto bit_mask = [](u32 first, u32 width) -> u32 {
  const u32 from = first & 31, end = from + (width & 31);
  if (clamp && first >= 32) return 0;
  const bool to_the_top = end >= 32 || (clamp && width >= 32);
  return (~0u << from) & ~(to_the_top ? 0 : ~0u << end);
};

// The low `width` bits, extended by their sign or with zeros.
template <class T, bool clamp>
constexpr auto extend = [](u32 value, u32 width) -> u32 {
  if (clamp && width >= 32) return value;
  const u32 bits = width & 31;
  const u32 above = ~0u << bits;
  const bool sign = std::is_signed_v<T> && bits != 0 && (value >> (bits - 1) & 1) != 0;
  return sign ? value | above : value & ~above;
};

// The offset-th set bit of the mask from bit `base` on, upwards, or downwards if offset is negative.
constexpr auto find_nth_set = [](u32 mask, u32 base, u32 offset) -> u32 {
  const auto n = static_cast<s32>(offset);
  if (n == 0) return base < 32 && (mask >> base & 1) != 0 ? base : ~0u;
  s64 left = n > 0 ? s64{n} : -s64{n};
  for (s64 bit = base; bit >= 0 && bit<32; bit += n> 0 ? 1 : -1)
    if ((mask >> bit & 1) != 0 && --left == 0) return static_cast<u32>(bit);
  return ~0u;
};

}  // namespace

void register_integer_rare(InstructionTable& t) {
  t.add("mul24.lo.u32", decode_binary<u32, u32, product_24<u32, false>>);
  t.add("mul24.hi.u32", decode_binary<u32, u32, product_24<u32, true>>);
  t.add("mul24.lo.s32", decode_binary<s32, s32, product_24<s32, false>>);
  t.add("mul24.hi.s32", decode_binary<s32, s32, product_24<s32, true>>);
  t.add("mad24.lo.u32", decode_ternary<u32, u32, mad_24<u32, false>>);
  t.add("mad24.hi.u32", decode_ternary<u32, u32, mad_24<u32, true>>);
  t.add("mad24.lo.s32", decode_ternary<s32, s32, mad_24<s32, false>>);
  t.add("mad24.hi.s32", decode_ternary<s32, s32, mad_24<s32, true>>);
  t.add("dp2a.lo.u32.u32", decode_ternary<u32, u32, dp2a<u16, u8, false>>);
  t.add("dp2a.hi.u32.u32", decode_ternary<u32, u32, dp2a<u16, u8, true>>);
  t.add("dp2a.lo.u32.s32", decode_ternary<u32, u32, dp2a<u16, s8, false>>);
  t.add("dp2a.hi.u32.s32", decode_ternary<u32, u32, dp2a<u16, s8, true>>);
  t.add("dp2a.lo.s32.u32", decode_ternary<u32, u32, dp2a<s16, u8, false>>);
  t.add("dp2a.hi.s32.u32", decode_ternary<u32, u32, dp2a<s16, u8, true>>);
  t.add("dp2a.lo.s32.s32", decode_ternary<u32, u32, dp2a<s16, s8, false>>);
  t.add("dp2a.hi.s32.s32", decode_ternary<u32, u32, dp2a<s16, s8, true>>);
  t.add("bmsk.clamp.b32", decode_binary<u32, u32, bit_mask<true>>);
  t.add("bmsk.wrap.b32", decode_binary<u32, u32, bit_mask<false>>);
  t.add("szext.clamp.u32", decode_binary<u32, u32, extend<u32, true>>);
  t.add("szext.wrap.u32", decode_binary<u32, u32, extend<u32, false>>);
  t.add("szext.clamp.s32", decode_binary<u32, u32, extend<s32, true>>);
  t.add("szext.wrap.s32", decode_binary<u32, u32, extend<s32, false>>);
  t.add("fns.b32", decode_ternary<u32, u32, find_nth_set>);
}

}  // namespace jfa::simulator
