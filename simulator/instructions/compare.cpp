// setp and set. Six comparisons and "is a number"; the unordered ones are inversions of ordered ones.
#include <cmath>

#include "simulator/instructions/lanes.h"

namespace jfa::simulator {
namespace {

enum class Compare : u8 { kEqual, kNotEqual, kLess, kLessEqual, kGreater, kGreaterEqual, kNumbers };

struct Comparison {
  Compare compare = Compare::kEqual;
  bool inverted = false;
};

// For floats: `ne` is ordered, `neu` is "not eq", and so on.
bool find_comparison(std::string_view name, bool is_float, Comparison& c) {
  using C = Compare;
  struct Named {
    std::string_view name;
    C compare;
    bool inverted;
  };
  static constexpr Named kCommon[] = {
      {"eq", C::kEqual, false},   {"lt", C::kLess, false},         {"le", C::kLessEqual, false},
      {"gt", C::kGreater, false}, {"ge", C::kGreaterEqual, false}, {"ne", C::kNotEqual, false},
  };
  static constexpr Named kUnsigned[] = {
      {"lo", C::kLess, false},
      {"ls", C::kLessEqual, false},
      {"hi", C::kGreater, false},
      {"hs", C::kGreaterEqual, false},
  };
  static constexpr Named kUnordered[] = {
      {"equ", C::kNotEqual, true}, {"neu", C::kEqual, true},     {"ltu", C::kGreaterEqual, true},
      {"leu", C::kGreater, true},  {"gtu", C::kLessEqual, true}, {"geu", C::kLess, true},
      {"num", C::kNumbers, false}, {"nan", C::kNumbers, true},
  };
  const auto search = [&](const auto& table) {
    for (const Named& n : table)
      if (n.name == name) return c = {n.compare, n.inverted}, true;
    return false;
  };
  return search(kCommon) || (is_float ? search(kUnordered) : search(kUnsigned));
}

template <class T>
T flush(T value) {
  if constexpr (std::is_same_v<T, float>)
    if (std::fabs(value) < 0x1p-126f) return std::copysign(0.0f, value);
  return value;
}

template <class T, Compare compare, bool ftz>
inline LaneMask compare_lanes(Warp& warp, Slot sa, Slot sb) {
  const auto* a = Lane<T>::at(warp, sa);
  const auto* b = Lane<T>::at(warp, sb);
  return mask_of([=](int i) -> bool {
    T x = Lane<T>::get(a[i]), y = Lane<T>::get(b[i]);
    if constexpr (ftz) x = flush(x), y = flush(y);
    switch (compare) {
      case Compare::kEqual:
        return x == y;
      case Compare::kNotEqual:
        return std::is_floating_point_v<T> ? (x < y) | (x > y) : x != y;
      case Compare::kLess:
        return x < y;
      case Compare::kLessEqual:
        return x <= y;
      case Compare::kGreater:
        return x > y;
      case Compare::kGreaterEqual:
        return x >= y;
      case Compare::kNumbers:
        return (x == x) & (y == y);
    }
    return false;
  });
}

enum class Combine : u8 { kNone, kAnd, kOr, kXor };

LaneMask combine(Combine how, LaneMask value, LaneMask c) {
  switch (how) {
    case Combine::kNone:
      return value;
    case Combine::kAnd:
      return value & c;
    case Combine::kOr:
      return value | c;
    case Combine::kXor:
      return value ^ c;
  }
  return value;
}

// setp p|q, a, b, c: p = (a ? b) op c, q = !(a ? b) op c. small[0]: inverted, small[1]: op.
template <class T, Compare compare, bool ftz>
JFA_VECTOR_CLONES Step setp(Warp& warp, const Instruction& in, LaneMask active) {
  LaneMask result = compare_lanes<T, compare, ftz>(warp, in.operand[2], in.operand[3]);
  if (in.small[0] != 0) result = ~result;
  const auto how = static_cast<Combine>(in.small[1]);
  const LaneMask c = how == Combine::kNone ? 0 : warp.predicate(in.operand[4]);
  if (in.operand[0] != kNoSlot) warp.set_predicate(in.operand[0], active, combine(how, result, c));
  if (in.operand[1] != kNoSlot) warp.set_predicate(in.operand[1], active, combine(how, ~result, c));
  return Step::kNext;
}

// set d, a, b: all ones or zero, or 1.0f or 0.0f, from a predicate. immediate: the value of true.
Step spread(Warp& warp, const Instruction& in, LaneMask active) {
  auto* d = warp.lanes<u32>(in.operand[0]);
  const LaneMask p = warp.predicate(in.operand[1]);
  const auto yes = static_cast<u32>(in.immediate);
  for_lanes(active, [=](int i) { d[i] = (p >> i & 1) != 0 ? yes : 0; });
  return Step::kNext;
}

template <class T, bool ftz>
Handler setp_handler(Compare compare) {
  switch (compare) {
    case Compare::kEqual:
      return setp<T, Compare::kEqual, ftz>;
    case Compare::kNotEqual:
      return setp<T, Compare::kNotEqual, ftz>;
    case Compare::kLess:
      return setp<T, Compare::kLess, ftz>;
    case Compare::kLessEqual:
      return setp<T, Compare::kLessEqual, ftz>;
    case Compare::kGreater:
      return setp<T, Compare::kGreater, ftz>;
    case Compare::kGreaterEqual:
      return setp<T, Compare::kGreaterEqual, ftz>;
    case Compare::kNumbers:
      if constexpr (std::is_floating_point_v<T>) return setp<T, Compare::kNumbers, ftz>;
      break;
  }
  return nullptr;
}

template <class T>
Instruction& emit_setp(Decoder& d, Slot p, Slot q) {
  Comparison c;
  if (!find_comparison(d.modifier(0), std::is_floating_point_v<T>, c))
    d.fail("comparison `" + std::string(d.modifier(0)) + "` does not suit the type");
  const std::string_view op = d.first_of({"and", "or", "xor"});
  const auto how = op.empty()    ? Combine::kNone
                   : op == "and" ? Combine::kAnd
                   : op == "or"  ? Combine::kOr
                                 : Combine::kXor;
  const Slot a = d.float_or_source<T>(1), b = d.float_or_source<T>(2);
  const Slot other = how == Combine::kNone ? kNoSlot : d.source(3, 1);
  Handler handler = nullptr;
  if constexpr (std::is_same_v<T, float>)
    if (d.has("ftz")) handler = setp_handler<T, true>(c.compare);
  if (handler == nullptr) handler = setp_handler<T, false>(c.compare);
  Instruction& in = d.emit(handler);
  in.operand = {p, q, a, b, other};
  in.small[0] = c.inverted;
  in.small[1] = static_cast<u8>(how);
  return in;
}

template <class T>
void decode_setp(Decoder& d) {
  const Slot p = d.destination(0, 1), q = d.second_destination(0, 1);
  emit_setp<T>(d, p, q);
}

template <class T>
void decode_set(Decoder& d) {
  const Slot p = d.scratch(1);
  emit_setp<T>(d, p, kNoSlot);
  Instruction& in = d.emit(spread);
  in.operand = {d.destination(0, 32), p};
  in.immediate = d.has("f32") && d.modifier(3) == "f32" ? 0x3f800000 : -1;
}

// testp
template <class T, auto f>
Step test_property(Warp& warp, const Instruction& in, LaneMask active) {
  const auto* a = Lane<T>::at(warp, in.operand[1]);
  warp.set_predicate(in.operand[0], active, mask_of([=](int i) { return f(Lane<T>::get(a[i])); }));
  return Step::kNext;
}
template <class T, auto f>
void decode_test(Decoder& d) {
  const Slot a = d.float_or_source<T>(1);
  d.emit(test_property<T, f>).operand = {d.destination(0, 1), a};
}

template <class T>
void register_type(InstructionTable& t, const std::string& type) {
  const std::string how = ".(eq|ne|lt|le|gt|ge|lo|ls|hi|hs|equ|neu|ltu|leu|gtu|geu|num|nan) .(and|or|xor)? ";
  const std::string ftz = std::is_same_v<T, float> ? ".ftz? " : "";
  t.add("setp " + how + ftz + type, decode_setp<T>);
  t.add("set " + how + ".ftz? .(u32|s32|f32) " + type, decode_set<T>);
}

template <class T>
void register_testp(InstructionTable& t, const std::string& type) {
  t.add("testp.finite" + type, decode_test<T, [](T a) { return std::isfinite(a); }>);
  t.add("testp.infinite" + type, decode_test<T, [](T a) { return std::isinf(a); }>);
  t.add("testp.number" + type, decode_test<T, [](T a) { return !std::isnan(a); }>);
  t.add("testp.notanumber" + type, decode_test<T, [](T a) { return std::isnan(a); }>);
  t.add("testp.normal" + type, decode_test<T, [](T a) { return std::isnormal(a) || a == 0; }>);
  t.add("testp.subnormal" + type, decode_test<T, [](T a) { return std::fpclassify(a) == FP_SUBNORMAL; }>);
}

}  // namespace

void register_compare(InstructionTable& t) {
  register_type<u16>(t, ".(u16|b16)");
  register_type<s16>(t, ".s16");
  register_type<u32>(t, ".(u32|b32)");
  register_type<s32>(t, ".s32");
  register_type<u64>(t, ".(u64|b64)");
  register_type<s64>(t, ".s64");
  register_type<float>(t, ".f32");
  register_type<double>(t, ".f64");
  register_testp<float>(t, ".f32");
  register_testp<double>(t, ".f64");
}

}  // namespace jfa::simulator
