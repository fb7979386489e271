// fence.*, membar, griddepcontrol; those of the tensormap proxy are in tensormap.cpp. Instructions run one at
// a time here, so that a fence changes no value; what it orders is for the checkers.
#include <string_view>

#include "simulator/decode/instruction_table.h"
#include "simulator/instructions/scope.h"
#include "simulator/machine/machine.h"

namespace jfa::simulator {
namespace {

// From here on the asynchronous proxy sees what happened before.
void fence_proxy(Warp& warp, LaneMask active, FencedSpace space) {
  if (warp.clock != nullptr) warp.cta().cluster().order.fence_proxy(*warp.clock, active, warp.live(), space);
}

Step fence_shared(Warp& warp, const Instruction&, LaneMask active) {
  fence_proxy(warp, active, FencedSpace::kShared);
  return Step::kNext;
}

Step fence_global(Warp& warp, const Instruction&, LaneMask active) {
  fence_proxy(warp, active, FencedSpace::kGlobal);
  return Step::kNext;
}

Step fence_both(Warp& warp, const Instruction&, LaneMask active) {
  fence_proxy(warp, active, FencedSpace::kShared);
  fence_proxy(warp, active, FencedSpace::kGlobal);
  return Step::kNext;
}

Step fence_threads(Warp& warp, const Instruction& in, LaneMask active) {
  if (warp.clock != nullptr)
    warp.cta().cluster().order.fence(*warp.clock, active, warp.live(), in.data<MemoryOrder>());
  return Step::kNext;
}

Step fence_inits(Warp& warp, const Instruction&, LaneMask active) {
  if (warp.clock != nullptr) warp.cta().cluster().order.fence_inits(*warp.clock, active);
  return Step::kNext;
}

void decode_fence(Decoder& d) {
  MemoryOrder order;
  order.acquires = !d.has("release");
  order.releases = !d.has("acquire");
  order.scope = scope_of(d);
  const MemoryOrder* data = d.attach(order);
  d.emit(fence_threads).extra = data;
}

void decode_nothing(Decoder&) {}

}  // namespace

void register_fence(InstructionTable& table) {
  const RowFacts fence{.synchronises = {{"fence"}}}, proxy{.synchronises = {{"fence.proxy"}}};
  table.add(
      "fence.proxy.async", [](Decoder& d) { d.emit(fence_both); }, proxy);
  table.add(
      "fence.proxy.async.global", [](Decoder& d) { d.emit(fence_global); }, proxy);
  for (const std::string_view pattern :
       {"fence.proxy.async.(shared::cta|shared::cluster)",
        "fence.proxy.async::generic.release.sync_restrict::shared::cta.cluster"})
    table.add(
        pattern, [](Decoder& d) { d.emit(fence_shared); }, proxy);

  table.add("fence .(acq_rel|sc|acquire|release) .(cta|cluster|gpu|sys)", decode_fence, fence);
  table.add("membar .(cta|gl|sys)", decode_fence, fence);
  // They count for global memory, too.
  table.add("fence.release.sync_restrict::shared::cta.cluster", decode_fence, fence);
  table.add("fence.acquire.sync_restrict::shared::cluster.cluster", decode_fence, fence);
  table.add("fence.mbarrier_init.release.cluster", [](Decoder& d) { d.emit(fence_inits); },
            {.synchronises = {{"fence.mbarrier_init"}}});
  for (const std::string_view pattern :
       {"fence.proxy.async::generic.acquire.sync_restrict::shared::cluster.cluster", "fence.proxy.alias"})
    table.add(pattern, decode_nothing, proxy);

  // One grid runs at a time, so that those before it have ended; see grid_dependency.h.
  table.add("griddepcontrol.launch_dependents", [](Decoder& d) {
    d.emit([](Warp& warp, const Instruction&, LaneMask) {
      warp.machine().memory().let_dependents_go(&warp.cta());
      return Step::kNext;
    });
  });
  table.add("griddepcontrol.wait",
            [](Decoder& d) {
              d.emit([](Warp& warp, const Instruction&, LaneMask) {
                warp.machine().memory().meet_grid_dependency(&warp.cta());
                return Step::kNext;
              });
            },
            {.synchronises = {{"griddepcontrol.wait"}}});
}

}  // namespace jfa::simulator
