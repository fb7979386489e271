// mov with its packing forms, selp, cvta, special registers that change, and hints.
#include "simulator/instructions/lanes.h"
#include "simulator/machine/float_format.h"

namespace jfa::simulator {
namespace {

template <class T>
constexpr auto same = [](T a) { return a; };

Step move_predicate(Warp& warp, const Instruction& in, LaneMask active) {
  warp.set_predicate(in.operand[0], active, warp.predicate(in.operand[1]));
  return Step::kNext;
}

Step move_128(Warp& warp, const Instruction& in, LaneMask active) {
  for (const u32 half : {0u, static_cast<u32>(kWarpSize * sizeof(u64))}) {
    auto* d = warp.lanes<u64>(in.operand[0] + half);
    const auto* a = warp.lanes<u64>(in.operand[1] + half);
    for_lanes(active, [=](int i) { d[i] = a[i]; });
  }
  return Step::kNext;
}

Step read_clock(Warp& warp, const Instruction& in, LaneMask active) {
  const u64 clock = warp.machine().clock();
  for (int i = 0; i < kWarpSize; ++i) {
    if (!(active >> i & 1)) continue;
    if (in.small[0] == 64)
      warp.lanes<u64>(in.operand[0])[i] = clock;
    else
      warp.lanes<u32>(in.operand[0])[i] = static_cast<u32>(clock);
  }
  return Step::kNext;
}

// Part of a wide register to or from narrower ones; small[0]: bits of a part, small[1]: of the whole.
struct Parts {
  std::vector<Slot> slots;
  Slot whole = kNoSlot;
  int part_bits = 0, whole_bits = 0;

