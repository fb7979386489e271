// Branches, exits, traps, and what has no effect in this model.
#include "simulator/instructions/lanes.h"

namespace jfa::simulator {
namespace {

Step branch(Warp& warp, const Instruction& in, LaneMask active) { return warp.branch(in, active); }
Step leave(Warp& warp, const Instruction&, LaneMask active) { return warp.exit(active); }
Step nothing(Warp&, const Instruction&, LaneMask) { return Step::kNext; }
Step sleep(Warp&, const Instruction&, LaneMask) { return Step::kYield; }

Step trap(Warp& warp, const Instruction& in, LaneMask active) {
  fail(ErrorKind::kTrap, warp.point(in, std::countr_zero(active)), "the kernel executed a trap");
}

}  // namespace

void register_control(InstructionTable& t) {
  t.add("bra.uni?", [](Decoder& d) { d.emit_branch(branch, 0); });
  for (const char* pattern : {"ret.uni?", "exit"}) t.add(pattern, [](Decoder& d) { d.emit_exit(leave); });
  t.add("trap", [](Decoder& d) { d.emit(trap); });
  t.add("brkpt", [](Decoder& d) { d.emit(trap); });
  t.add("nanosleep.u32", [](Decoder& d) {
    d.source(0, 32);
    d.emit(sleep);
  });
  t.add("pmevent.mask?", [](Decoder& d) {
    d.immediate(0);
    d.emit(nothing);
  });
  t.add_hint("prefetch.(const|param|param::entry).tensormap");
  t.add_hint("prefetch.global?.(L1|L2|L2::evict_last|L2::evict_normal)");
  t.add_hint("prefetchu.L1");
  t.add_hint("applypriority.global?.L2::evict_normal");
  t.add_hint("discard.global?.L2");
  // A policy is only ever handed back as a cache hint.
  t.add(
      "createpolicy.fractional"
      ".(L2::evict_first|L2::evict_last|L2::evict_normal|L2::evict_unchanged)"
      ".(L2::evict_first|L2::evict_unchanged)?.b64",
      [](Decoder& d) {
        if (d.count() > 1) d.float_source(1, 32);
        const Slot zero = d.constant(0, 64);
        d.emit(unary<u64, u64, [](u64 a) { return a; }>).operand = {d.destination(0, 64), zero};
      });
}

}  // namespace jfa::simulator
