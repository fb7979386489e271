// fence.*, membar, griddepcontrol. Instructions run one at a time here, so that a thread fence has nothing to
// order; what is checked is that proxies are fenced where they meet.
#include <string_view>

#include "simulator/instruction_table.h"
#include "simulator/machine.h"

namespace jfa::simulator {
namespace {

// From here on the asynchronous proxy sees what these threads wrote to shared memory.
Step fence_shared(Warp& warp, const Instruction&, LaneMask active) {
  if (warp.clock != nullptr) warp.cta().cluster().order.fence_proxy(*warp.clock, active, warp.live());
  return Step::kNext;
}

void nothing(Decoder&) {}

}  // namespace

void register_fence(InstructionTable& table) {
  for (const std::string_view pattern :
       {"fence.proxy.async .(shared::cta|shared::cluster)?",
        "fence.proxy.async::generic.release.sync_restrict::shared::cta.cluster"})
    table.add(pattern, [](Decoder& d) { d.emit(fence_shared); });

  for (const std::string_view pattern :
       {"fence.proxy.async.global",
        "fence.proxy.async::generic.acquire.sync_restrict::shared::cluster.cluster",
        "fence .(acq_rel|sc|acquire|release) .(cta|cluster|gpu|sys)",
        "fence.release.sync_restrict::shared::cta.cluster",
        "fence.acquire.sync_restrict::shared::cluster.cluster", "fence.mbarrier_init.release.cluster",
        "fence.proxy.alias", "fence.proxy.tensormap::generic.release .(cta|cluster|gpu|sys)",
        "membar .(cta|gl|sys)"})
    table.add(pattern, nothing);

  // One grid runs at a time, so that those before it have ended; see grid_dependency.h.
  table.add("griddepcontrol.launch_dependents", [](Decoder& d) {
    d.emit([](Warp& warp, const Instruction&, LaneMask) {
      warp.machine().memory().let_dependents_go(&warp.cta());
      return Step::kNext;
    });
  });
  table.add("griddepcontrol.wait", [](Decoder& d) {
    d.emit([](Warp& warp, const Instruction&, LaneMask) {
      warp.machine().memory().meet_grid_dependency(&warp.cta());
      return Step::kNext;
    });
  });

  table.add("fence.proxy.tensormap::generic.acquire .(cta|cluster|gpu|sys)", [](Decoder& d) {
    d.address(0);
    if (d.immediate(1) != 128) d.fail("the size of a tensor map is 128");
  });
}

}  // namespace jfa::simulator
