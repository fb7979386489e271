// Branches, exits, traps, and what has no effect in this model.
#include <fmt/format.h>

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

// immediate: the index that takes the next branch.
Step compare_index(Warp& warp, const Instruction& in, LaneMask active) {
  const auto* index = warp.lanes<u32>(in.operand[1]);
  warp.set_predicate(in.operand[0], active, mask_of([=](int i) { return index[i] == in.immediate; }));
  return Step::kNext;
}

Step no_such_index(Warp& warp, const Instruction& in, LaneMask active) {
  const int lane = std::countr_zero(active);
  fail(ErrorKind::kInvalidOperand, warp.point(in, lane),
       fmt::format("brx.idx with index {} into a list of {} targets", warp.lanes<u32>(in.operand[0])[lane],
                   in.immediate));
}

// A chain of branches, each behind its comparison.
void decode_indexed_branch(Decoder& d) {
  const std::vector<std::string>& targets = d.branch_targets(1);
  const Slot chosen = d.scratch(1);
  const Slot index = d.source(0, 32);
  d.emit_behind_guard([&] {
    std::int64_t i = 0;
    for (const std::string& label : targets) {
      Instruction& compare = d.emit(compare_index);
      compare.operand = {chosen, index};
      compare.immediate = i++;
      d.emit_branch(branch, label).guard = chosen;
    }
    Instruction& beyond = d.emit(no_such_index);
    beyond.operand[0] = index;
    beyond.immediate = i;
  });
}

}  // namespace

void register_control(InstructionTable& t) {
  t.add("bra.uni?", [](Decoder& d) { d.emit_branch(branch, 0); });
  t.add("brx.idx.uni?", decode_indexed_branch);
  t.add("ret.uni?", [](Decoder& d) { d.is_called() ? d.emit_return(branch) : d.emit_exit(leave); });
  t.add("exit", [](Decoder& d) { d.emit_exit(leave); });
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
