// mbarrier.*
#include "simulator/async/mbarrier.h"

#include <fmt/format.h>

#include <memory>
#include <utility>
#include <vector>

#include "simulator/decode/instruction_table.h"
#include "simulator/instructions/async_address.h"
#include "simulator/machine/machine.h"

namespace jfa::simulator {
namespace {

struct MbarrierOperands {
  AddressOperand address;
  Slot result = kNoSlot;  // state token or predicate
  Slot value = kNoSlot;   // count, bytes, parity or token; kNoSlot: a count of 1
  bool cluster = false;   // the barrier may be another CTA's
  bool expects = false;   // arrive.expect_tx: value is its bytes
  bool by_parity = false;
  bool may_suspend = false;  // try_wait
  bool relaxed = false;
  Mbarrier::Arrive arrive = Mbarrier::Arrive::kPlain;
};

Mbarrier& barrier_of(Warp& warp, const MbarrierOperands& o, int lane, const ProgramPoint& point) {
  if (!o.cluster) own_shared_offset_of(warp, o.address, lane, point);
  const SharedPlace place = shared_place_of(warp, o.address, lane, point);
  return place.cta->extension<Mbarriers>().at(place.offset, point);
}

Step init(Warp& warp, const Instruction& in, LaneMask active) {
  const auto& o = in.data<MbarrierOperands>();
  const LaneMask issuing = issuing_lanes(warp, active, [&] {
    return same_in_lanes(warp, o.address, active) && same_in_lanes(warp, o.value, false, active);
  });
  for_each_lane(warp, in, issuing, [&](int lane, const ProgramPoint& point) {
    const std::uint32_t offset = own_shared_offset_of(warp, o.address, lane, point);
    warp.cta().extension<Mbarriers>().init(offset, warp.lanes<std::uint32_t>(o.value)[lane], point);
  });
  return Step::kNext;
}

Step invalidate(Warp& warp, const Instruction& in, LaneMask active) {
  const auto& o = in.data<MbarrierOperands>();
  for_each_lane(warp, in, active, [&](int lane, const ProgramPoint& point) {
    const std::uint32_t offset = own_shared_offset_of(warp, o.address, lane, point);
    warp.cta().extension<Mbarriers>().invalidate(offset, point);
  });
  return Step::kNext;
}

// What the lanes have done so far is published by the barriers at which they are about to arrive, or what
// their fences have released.
void release(Warp& warp, const Instruction& in, LaneMask active, const MbarrierOperands& o) {
  if (warp.clock == nullptr) return;
  while (active != 0) {
    Mbarrier* barrier = nullptr;
    LaneMask lanes = 0;
    for_each_lane(warp, in, active, [&](int lane, const ProgramPoint& point) {
      Mbarrier& own = barrier_of(warp, o, lane, point);
      if (barrier == nullptr) barrier = &own;
      if (barrier == &own) lanes |= LaneMask{1} << lane;
    });
    if (o.relaxed)
      warp.release_fenced(lanes, barrier->arriving());
    else
      warp.release(lanes, barrier->arriving());
    active &= ~lanes;
  }
}

Step arrive_at_mbarrier(Warp& warp, const Instruction& in, LaneMask active) {
  const auto& o = in.data<MbarrierOperands>();
  release(warp, in, active, o);
  for_each_lane(warp, in, active, [&](int lane, const ProgramPoint& point) {
    Mbarrier& barrier = barrier_of(warp, o, lane, point);
    const std::uint32_t value = o.value == kNoSlot ? 1 : warp.lanes<std::uint32_t>(o.value)[lane];
    if (o.result != kNoSlot) warp.lanes<std::uint64_t>(o.result)[lane] = barrier.state_token();
    if (o.expects) barrier.expect_transaction(value, point);
    barrier.arrive(o.expects ? 1 : value, point, o.arrive);
  });
  return Step::kNext;
}

Step expect_tx(Warp& warp, const Instruction& in, LaneMask active) {
  const auto& o = in.data<MbarrierOperands>();
  for_each_lane(warp, in, active, [&](int lane, const ProgramPoint& point) {
    barrier_of(warp, o, lane, point).expect_transaction(warp.lanes<std::uint32_t>(o.value)[lane], point);
  });
  return Step::kNext;
}

Step complete_tx(Warp& warp, const Instruction& in, LaneMask active) {
  const auto& o = in.data<MbarrierOperands>();
  for_each_lane(warp, in, active, [&](int lane, const ProgramPoint& point) {
    barrier_of(warp, o, lane, point).complete_transaction(warp.lanes<std::uint32_t>(o.value)[lane], point);
  });
  return Step::kNext;
}

Step pending_count(Warp& warp, const Instruction& in, LaneMask active) {
  const auto& o = in.data<MbarrierOperands>();
  for_each_lane(warp, in, active, [&](int lane, const ProgramPoint&) {
    warp.lanes<std::uint32_t>(o.result)[lane] =
        Mbarrier::pending_count(warp.lanes<std::uint64_t>(o.value)[lane]);
  });
  return Step::kNext;
}

// --- Waiting

/// One thing a try_wait may be suspended for; lanes that ask the same share it.
struct Awaited {
  Cta* cta = nullptr;
  std::uint32_t offset = 0;
  std::uint64_t value = 0;  // parity or token
  bool operator==(const Awaited&) const = default;
};

class MbarrierWait final : public Wait {
 public:
  MbarrierWait(std::vector<Awaited> awaited, bool by_parity)
      : awaited_(std::move(awaited)), by_parity_(by_parity) {}

