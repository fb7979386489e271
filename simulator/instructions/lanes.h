// How instruction families write their handlers: a function of one lane's values becomes a handler for 32.
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "simulator/decode/instruction_table.h"
#include "simulator/machine/machine.h"
#include "simulator/machine/vector_clones.h"

namespace jfa::simulator {

using u8 = std::uint8_t;
using u16 = std::uint16_t;
using u32 = std::uint32_t;
using u64 = std::uint64_t;
using s8 = std::int8_t;
using s16 = std::int16_t;
using s32 = std::int32_t;
using s64 = std::int64_t;

/// How a value of type T lies in a register slot: 32 bits, zero-extended, or 64.
template <class T>
struct Lane {
  using Storage = std::conditional_t<sizeof(T) == 8, u64, u32>;
  static constexpr int kBits = static_cast<int>(sizeof(T)) * 8;
  static T get(Storage raw) {
    if constexpr (std::is_floating_point_v<T>)
      return std::bit_cast<T>(raw);
    else
      return static_cast<T>(raw);
  }
  static Storage put(T value) {
    if constexpr (std::is_floating_point_v<T>)
      return std::bit_cast<Storage>(value);
    else
      return static_cast<Storage>(static_cast<std::make_unsigned_t<T>>(value));
  }
  static Storage* at(Warp& warp, Slot slot) { return warp.lanes<Storage>(slot); }
};

/// Calls f(lane) for the active lanes; lanes are independent, so that the full case becomes vector code.
template <class F>
[[gnu::always_inline]] inline void for_lanes(LaneMask active, F f) {
  if (active == kAllLanes) {
#pragma GCC ivdep
    for (int i = 0; i < kWarpSize; ++i) f(i);
  } else {
    for (int i = 0; i < kWarpSize; ++i)
      if (active >> i & 1) f(i);
  }
}

/// Bit i is f(i), for all 32 lanes.
template <class F>
[[gnu::always_inline]] inline LaneMask mask_of(F f) {
  std::uint8_t bytes[kWarpSize];
  for (int i = 0; i < kWarpSize; ++i) bytes[i] = f(i) ? 1 : 0;
  LaneMask mask = 0;
  for (int i = 0; i < kWarpSize; i += 8) {
    std::uint64_t eight;
    std::memcpy(&eight, bytes + i, sizeof eight);
    mask |= static_cast<LaneMask>(eight * 0x0102040810204080u >> 56) << i;  // bit 0 of each byte
  }
  return mask;
}

// Handlers for `op d, a`, `op d, a, b`, `op d, a, b, c`: D and S are the types of result and sources.
template <class D, class S, auto f>
JFA_VECTOR_CLONES Step unary(Warp& warp, const Instruction& in, LaneMask active) {
  auto* d = Lane<D>::at(warp, in.operand[0]);
  const auto* a = Lane<S>::at(warp, in.operand[1]);
  for_lanes(active, [=](int i) { d[i] = Lane<D>::put(f(Lane<S>::get(a[i]))); });
  return Step::kNext;
}

template <class D, class S, auto f>
JFA_VECTOR_CLONES Step binary(Warp& warp, const Instruction& in, LaneMask active) {
  auto* d = Lane<D>::at(warp, in.operand[0]);
  const auto* a = Lane<S>::at(warp, in.operand[1]);
  const auto* b = Lane<S>::at(warp, in.operand[2]);
  for_lanes(active, [=](int i) { d[i] = Lane<D>::put(f(Lane<S>::get(a[i]), Lane<S>::get(b[i]))); });
  return Step::kNext;
}

/// C: the type of the third source, where it differs (mad.wide).
template <class D, class S, auto f, class C = S>
JFA_VECTOR_CLONES Step ternary(Warp& warp, const Instruction& in, LaneMask active) {
  auto* d = Lane<D>::at(warp, in.operand[0]);
  const auto* a = Lane<S>::at(warp, in.operand[1]);
  const auto* b = Lane<S>::at(warp, in.operand[2]);
  const auto* c = Lane<C>::at(warp, in.operand[3]);
  for_lanes(active, [=](int i) {
    d[i] = Lane<D>::put(f(Lane<S>::get(a[i]), Lane<S>::get(b[i]), Lane<C>::get(c[i])));
  });
  return Step::kNext;
}

// Their decoding.
template <class D, class S, auto f>
void decode_unary(Decoder& d) {
  const Slot a = d.float_or_source<S>(1);
  const Slot r = d.destination(0, Lane<D>::kBits);
  d.emit(unary<D, S, f>).operand = {r, a};
}

template <class D, class S, auto f>
void decode_binary(Decoder& d) {
  const Slot a = d.float_or_source<S>(1);
  const Slot b = d.float_or_source<S>(2);
  const Slot r = d.destination(0, Lane<D>::kBits);
  d.emit(binary<D, S, f>).operand = {r, a, b};
}

template <class D, class S, auto f, class C = S>
void decode_ternary(Decoder& d) {
  const Slot a = d.float_or_source<S>(1);
  const Slot b = d.float_or_source<S>(2);
  const Slot c = d.float_or_source<C>(3);
  const Slot r = d.destination(0, Lane<D>::kBits);
  d.emit(ternary<D, S, f, C>).operand = {r, a, b, c};
}

}  // namespace jfa::simulator
