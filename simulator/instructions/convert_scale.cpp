// cvt to and from ue8m0, the powers of two that scale blocks of narrow elements, in pairs.
#include <bit>

#include "simulator/instructions/lanes.h"

namespace jfa::simulator {
namespace {

constexpr u32 kNan = 0xff;

// The exponent of the magnitude; `up`: of the next power of two, unless it is one.
u32 encode_scale(u32 f32_bits, bool up, bool saturate) {
  const u32 magnitude = f32_bits & 0x7fff'ffff;
  if (magnitude > 0x7f80'0000) return kNan;
  constexpr u32 kSmallest = 0x0040'0000;  // 2^-127, a subnormal; its code is 0
  u32 code = magnitude >> 23;
  if (up && magnitude < 0x7f80'0000 && magnitude > kSmallest && (magnitude & 0x7f'ffff) != 0) ++code;
  return saturate && code == kNan ? kNan - 1 : code;
}

u32 bf16_of_scale(u32 code) { return code == kNan ? 0x7fff : code == 0 ? 0x0040 : code << 7; }

struct ScaleModifiers {
  bool up = false;
  bool saturate = false;
};
ScaleModifiers modifiers_of(const Decoder& d) { return {d.has("rp"), d.has("satfinite")}; }

// The first source goes to the upper byte.
Step from_f32(Warp& warp, const Instruction& in, LaneMask active) {
  const auto& m = in.data<ScaleModifiers>();
  auto* d = warp.lanes<u32>(in.operand[0]);
  const auto* a = warp.lanes<u32>(in.operand[1]);
  const auto* b = warp.lanes<u32>(in.operand[2]);
  for (int i = 0; i < kWarpSize; ++i)
    if (active >> i & 1)
      d[i] = encode_scale(a[i], m.up, m.saturate) << 8 | encode_scale(b[i], m.up, m.saturate);
  return Step::kNext;
}

Step from_bf16x2(Warp& warp, const Instruction& in, LaneMask active) {
  const auto& m = in.data<ScaleModifiers>();
  auto* d = warp.lanes<u32>(in.operand[0]);
  const auto* a = warp.lanes<u32>(in.operand[1]);
  for (int i = 0; i < kWarpSize; ++i)
    if (active >> i & 1)
      d[i] = encode_scale(a[i] & 0xffff'0000, m.up, m.saturate) << 8 |
             encode_scale(a[i] << 16, m.up, m.saturate);
  return Step::kNext;
}

constexpr auto to_bf16x2 = [](u32 a) { return bf16_of_scale(a >> 8 & 0xff) << 16 | bf16_of_scale(a & 0xff); };

}  // namespace

void register_convert_scale(InstructionTable& t) {
  t.set_need(TargetNeed::kBlackwell);
  t.add("cvt .(rz|rp) .satfinite? .ue8m0x2.f32", [](Decoder& d) {
    const Slot a = d.float_source(1, 32), b = d.float_source(2, 32);
    const auto* data = d.attach(modifiers_of(d));
    Instruction& in = d.emit(from_f32);
    in.operand = {d.destination(0, 16), a, b};
    in.extra = data;
  });
  t.add("cvt .(rz|rp) .satfinite? .ue8m0x2.bf16x2", [](Decoder& d) {
    const Slot a = d.source(1, 32);
    const auto* data = d.attach(modifiers_of(d));
    Instruction& in = d.emit(from_bf16x2);
    in.operand = {d.destination(0, 16), a};
    in.extra = data;
  });
  t.add("cvt .rn .bf16x2.ue8m0x2", [](Decoder& d) {
    const Slot a = d.source(1, 16);
    d.emit(unary<u32, u32, to_bf16x2>).operand = {d.destination(0, 32), a};
  });
  t.set_need(TargetNeed::kNothing);
}

}  // namespace jfa::simulator
