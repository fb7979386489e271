// Instructions across the lanes of a warp: shfl, vote, match, elect, redux, activemask.
#include <algorithm>
#include <cmath>
#include <map>

#include "simulator/instructions/lanes.h"

namespace jfa::simulator {
namespace {

// The member mask; all participating lanes must name the same one.
LaneMask members_of(Warp& warp, const Instruction& in, LaneMask active, Slot slot) {
  const auto* masks = warp.lanes<u32>(slot);
  const LaneMask members = masks[std::countr_zero(active)];
  for (int i = 0; i < kWarpSize; ++i) {
    if (!(active >> i & 1)) continue;
    if (masks[i] != members)
      fail(ErrorKind::kDivergence, warp.point(in, i), "lanes of one warp name different member masks");
    if (!(members >> i & 1))
      fail(ErrorKind::kDivergence, warp.point(in, i),
           "a lane executes a warp-wide instruction whose member mask excludes it");
  }
  return members;
}

#define JFA_CONVERGE(slot) \
  if (Step step; !warp.converge(members_of(warp, in, active, slot), in, active, step)) return step

// --- shfl.sync: small[0] is the mode.
enum Mode : u8 { kUp, kDown, kBfly, kIdx };

Step shuffle(Warp& warp, const Instruction& in, LaneMask active) {
  JFA_CONVERGE(in.operand[5]);
  const auto* a = warp.lanes<u32>(in.operand[2]);
  const auto* b = warp.lanes<u32>(in.operand[3]);
  const auto* c = warp.lanes<u32>(in.operand[4]);
  u32 result[kWarpSize] = {};
  LaneMask in_range = 0;
  for (int lane = 0; lane < kWarpSize; ++lane) {
    if (!(active >> lane & 1)) continue;
    const int b_value = static_cast<int>(b[lane] & 31);
    const int clamp = static_cast<int>(c[lane] & 31);
    const int segment = static_cast<int>(c[lane] >> 8 & 31);
    const int max_lane = (lane & segment) | (clamp & ~segment);
    const int min_lane = lane & segment;
    int from = lane;
    bool valid = false;
    switch (in.small[0]) {
      case kUp:
        from = lane - b_value;
        valid = from >= max_lane;
        break;
      case kDown:
        from = lane + b_value;
        valid = from <= max_lane;
        break;
      case kBfly:
        from = lane ^ b_value;
        valid = from <= max_lane;
        break;
      case kIdx:
        from = min_lane | (b_value & ~segment);
        valid = from <= max_lane;
        break;
      default:
        break;
    }
    if (!valid) from = lane;
    if (!(active >> from & 1) && warp.machine().checks())
      fail(ErrorKind::kDivergence, warp.point(in, lane),
           "shfl reads lane " + std::to_string(from) + ", which takes no part in it");
    result[lane] = a[from];
    in_range |= LaneMask{valid} << lane;
  }
  if (in.operand[0] != kNoSlot) {
    auto* d = warp.lanes<u32>(in.operand[0]);
    for_lanes(active, [&](int i) { d[i] = result[i]; });
  }
  if (in.operand[1] != kNoSlot) warp.set_predicate(in.operand[1], active, in_range);
  return Step::kNext;
}

void decode_shuffle(Decoder& d) {
  const std::string_view mode = d.first_of({"up", "down", "bfly", "idx"});
  const Slot a = d.source(1, 32), b = d.source(2, 32), c = d.source(3, 32), m = d.source(4, 32);
  Instruction& in = d.emit(shuffle);
  in.operand = {d.destination(0, 32), d.second_destination(0, 1), a, b, c, m};
  in.small[0] = mode == "up" ? kUp : mode == "down" ? kDown : mode == "bfly" ? kBfly : kIdx;
}

// --- vote.sync
enum Vote : u8 { kAll, kAny, kUni, kBallot };

Step vote(Warp& warp, const Instruction& in, LaneMask active) {
  JFA_CONVERGE(in.operand[2]);
  const LaneMask votes = warp.predicate(in.operand[1]) & active;
  if (in.small[0] == kBallot) {
    auto* d = warp.lanes<u32>(in.operand[0]);
    for_lanes(active, [=](int i) { d[i] = votes; });
    return Step::kNext;
  }
  const bool result = in.small[0] == kAll   ? votes == active
                      : in.small[0] == kAny ? votes != 0
                                            : votes == 0 || votes == active;
  warp.set_predicate(in.operand[0], active, result ? kAllLanes : 0);
  return Step::kNext;
}

void decode_vote(Decoder& d) {
  const std::string_view mode = d.first_of({"all", "any", "uni", "ballot"});
  const Slot p = d.source(1, 1), m = d.source(2, 32);
  Instruction& in = d.emit(vote);
  in.operand = {d.destination(0, mode == "ballot" ? 32 : 1), p, m};
  in.small[0] = mode == "all" ? kAll : mode == "any" ? kAny : mode == "uni" ? kUni : kBallot;
}

Step active_mask(Warp& warp, const Instruction& in, LaneMask active) {
  auto* d = warp.lanes<u32>(in.operand[0]);
  for_lanes(active, [=](int i) { d[i] = active; });
  return Step::kNext;
}

// elect.sync d|p, members: the lowest member.
Step elect(Warp& warp, const Instruction& in, LaneMask active) {
  JFA_CONVERGE(in.operand[2]);
  const int leader = std::countr_zero(active);
  if (in.operand[0] != kNoSlot) {
    auto* d = warp.lanes<u32>(in.operand[0]);
    for_lanes(active, [=](int i) { d[i] = static_cast<u32>(leader); });
  }
  if (in.operand[1] != kNoSlot) warp.set_predicate(in.operand[1], active, LaneMask{1} << leader);
  return Step::kNext;
}

// --- match.sync
template <class T, bool all>
Step match(Warp& warp, const Instruction& in, LaneMask active) {
  JFA_CONVERGE(in.operand[3]);
  const auto* a = warp.lanes<T>(in.operand[2]);
  auto* d = warp.lanes<u32>(in.operand[0]);
  std::map<T, LaneMask> groups;
  for (int i = 0; i < kWarpSize; ++i)
    if (active >> i & 1) groups[a[i]] |= LaneMask{1} << i;
  const bool same = groups.size() == 1;
  for (int i = 0; i < kWarpSize; ++i)
    if (active >> i & 1) d[i] = all ? (same ? active : 0) : groups[a[i]];
  if (in.operand[1] != kNoSlot) warp.set_predicate(in.operand[1], active, same ? kAllLanes : 0);
  return Step::kNext;
}
template <class T, bool all>
void decode_match(Decoder& d) {
  const Slot a = d.source(1, Lane<T>::kBits), m = d.source(2, 32);
  Instruction& in = d.emit(match<T, all>);
  in.operand = {d.destination(0, 32), d.second_destination(0, 1), a, m};
}

// --- redux.sync
template <class T, auto f>
Step reduce(Warp& warp, const Instruction& in, LaneMask active) {
  JFA_CONVERGE(in.operand[2]);
  const auto* a = Lane<T>::at(warp, in.operand[1]);
  auto* d = Lane<T>::at(warp, in.operand[0]);
  T total = Lane<T>::get(a[std::countr_zero(active)]);
  for (int i = std::countr_zero(active) + 1; i < kWarpSize; ++i)
    if (active >> i & 1) total = f(total, Lane<T>::get(a[i]));
  for_lanes(active, [=](int i) { d[i] = Lane<T>::put(total); });
  return Step::kNext;
}
template <class T, auto f>
void decode_reduce(Decoder& d) {
  const Slot a = d.source(1, 32), m = d.source(2, 32);
  d.emit(reduce<T, f>).operand = {d.destination(0, 32), a, m};
}

// Without .NaN a NaN loses; +0 is greater than −0.
template <bool greatest, bool absolute, bool keeps_nan>
constexpr auto float_extreme = [](float a, float b) {
  if (absolute) a = std::fabs(a), b = std::fabs(b);
  if (std::isnan(a) || std::isnan(b)) {
    if (keeps_nan || (std::isnan(a) && std::isnan(b))) return std::bit_cast<float>(0x7fffffffu);
    return std::isnan(a) ? b : a;
  }
  const bool a_first = a < b || (a == b && std::signbit(a));
  return a_first == greatest ? b : a;
};

Step warp_barrier(Warp& warp, const Instruction& in, LaneMask active) {
  JFA_CONVERGE(in.operand[0]);
  if (warp.clock != nullptr) warp.cta().cluster().order.sync_lanes(*warp.clock, active, warp.live());
  return Step::kNext;
}

}  // namespace

void register_warp(InstructionTable& t) {
  t.add("shfl.sync.(up|down|bfly|idx).b32", decode_shuffle);
  t.add("vote.sync.(all|any|uni).pred", decode_vote);
  t.add("vote.sync.ballot.b32", decode_vote);
  t.add("activemask.b32", [](Decoder& d) { d.emit(active_mask).operand[0] = d.destination(0, 32); });
  t.add("elect.sync", [](Decoder& d) {
    const Slot m = d.source(1, 32);
    d.emit(elect).operand = {d.destination(0, 32), d.second_destination(0, 1), m};
  });
  t.add("match.any.sync.b32", decode_match<u32, false>);
  t.add("match.any.sync.b64", decode_match<u64, false>);
  t.add("match.all.sync.b32", decode_match<u32, true>);
  t.add("match.all.sync.b64", decode_match<u64, true>);
  t.add("redux.sync.add.(u32|s32)", decode_reduce<u32, [](u32 a, u32 b) { return a + b; }>);
  t.add("redux.sync.min.u32", decode_reduce<u32, [](u32 a, u32 b) { return std::min(a, b); }>);
  t.add("redux.sync.max.u32", decode_reduce<u32, [](u32 a, u32 b) { return std::max(a, b); }>);
  t.add("redux.sync.min.s32", decode_reduce<s32, [](s32 a, s32 b) { return std::min(a, b); }>);
  t.add("redux.sync.max.s32", decode_reduce<s32, [](s32 a, s32 b) { return std::max(a, b); }>);
  t.add("redux.sync.and.b32", decode_reduce<u32, [](u32 a, u32 b) { return a & b; }>);
  t.add("redux.sync.or.b32", decode_reduce<u32, [](u32 a, u32 b) { return a | b; }>);
  t.add("redux.sync.xor.b32", decode_reduce<u32, [](u32 a, u32 b) { return a ^ b; }>);
  t.set_need(TargetNeed::kBlackwell);
  t.add("redux.sync.min.f32", decode_reduce<float, float_extreme<false, false, false>>);
  t.add("redux.sync.max.f32", decode_reduce<float, float_extreme<true, false, false>>);
  t.add("redux.sync.min.NaN.f32", decode_reduce<float, float_extreme<false, false, true>>);
  t.add("redux.sync.max.NaN.f32", decode_reduce<float, float_extreme<true, false, true>>);
  t.add("redux.sync.min.abs.f32", decode_reduce<float, float_extreme<false, true, false>>);
  t.add("redux.sync.max.abs.f32", decode_reduce<float, float_extreme<true, true, false>>);
  t.add("redux.sync.min.abs.NaN.f32", decode_reduce<float, float_extreme<false, true, true>>);
  t.add("redux.sync.max.abs.NaN.f32", decode_reduce<float, float_extreme<true, true, true>>);
  t.set_need(TargetNeed::kNothing);
  t.add("bar.warp.sync",
        [](Decoder& d) {
          const Slot m = d.source(0, 32);
          d.emit(warp_barrier).operand[0] = m;
        },
        {.synchronises = {{"bar.warp.sync"}}});
}

}  // namespace jfa::simulator