  u64 part(Warp& warp, std::size_t index, int lane) const {
    return part_bits == 64 ? warp.lanes<u64>(slots[index])[lane]
                           : warp.lanes<u32>(slots[index])[lane] & (~0ull >> (64 - part_bits));
  }
  void set_part(Warp& warp, std::size_t index, int lane, u64 value) const {
    if (slots[index] == kNoSlot) return;
    if (part_bits == 64)
      warp.lanes<u64>(slots[index])[lane] = value;
    else
      warp.lanes<u32>(slots[index])[lane] = static_cast<u32>(value & (~0ull >> (64 - part_bits)));
  }
};

Step pack(Warp& warp, const Instruction& in, LaneMask active) {
  const auto& p = in.data<Parts>();
  for (int i = 0; i < kWarpSize; ++i) {
    if (!(active >> i & 1)) continue;
    u64 words[2] = {0, 0};
    for (std::size_t k = 0; k < p.slots.size(); ++k) {
      const int at = static_cast<int>(k) * p.part_bits;
      words[at / 64] |= p.part(warp, k, i) << at % 64;
    }
    if (p.whole_bits <= 32) {
      warp.lanes<u32>(p.whole)[i] = static_cast<u32>(words[0]);
    } else {
      warp.lanes<u64>(p.whole)[i] = words[0];
      if (p.whole_bits == 128) warp.lanes<u64>(p.whole)[kWarpSize + i] = words[1];
    }
  }
  return Step::kNext;
}

Step unpack(Warp& warp, const Instruction& in, LaneMask active) {
  const auto& p = in.data<Parts>();
  for (int i = 0; i < kWarpSize; ++i) {
    if (!(active >> i & 1)) continue;
    u64 words[2] = {0, 0};
    if (p.whole_bits <= 32) {
      words[0] = warp.lanes<u32>(p.whole)[i];
    } else {
      words[0] = warp.lanes<u64>(p.whole)[i];
      if (p.whole_bits == 128) words[1] = warp.lanes<u64>(p.whole)[kWarpSize + i];
    }
    for (std::size_t k = 0; k < p.slots.size(); ++k) {
      const int at = static_cast<int>(k) * p.part_bits;
      p.set_part(warp, k, i, words[at / 64] >> at % 64);
    }
  }
  return Step::kNext;
}

// The common ones: two 32-bit halves.
JFA_VECTOR_CLONES Step pack_halves(Warp& warp, const Instruction& in, LaneMask active) {
  auto* d = warp.lanes<u64>(in.operand[0]);
  const auto* low = warp.lanes<u32>(in.operand[1]);
  const auto* high = warp.lanes<u32>(in.operand[2]);
  for_lanes(active, [=](int i) { d[i] = u64{high[i]} << 32 | low[i]; });
  return Step::kNext;
}

JFA_VECTOR_CLONES Step unpack_halves(Warp& warp, const Instruction& in, LaneMask active) {
  auto* low = warp.lanes<u32>(in.operand[0]);
  auto* high = warp.lanes<u32>(in.operand[1]);
  const auto* a = warp.lanes<u64>(in.operand[2]);
  for_lanes(active, [=](int i) {
    const u64 value = a[i];
    low[i] = static_cast<u32>(value);
    high[i] = static_cast<u32>(value >> 32);
  });
  return Step::kNext;
}

void decode_vector_move(Decoder& d, int bits) {
  Parts p;
  p.whole_bits = bits;
  const bool packs = d.is_vector(1);
  const int parts = d.vector_size(packs ? 1 : 0);
  if (parts != 2 && parts != 4) d.fail("mov packs or unpacks 2 or 4 registers");
  p.part_bits = bits / parts;
  if (packs) {
    p.slots = d.vector_source(1, p.part_bits);
    p.whole = d.destination(0, bits);
  } else {
    p.whole = d.source(1, bits);
    p.slots = d.vector_destination(0, p.part_bits);
  }
  const bool halves = bits == 64 && parts == 2 && p.slots[0] != kNoSlot && p.slots[1] != kNoSlot;
  if (halves && packs) {
    d.emit(pack_halves).operand = {p.whole, p.slots[0], p.slots[1]};
  } else if (halves) {
    d.emit(unpack_halves).operand = {p.slots[0], p.slots[1], p.whole};
  } else {
    const Parts* data = d.attach(std::move(p));
    d.emit(packs ? pack : unpack).extra = data;
  }
}

template <class T>
void decode_move(Decoder& d) {
  const int bits = Lane<T>::kBits;
  if (d.is_vector(0) || d.is_vector(1)) return decode_vector_move(d, bits);
  const std::string_view name = d.special_name(1);
  if (name == "%clock64" || name == "%clock" || name == "%globaltimer" || name == "%clock_hi" ||
      name == "%globaltimer_lo") {
    Instruction& in = d.emit(read_clock);
    in.operand[0] = d.destination(0, bits);
    in.small[0] = static_cast<u8>(bits);
    return;
  }
  const Slot a = d.source(1, bits);
  d.emit(unary<T, T, same<T>>).operand = {d.destination(0, bits), a};
}

template <class T>
JFA_VECTOR_CLONES Step select(Warp& warp, const Instruction& in, LaneMask active) {
  auto* d = warp.lanes<T>(in.operand[0]);
  const auto* a = warp.lanes<T>(in.operand[1]);
  const auto* b = warp.lanes<T>(in.operand[2]);
  const LaneMask p = warp.predicate(in.operand[3]);
  for_lanes(active, [=](int i) { d[i] = (p >> i & 1) != 0 ? a[i] : b[i]; });
  return Step::kNext;
}

template <class T, bool is_float>
void decode_select(Decoder& d, int bits) {
  const Slot a = is_float ? d.float_source(1, bits) : d.source(1, bits);
  const Slot b = is_float ? d.float_source(2, bits) : d.source(2, bits);
  const Slot p = d.source(3, 1);
  d.emit(select<T>).operand = {d.destination(0, bits), a, b, p};
}

// slct d, a, b, c: a if c >= 0, else b. small[0]: .ftz.
template <class T, class C>
Step sign_select(Warp& warp, const Instruction& in, LaneMask active) {
  auto* d = warp.lanes<T>(in.operand[0]);
  const auto* a = warp.lanes<T>(in.operand[1]);
  const auto* b = warp.lanes<T>(in.operand[2]);
  const auto* c = Lane<C>::at(warp, in.operand[3]);
  const bool flush = in.small[0] != 0;
  for_lanes(active, [=](int i) {
    C value = Lane<C>::get(c[i]);
    if constexpr (std::is_same_v<C, float>)
      if (flush) value = flush_to_zero(value);
    d[i] = value >= 0 ? a[i] : b[i];
  });
  return Step::kNext;
}
template <class T, class C>
void decode_sign_select(Decoder& d) {
  const int bits = Lane<T>::kBits;
  const Slot a = d.source(1, bits), b = d.source(2, bits), c = d.float_or_source<C>(3);
  Instruction& in = d.emit(sign_select<T, C>);
  in.operand = {d.destination(0, bits), a, b, c};
  in.small[0] = d.has("ftz");
}

// cvta: the windows of the generic space.
Step add_window(Warp& warp, const Instruction& in, LaneMask active) {
  auto* d = warp.lanes<u64>(in.operand[0]);
  const auto* a = warp.lanes<u64>(in.operand[1]);
  const auto window = static_cast<u64>(in.immediate);
  for_lanes(active, [=](int i) { d[i] = a[i] + window; });
  return Step::kNext;
}

void decode_cvta(Decoder& d) {
  const std::string_view space = d.first_of(
      {"global", "const", "shared", "shared::cta", "shared::cluster", "local", "param", "param::entry"});
  u64 window = 0;
  if (space.substr(0, 6) == "shared") window = kSharedWindow;
  if (space == "local") window = kLocalWindow;
  if (space.substr(0, 5) == "param") window = kParamWindow;
  const Slot a = d.source(1, 64);
  Instruction& in = d.emit(add_window);
  in.operand = {d.destination(0, 64), a};
  in.immediate = static_cast<s64>(d.has("to") ? 0 - window : window);
}

// isspacep: which window holds a generic address.
Step is_space(Warp& warp, const Instruction& in, LaneMask active) {
  const auto* a = warp.lanes<u64>(in.operand[1]);
  const auto window = static_cast<u64>(in.immediate);
  const LaneMask result =
      mask_of([=](int i) { return window != 0 ? in_window(a[i], window) : a[i] < kSharedWindow; });
  warp.set_predicate(in.operand[0], active, result);
  return Step::kNext;
}

// mapa: the same offset in the CTA of another rank. getctarank: whose it is.
template <class T>
constexpr auto map_rank = [](T a, u32 rank) -> T {
  constexpr u64 kRankMask = 0xff00'0000;
  return static_cast<T>((a & ~kRankMask) | u64{rank} << kSharedRankShift);
};
template <class T>
Step map_address(Warp& warp, const Instruction& in, LaneMask active) {
  auto* d = warp.lanes<T>(in.operand[0]);
  const auto* a = warp.lanes<T>(in.operand[1]);
  const auto* b = warp.lanes<u32>(in.operand[2]);
  for_lanes(active, [=](int i) { d[i] = map_rank<T>(a[i], b[i]); });
  return Step::kNext;
}
template <class T>
void decode_mapa(Decoder& d) {
  const Slot a = d.source(1, Lane<T>::kBits), rank = d.source(2, 32);
  d.emit(map_address<T>).operand = {d.destination(0, Lane<T>::kBits), a, rank};
}
template <class T>
constexpr auto rank_of = [](T a) { return static_cast<u32>(a) >> kSharedRankShift; };

}  // namespace

void register_move(InstructionTable& t) {
  t.add("mov.pred", [](Decoder& d) {
    const Slot a = d.source(1, 1);
    d.emit(move_predicate).operand = {d.destination(0, 1), a};
  });
  t.add("mov.(b16|u16|s16)", decode_move<u16>);
  t.add("mov.(b32|u32|s32|f32)", decode_move<u32>);
  t.add("mov.(b64|u64|s64|f64)", decode_move<u64>);
  t.add("mov.b128", [](Decoder& d) {
    if (d.is_vector(0) || d.is_vector(1)) return decode_vector_move(d, 128);
    const Slot a = d.source(1, 128);
    d.emit(move_128).operand = {d.destination(0, 128), a};
  });
  t.add("selp.(b16|u16|s16)", [](Decoder& d) { decode_select<u32, false>(d, 16); });
  t.add("selp.(b32|u32|s32)", [](Decoder& d) { decode_select<u32, false>(d, 32); });
  t.add("selp.f32", [](Decoder& d) { decode_select<u32, true>(d, 32); });
  t.add("selp.(b64|u64|s64)", [](Decoder& d) { decode_select<u64, false>(d, 64); });
  t.add("selp.f64", [](Decoder& d) { decode_select<u64, true>(d, 64); });
  t.add("slct.(b32|u32|s32|f32).s32", decode_sign_select<u32, s32>);
  t.add("slct.(b64|u64|s64|f64).s32", decode_sign_select<u64, s32>);
  t.add("slct.ftz?.(b32|u32|s32|f32).f32", decode_sign_select<u32, float>);
  t.add("cvta.to?.(global|const|shared|shared::cta|shared::cluster|local|param|param::entry).u64",
        decode_cvta);
  t.add("isspacep.(global|shared|shared::cta|shared::cluster|local|param|const)", [](Decoder& d) {
    const Slot a = d.source(1, 64);
    const std::string_view space = d.modifier(0);
    Instruction& in = d.emit(is_space);
    in.operand = {d.destination(0, 1), a};
    in.immediate = static_cast<s64>(space == "global" || space == "const" ? 0
                                    : space == "local"                    ? kLocalWindow
                                    : space == "param"                    ? kParamWindow
                                                                          : kSharedWindow);
  });
  t.add("mapa.shared::cluster?.u32", decode_mapa<u32>);
  t.add("mapa.shared::cluster?.u64", decode_mapa<u64>);
  t.add("getctarank.shared::cluster?.u32", decode_unary<u32, u32, rank_of<u32>>);
  t.add("getctarank.shared::cluster?.u64", decode_unary<u32, u64, rank_of<u64>>);
}

}  // namespace jfa::simulator
