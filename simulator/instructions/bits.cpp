// Logic, shifts, bit fields and counts. Shift amounts clamp at the width.
#include <algorithm>

#include "simulator/instructions/lanes.h"

namespace jfa::simulator {
namespace {

template <class T>
constexpr int kWidth = static_cast<int>(sizeof(T)) * 8;

template <class T>
constexpr auto shift_left = [](T a, u32 b) -> T {
  return b >= static_cast<u32>(kWidth<T>) ? T{0} : static_cast<T>(static_cast<u64>(a) << b);
};
// Signed: the sign fills.
template <class T>
constexpr auto shift_right = [](T a, u32 b) -> T {
  const u32 amount = std::min(b, static_cast<u32>(kWidth<T>) - 1);
  const T shifted = static_cast<T>(a >> amount);
  if constexpr (std::is_signed_v<T>) return shifted;
  return b >= static_cast<u32>(kWidth<T>) ? T{0} : shifted;
};

// shf: the upper or lower word of {b:a} shifted.
constexpr auto funnel_left = [](u32 a, u32 b, u32 n) {
  return static_cast<u32>((u64{b} << 32 | a) << n >> 32);
};
constexpr auto funnel_right = [](u32 a, u32 b, u32 n) { return static_cast<u32>((u64{b} << 32 | a) >> n); };
constexpr auto shf_l_clamp = [](u32 a, u32 b, u32 c) { return funnel_left(a, b, std::min(c, 32u)); };
constexpr auto shf_l_wrap = [](u32 a, u32 b, u32 c) { return funnel_left(a, b, c & 31); };
constexpr auto shf_r_clamp = [](u32 a, u32 b, u32 c) { return funnel_right(a, b, std::min(c, 32u)); };
constexpr auto shf_r_wrap = [](u32 a, u32 b, u32 c) { return funnel_right(a, b, c & 31); };

template <class T>
constexpr auto population = [](T a) { return static_cast<u32>(std::popcount(a)); };
template <class T>
constexpr auto leading_zeros = [](T a) { return static_cast<u32>(std::countl_zero(a)); };
template <class T>
constexpr auto reverse = [](T a) {
  T r = 0;
  for (int i = 0; i < kWidth<T>; ++i) r |= static_cast<T>((a >> i & 1) << (kWidth<T> - 1 - i));
  return r;
};
// Position of the highest bit that differs from the sign; ~0 if none.
template <class T>
constexpr auto find_bit = [](T a) {
  const auto u = static_cast<std::make_unsigned_t<T>>(a < 0 ? ~a : a);
  return static_cast<u32>(kWidth<T> - 1 - std::countl_zero(u));
};
template <class T>
constexpr auto find_bit_shift = [](T a) {
  const u32 position = find_bit<T>(a);
  return position == ~0u ? position : static_cast<u32>(kWidth<T>) - 1 - position;
};

// A position or length of a bit field. The ISA wants 0 to 255; of larger ones the device takes the low byte
// where the field has 32 bits, and the whole number, which is beyond the field, where it has 64.
template <class T>
constexpr u32 bit_count(u32 operand) {
  return kWidth<T> == 64 ? std::min(operand, 255u) : operand & 0xff;
}

template <class T>
constexpr auto extract = [](T a, u32 b, u32 c) -> T {
  const u32 position = bit_count<T>(b), length = bit_count<T>(c);
  const auto width = static_cast<u32>(kWidth<T>);
  if (length == 0) return 0;
  const bool is_signed = std::is_signed_v<T>;
  const auto u = static_cast<std::make_unsigned_t<T>>(a);
  const u32 top = std::min(position + length - 1, width - 1);
  const bool sign = is_signed && (u >> top & 1) != 0;
  u64 field = position >= width ? 0 : static_cast<u64>(u) >> position;
  const u32 kept = position >= width ? 0 : std::min(length, width - position);
  if (kept < 64) field &= (u64{1} << kept) - 1;
  if (sign && kept < 64) field |= ~u64{0} << kept;
  return static_cast<T>(field);
};

// bfi d, a, b, c, d: a's low bits into b.
template <class T>
JFA_VECTOR_CLONES Step insert(Warp& warp, const Instruction& in, LaneMask active) {
  auto* d = warp.lanes<T>(in.operand[0]);
  const auto* a = warp.lanes<T>(in.operand[1]);
  const auto* b = warp.lanes<T>(in.operand[2]);
  const auto* position = warp.lanes<u32>(in.operand[3]);
  const auto* length = warp.lanes<u32>(in.operand[4]);
  for_lanes(active, [=](int i) {
    const u32 p = bit_count<T>(position[i]),
              n = std::min(bit_count<T>(length[i]), static_cast<u32>(kWidth<T>));
    const T ones = n >= static_cast<u32>(kWidth<T>) ? static_cast<T>(~T{0}) : static_cast<T>((T{1} << n) - 1);
    const T mask = p >= static_cast<u32>(kWidth<T>) ? T{0} : static_cast<T>(ones << p);
    const T field = p >= static_cast<u32>(kWidth<T>) ? T{0} : static_cast<T>(a[i] << p);
    d[i] = (b[i] & ~mask) | (field & mask);
  });
  return Step::kNext;
}

constexpr auto permute_byte = [](u64 bytes, u32 selector) {
  const u32 byte = static_cast<u32>(bytes >> (selector & 7) * 8) & 0xff;
  return (selector & 8) != 0 ? ((byte & 0x80) != 0 ? 0xffu : 0u) : byte;
};
constexpr auto permute = [](u32 a, u32 b, u32 c) {
  const u64 bytes = u64{b} << 32 | a;
  u32 r = 0;
  for (u32 i = 0; i < 4; ++i) r |= permute_byte(bytes, c >> i * 4 & 15) << i * 8;
  return r;
};
// The modes of prmt: which bytes selector value c[1:0] picks.
template <int mode>
constexpr auto permute_mode = [](u32 a, u32 b, u32 c) {
  constexpr u32 kSelectors[6][4] = {
      {0x3210, 0x4321, 0x5432, 0x6543},  // f4e
      {0x5670, 0x6701, 0x7012, 0x0123},  // b4e
      {0x0000, 0x1111, 0x2222, 0x3333},  // rc8
      {0x3210, 0x3211, 0x3222, 0x3333},  // ecl
      {0x0000, 0x1110, 0x2210, 0x3210},  // ecr
      {0x1010, 0x3232, 0x1010, 0x3232},  // rc16
  };
  return permute(a, b, kSelectors[mode][c & 3]);
};

// lop3: each result bit is bit {a,b,c} of the table in `immediate`.
JFA_VECTOR_CLONES Step lop3(Warp& warp, const Instruction& in, LaneMask active) {
  auto* d = warp.lanes<u32>(in.operand[0]);
  const auto* a = warp.lanes<u32>(in.operand[1]);
  const auto* b = warp.lanes<u32>(in.operand[2]);
  const auto* c = warp.lanes<u32>(in.operand[3]);
  u32 minterm[8];
  for (int m = 0; m < 8; ++m) minterm[m] = (in.immediate >> m & 1) != 0 ? ~0u : 0u;
  for_lanes(active, [&](int i) {
    u32 r = 0;
    for (int m = 0; m < 8; ++m)
      r |= minterm[m] & ((m & 4) != 0 ? a[i] : ~a[i]) & ((m & 2) != 0 ? b[i] : ~b[i]) &
           ((m & 1) != 0 ? c[i] : ~c[i]);
    d[i] = r;
  });
  return Step::kNext;
}

template <class T>
constexpr auto logical_and = [](T a, T b) { return static_cast<T>(a & b); };
template <class T>
constexpr auto logical_or = [](T a, T b) { return static_cast<T>(a | b); };
template <class T>
constexpr auto logical_xor = [](T a, T b) { return static_cast<T>(a ^ b); };
template <class T>
constexpr auto logical_not = [](T a) { return static_cast<T>(~a); };
template <class T>
constexpr auto c_not = [](T a) { return static_cast<T>(a == 0); };

template <auto f>
Step predicate_binary(Warp& warp, const Instruction& in, LaneMask active) {
  warp.set_predicate(in.operand[0], active, f(warp.predicate(in.operand[1]), warp.predicate(in.operand[2])));
  return Step::kNext;
}
template <auto f>
void decode_predicate_binary(Decoder& d) {
  const Slot a = d.source(1, 1), b = d.source(2, 1);
  d.emit(predicate_binary<f>).operand = {d.destination(0, 1), a, b};
}
Step predicate_not(Warp& warp, const Instruction& in, LaneMask active) {
  warp.set_predicate(in.operand[0], active, ~warp.predicate(in.operand[1]));
  return Step::kNext;
}

// Sources of a shift: the value has the type's width, the amount 32 bits.
template <class T, auto f>
JFA_VECTOR_CLONES Step shift(Warp& warp, const Instruction& in, LaneMask active) {
  auto* d = Lane<T>::at(warp, in.operand[0]);
  const auto* a = Lane<T>::at(warp, in.operand[1]);
  const auto* b = warp.lanes<u32>(in.operand[2]);
  for_lanes(active, [=](int i) { d[i] = Lane<T>::put(f(Lane<T>::get(a[i]), b[i])); });
  return Step::kNext;
}
template <class T, auto f>
void decode_shift(Decoder& d) {
  const Slot a = d.source(1, kWidth<T>), b = d.source(2, 32);
  d.emit(shift<T, f>).operand = {d.destination(0, kWidth<T>), a, b};
}

template <class T>
JFA_VECTOR_CLONES Step extract_handler(Warp& warp, const Instruction& in, LaneMask active) {
  auto* d = Lane<T>::at(warp, in.operand[0]);
  const auto* a = Lane<T>::at(warp, in.operand[1]);
  const auto* b = warp.lanes<u32>(in.operand[2]);
  const auto* c = warp.lanes<u32>(in.operand[3]);
  for_lanes(active, [=](int i) { d[i] = Lane<T>::put(extract<T>(Lane<T>::get(a[i]), b[i], c[i])); });
  return Step::kNext;
}
template <class T>
void decode_extract(Decoder& d) {
  const Slot a = d.source(1, kWidth<T>), b = d.source(2, 32), c = d.source(3, 32);
  d.emit(extract_handler<T>).operand = {d.destination(0, kWidth<T>), a, b, c};
}
template <class T>
void decode_insert(Decoder& d) {
  const Slot a = d.source(1, kWidth<T>), b = d.source(2, kWidth<T>), p = d.source(3, 32), n = d.source(4, 32);
  d.emit(insert<T>).operand = {d.destination(0, kWidth<T>), a, b, p, n};
}

template <class T>
void register_logic(InstructionTable& t, const std::string& type) {
  t.add("and" + type, decode_binary<T, T, logical_and<T>>);
  t.add("or" + type, decode_binary<T, T, logical_or<T>>);
  t.add("xor" + type, decode_binary<T, T, logical_xor<T>>);
  t.add("not" + type, decode_unary<T, T, logical_not<T>>);
  t.add("cnot" + type, decode_unary<T, T, c_not<T>>);
}

}  // namespace

void register_bits(InstructionTable& t) {
  register_logic<u16>(t, ".b16");
  register_logic<u32>(t, ".b32");
  register_logic<u64>(t, ".b64");
  t.add("and.pred", decode_predicate_binary<logical_and<u32>>);
  t.add("or.pred", decode_predicate_binary<logical_or<u32>>);
  t.add("xor.pred", decode_predicate_binary<logical_xor<u32>>);
  t.add("not.pred", [](Decoder& d) {
    const Slot a = d.source(1, 1);
    d.emit(predicate_not).operand = {d.destination(0, 1), a};
  });
  t.add("lop3.b32", [](Decoder& d) {
    const Slot a = d.source(1, 32), b = d.source(2, 32), c = d.source(3, 32);
    const std::int64_t table = d.immediate(4);
    if (table < 0 || table > 255) d.fail("lop3 needs a table of 0 to 255");
    Instruction& in = d.emit(lop3);
    in.operand = {d.destination(0, 32), a, b, c};
    in.immediate = table;
  });
  t.add("shl.b16", decode_shift<u16, shift_left<u16>>);
  t.add("shl.b32", decode_shift<u32, shift_left<u32>>);
  t.add("shl.b64", decode_shift<u64, shift_left<u64>>);
  t.add("shr.(b16|u16)", decode_shift<u16, shift_right<u16>>);
  t.add("shr.(b32|u32)", decode_shift<u32, shift_right<u32>>);
  t.add("shr.(b64|u64)", decode_shift<u64, shift_right<u64>>);
  t.add("shr.s16", decode_shift<s16, shift_right<s16>>);
  t.add("shr.s32", decode_shift<s32, shift_right<s32>>);
  t.add("shr.s64", decode_shift<s64, shift_right<s64>>);
  t.add("shf.l.clamp.b32", decode_ternary<u32, u32, shf_l_clamp>);
  t.add("shf.l.wrap.b32", decode_ternary<u32, u32, shf_l_wrap>);
  t.add("shf.r.clamp.b32", decode_ternary<u32, u32, shf_r_clamp>);
  t.add("shf.r.wrap.b32", decode_ternary<u32, u32, shf_r_wrap>);
  t.add("popc.b32", decode_unary<u32, u32, population<u32>>);
  t.add("popc.b64", decode_unary<u32, u64, population<u64>>);
  t.add("clz.b32", decode_unary<u32, u32, leading_zeros<u32>>);
  t.add("clz.b64", decode_unary<u32, u64, leading_zeros<u64>>);
  t.add("brev.b32", decode_unary<u32, u32, reverse<u32>>);
  t.add("brev.b64", decode_unary<u64, u64, reverse<u64>>);
  t.add("bfind.u32", decode_unary<u32, u32, find_bit<u32>>);
  t.add("bfind.s32", decode_unary<u32, s32, find_bit<s32>>);
  t.add("bfind.u64", decode_unary<u32, u64, find_bit<u64>>);
  t.add("bfind.s64", decode_unary<u32, s64, find_bit<s64>>);
  t.add("bfind.shiftamt.u32", decode_unary<u32, u32, find_bit_shift<u32>>);
  t.add("bfind.shiftamt.s32", decode_unary<u32, s32, find_bit_shift<s32>>);
  t.add("bfind.shiftamt.u64", decode_unary<u32, u64, find_bit_shift<u64>>);
  t.add("bfind.shiftamt.s64", decode_unary<u32, s64, find_bit_shift<s64>>);
  t.add("bfe.u32", decode_extract<u32>);
  t.add("bfe.s32", decode_extract<s32>);
  t.add("bfe.u64", decode_extract<u64>);
  t.add("bfe.s64", decode_extract<s64>);
  t.add("bfi.b32", decode_insert<u32>);
  t.add("bfi.b64", decode_insert<u64>);
  t.add("prmt.b32", decode_ternary<u32, u32, permute>);
  t.add("prmt.b32.f4e", decode_ternary<u32, u32, permute_mode<0>>);
  t.add("prmt.b32.b4e", decode_ternary<u32, u32, permute_mode<1>>);
  t.add("prmt.b32.rc8", decode_ternary<u32, u32, permute_mode<2>>);
  t.add("prmt.b32.ecl", decode_ternary<u32, u32, permute_mode<3>>);
  t.add("prmt.b32.ecr", decode_ternary<u32, u32, permute_mode<4>>);
  t.add("prmt.b32.rc16", decode_ternary<u32, u32, permute_mode<5>>);
}

}  // namespace jfa::simulator