  bool ready() const override {
    for (const Awaited& a : awaited_) {
      const Mbarrier* barrier = a.cta->extension<Mbarriers>().find(a.offset);
      // A barrier that is gone is found out when the instruction runs again.
      if (!barrier || (by_parity_ ? barrier->parity_done(static_cast<std::uint32_t>(a.value))
                                  : barrier->state_done(a.value)))
        return true;
    }
    return false;
  }

  std::string describe() const override {
    std::string text;
    for (const Awaited& a : awaited_) {
      if (!text.empty()) text += "\nor ";
      const Mbarrier* barrier = a.cta->extension<Mbarriers>().find(a.offset);
      const std::string what =
          by_parity_ ? fmt::format("parity {}", a.value) : fmt::format("phase {}", a.value >> 20);
      text += fmt::format("{} of {}", what, barrier ? barrier->describe() : "an mbarrier that is gone");
    }
    return text;
  }

 private:
  std::vector<Awaited> awaited_;
  bool by_parity_;
};

std::uint64_t awaited_value(Warp& warp, const MbarrierOperands& o, int lane, const ProgramPoint& point) {
  if (!o.by_parity) return warp.lanes<std::uint64_t>(o.value)[lane];
  const std::uint32_t parity = warp.lanes<std::uint32_t>(o.value)[lane];
  if (parity > 1)
    fail(ErrorKind::kInvalidOperand, point,
         fmt::format("the parity of an mbarrier wait is {}, not 0 or 1", parity));
  return parity;
}

// One wait in so many finds nothing on the random schedule, done or not: PTX allows that, and programs have
// to loop.
constexpr std::uint32_t kSpuriousFailure = 16;

Step wait(Warp& warp, const Instruction& in, LaneMask active) {
  const auto& o = in.data<MbarrierOperands>();
  Machine& machine = warp.machine();
  if (machine.perhaps(kSpuriousFailure)) {
    warp.set_predicate(o.result, active, 0);
    return Step::kYield;
  }
  LaneMask done = 0;
  std::vector<Awaited> asked;
  std::vector<bool> answers;
  std::vector<std::pair<Mbarrier*, LaneMask>> observed;
  for_each_lane(warp, in, active, [&](int lane, const ProgramPoint& point) {
    const SharedPlace place = shared_place_of(warp, o.address, lane, point);
    const Awaited question{place.cta, place.offset, awaited_value(warp, o, lane, point)};
    if (asked.empty() || !(asked.back() == question)) {
      Mbarrier& barrier = barrier_of(warp, o, lane, point);
      asked.push_back(question);
      answers.push_back(
          o.by_parity ? barrier.test_parity(static_cast<std::uint32_t>(question.value), warp.index(), point)
                      : barrier.test_state(question.value, warp.index(), point));
      if (answers.back()) observed.emplace_back(&barrier, 0);
    }
    if (!answers.back()) return;
    done |= LaneMask{1} << lane;
    observed.back().second |= LaneMask{1} << lane;
  });
  for (const auto& [barrier, lanes] : observed) {
    if (o.relaxed)
      warp.observe(lanes, barrier->clock());
    else
      warp.acquire(lanes, barrier->clock());
  }
  if (done == 0 && o.may_suspend)
    return warp.wait_for(std::make_unique<MbarrierWait>(std::move(asked), o.by_parity), Resume::kRetry);
  warp.set_predicate(o.result, active, done);
  return done == 0 ? Step::kYield : Step::kNext;
}

// --- Decoding

// `.sem.scope` come together or not at all.
void check_semantics(const Decoder& d) {
  const bool sem = !d.first_of({"release", "acquire", "relaxed"}).empty();
  if (sem != !d.first_of({"cta", "cluster"}).empty())
    d.fail("memory semantics and scope have to come together");
}

void decode_arrive(Decoder& d, bool drop) {
  check_semantics(d);
  MbarrierOperands o;
  o.cluster = d.has("shared::cluster");
  o.expects = d.has("expect_tx");
  o.relaxed = d.has("relaxed");
  if (o.cluster && !d.is_sink(0)) d.fail("an arrival in shared::cluster has no state: its result must be _");
  o.result = d.destination(0, 64);
  o.address = d.address(1);
  if (d.count() > 2) o.value = d.source(2, 32);
  if (d.has("noComplete")) o.arrive = Mbarrier::Arrive::kNoComplete;
  if (drop) {
    if (d.has("noComplete")) d.fail("arrive_drop.noComplete is not known to the simulator");
    o.arrive = Mbarrier::Arrive::kDrop;
  }
  if ((o.expects || d.has("noComplete")) && o.value == kNoSlot) d.fail("the third operand is missing");
  d.emit(arrive_at_mbarrier).extra = d.attach(o);
}

void decode_transaction(Decoder& d, Handler handler) {
  check_semantics(d);
  MbarrierOperands o;
  o.cluster = d.has("shared::cluster");
  o.address = d.address(0);
  o.value = d.source(1, 32);
  d.emit(handler).extra = d.attach(o);
}

void decode_wait(Decoder& d, bool may_suspend) {
  check_semantics(d);
  MbarrierOperands o;
  o.may_suspend = may_suspend;
  o.by_parity = d.has("parity");
  o.relaxed = d.has("relaxed");
  o.result = d.destination(0, 1);
  o.address = d.address(1);
  o.value = d.source(2, o.by_parity ? 32 : 64);
  if (may_suspend && d.count() > 3) d.source(3, 32);  // how long to suspend at most: a hint
  d.emit(wait).extra = d.attach(o);
}

}  // namespace

void register_mbarrier(InstructionTable& table) {
  table.add("mbarrier.init .(shared|shared::cta)? .b64",
            [](Decoder& d) {
              MbarrierOperands o;
              o.address = d.address(0);
              o.value = d.source(1, 32);
              d.emit(init).extra = d.attach(o);
            },
            {.synchronises = {{"mbarrier init", "", {.operand = 1}}}});
  table.add("mbarrier.inval .(shared|shared::cta)? .b64",
            [](Decoder& d) {
              MbarrierOperands o;
              o.address = d.address(0);
              d.emit(invalidate).extra = d.attach(o);
            },
            {.synchronises = {{"mbarrier inval"}}});
  const Synchronisation arrive{"mbarrier arrive", "", {.operand = 2, .optional = true, .only_up = true}};
  const Synchronisation expect{
      "mbarrier arrive.expect_tx", "expect_tx", {.operand = 2, .step = 16, .bytes = true}};
  for (const bool drop : {false, true})
    table.add(fmt::format("mbarrier.{} .(expect_tx|noComplete)? .(release|relaxed)? .(cta|cluster)? "
                          ".(shared|shared::cta|shared::cluster)? .b64",
                          drop ? "arrive_drop" : "arrive"),
              [drop](Decoder& d) { decode_arrive(d, drop); },
              {.synchronises = drop ? std::vector{arrive} : std::vector{expect, arrive}});
  table.add("mbarrier.expect_tx .(relaxed)? .(cta|cluster)? .(shared|shared::cta|shared::cluster)? .b64",
            [](Decoder& d) { decode_transaction(d, expect_tx); },
            {.synchronises = {{"mbarrier expect_tx", "", {.operand = 1, .step = 16, .bytes = true}}}});
  table.add("mbarrier.complete_tx .(relaxed)? .(cta|cluster)? .(shared|shared::cta|shared::cluster)? .b64",
            [](Decoder& d) { decode_transaction(d, complete_tx); });
  table.add("mbarrier.test_wait .(parity)? .(acquire|relaxed)? .(cta|cluster)? .(shared|shared::cta)? .b64",
            [](Decoder& d) { decode_wait(d, false); }, {.synchronises = {{"mbarrier wait"}}});
  table.add("mbarrier.try_wait .(parity)? .(acquire|relaxed)? .(cta|cluster)? .(shared|shared::cta)? .b64",
            [](Decoder& d) { decode_wait(d, true); }, {.synchronises = {{"mbarrier wait"}}});
  table.add("mbarrier.pending_count.b64", [](Decoder& d) {
    MbarrierOperands o;
    o.result = d.destination(0, 32);
    o.value = d.source(1, 64);
    d.emit(pending_count).extra = d.attach(o);
  });
}

}  // namespace jfa::simulator
