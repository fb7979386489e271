// clusterlaunchcontrol: a running CTA takes a cluster that has not started. The response is opaque; here it
// is the first CTA's index and whether there was one.
#include <fmt/format.h>

#include <cstring>
#include <memory>

#include "simulator/async/bulk_copy.h"
#include "simulator/async/mbarrier.h"
#include "simulator/decode/instruction_table.h"
#include "simulator/instructions/async_address.h"
#include "simulator/machine/machine.h"

namespace jfa::simulator {
namespace {

struct Response {
  std::uint32_t x = 0, y = 0, z = 0;
  std::uint32_t canceled = 0;
};
static_assert(sizeof(Response) == 16);

class TryCancel final : public AsyncOperation {
 public:
  TryCancel(const std::vector<BulkDestination>& destinations, const ProgramPoint& point)
      : AsyncOperation(point),
        arrivals_(destinations, sizeof(Response), sizeof(Response), "clusterlaunchcontrol.try_cancel",
                  point) {}

  bool advance(Machine& machine) override {
    if (written_) {
      arrivals_.complete();
      return true;
    }
    Response response;
    if (const auto first = machine.cancel_next_cluster()) response = {first->x, first->y, first->z, 1};
    for (const BulkDestination& to : arrivals_.destinations()) {
      std::memcpy(to.cta->shared().data(to.offset), &response, sizeof response);
      to.cta->shared().note_async_write(to.offset, sizeof response);
    }
    written_ = true;
    return false;
  }
  std::string describe() const override { return "clusterlaunchcontrol.try_cancel"; }

 private:
  BulkArrivals arrivals_;
  bool written_ = false;
};

struct CancelOperands {
  AddressOperand response, barrier;
  bool multicast = false;
};

Step try_cancel(Warp& warp, const Instruction& in, LaneMask active) {
  const auto& o = in.data<CancelOperands>();
  for_each_lane(warp, in, active, [&](int lane, const ProgramPoint& point) {
    const std::uint32_t offset = own_shared_offset_of(warp, o.response, lane, point);
    const std::uint32_t barrier = own_shared_offset_of(warp, o.barrier, lane, point);
    if (offset % sizeof(Response) != 0)
      fail_at(ErrorKind::kMisaligned, point, offset,
              fmt::format("the response at shared {:#x} is not aligned to 16 bytes", offset));
    std::vector<BulkDestination> destinations;
    for (Cta* cta : warp.cta().cluster().ctas)
      if (o.multicast || cta == &warp.cta())
        destinations.push_back({cta, offset, &cta->extension<Mbarriers>().at(barrier, point)});
    warp.machine().post(std::make_unique<TryCancel>(destinations, point));
  });
  return Step::kNext;
}

// Word `index` of a 128-bit register: 32 low halves, then 32 high ones.
std::uint32_t word_of(Warp& warp, Slot response, int index, int lane) {
  const std::uint64_t half = warp.lanes<std::uint64_t>(response)[index / 2 * kWarpSize + lane];
  return static_cast<std::uint32_t>(half >> 32 * (index % 2));
}

Step is_canceled(Warp& warp, const Instruction& in, LaneMask active) {
  LaneMask canceled = 0;
  for (int i = 0; i < kWarpSize; ++i)
    if (word_of(warp, in.operand[1], 3, i) == 1) canceled |= LaneMask{1} << i;
  warp.set_predicate(in.operand[0], active, canceled);
  return Step::kNext;
}

// operand 0 to 2: x, y, z, any of them absent; 3: the response.
Step first_ctaid(Warp& warp, const Instruction& in, LaneMask active) {
  for_each_lane(warp, in, active, [&](int lane, const ProgramPoint& point) {
    if (word_of(warp, in.operand[3], 3, lane) != 1 && warp.machine().checks())
      fail(ErrorKind::kInvalidOperand, point, "get_first_ctaid of a request that was not granted");
    for (int d = 0; d < 3; ++d)
      if (in.operand[static_cast<std::size_t>(d)] != kNoSlot)
        warp.lanes<std::uint32_t>(in.operand[static_cast<std::size_t>(d)])[lane] =
            word_of(warp, in.operand[3], d, lane);
  });
  return Step::kNext;
}

}  // namespace

void register_cluster_launch(InstructionTable& t) {
  t.set_need(TargetNeed::kVersion100);
  t.add(
      "clusterlaunchcontrol.try_cancel.async.shared::cta?.mbarrier::complete_tx::bytes"
      ".multicast::cluster::all?.b128",
      [](Decoder& d) {
        CancelOperands o{d.address(0), d.address(1), d.has("multicast::cluster::all")};
        d.emit(try_cancel).extra = d.attach(o);
      });
  t.add("clusterlaunchcontrol.query_cancel.is_canceled.pred.b128", [](Decoder& d) {
    const Slot response = d.source(1, 128);
    d.emit(is_canceled).operand = {d.destination(0, 1), response};
  });
  t.add("clusterlaunchcontrol.query_cancel.get_first_ctaid.v4.b32.b128", [](Decoder& d) {
    const Slot response = d.source(1, 128);
    const std::vector<Slot> to = d.vector_destination(0, 32);
    if (to.size() != 4) d.fail("get_first_ctaid.v4 has four results");
    d.emit(first_ctaid).operand = {to[0], to[1], to[2], response};
  });
  t.add(
      "clusterlaunchcontrol.query_cancel"
      ".(get_first_ctaid::x|get_first_ctaid::y|get_first_ctaid::z).b32.b128",
      [](Decoder& d) {
        const auto dimension = static_cast<std::size_t>(d.modifier(1).back() - 'x');
        const Slot response = d.source(1, 128), to = d.destination(0, 32);
        Instruction& in = d.emit(first_ctaid);
        in.operand[dimension] = to;
        in.operand[3] = response;
      });
  t.set_need(TargetNeed::kNothing);
}

}  // namespace jfa::simulator
