// bar, barrier: the sixteen named barriers of a CTA; barrier.cluster.
#include <fmt/format.h>

#include "simulator/instructions/lanes.h"
#include "simulator/machine/recorder.h"

namespace jfa::simulator {
namespace {

class BarrierWait : public Wait {
 public:
  BarrierWait(Warp& warp, LaneMask lanes, int id)
      : warp_(warp), cta_(warp.cta()), lanes_(lanes), id_(id), round_(cta_.barriers[id].round) {}
  bool ready() const override { return cta_.barriers[id_].round != round_; }
  std::string describe() const override {
    const Cta::NamedBarrier& b = cta_.barriers[id_];
    const std::uint32_t expected =
        b.expected == 0 ? static_cast<std::uint32_t>(cta_.live_threads()) : b.expected;
    return fmt::format("barrier {}: {} of {} threads have arrived", id_, b.arrived, expected);
  }
  void finish() override { warp_.acquire(lanes_, cta_.barriers[id_].clock); }

 private:
  Warp& warp_;
  const Cta& cta_;
  LaneMask lanes_;
  int id_;
  std::uint64_t round_;
};

class ClusterWait : public Wait {
 public:
  ClusterWait(Warp& warp, LaneMask lanes)
      : warp_(warp), cluster_(warp.cta().cluster()), lanes_(lanes), round_(warp.cluster_round) {}
  bool ready() const override { return cluster_.barrier_round != round_; }
  std::string describe() const override {
    return fmt::format("the cluster's barrier: {} of {} threads have arrived", cluster_.barrier_arrived,
                       cluster_.live_threads());
  }
  void finish() override {
    warp_.acquire(lanes_, cluster_.barrier_clock);
    // Whatever the arrivals released, who made them runs.
    for (const Cta* cta : cluster_.ctas)
      if (cta->started().tick != 0) warp_.acquire(lanes_, cta->started());
  }

 private:
  Warp& warp_;
  const Cluster& cluster_;
  LaneMask lanes_;
  std::uint64_t round_;
};

Step wait_or_go_on(Warp& warp, std::unique_ptr<Wait> wait) {
  if (!wait->ready()) return warp.wait_for(std::move(wait), Resume::kNext);
  wait->finish();
  return Step::kNext;
}

constexpr int kBarriers = 16;

// What an instruction does beyond arriving.
enum Kind : u8 { kArrive, kSync, kReduceAnd, kReduceOr, kReduceCount };

struct Arrival {
  Kind kind = kSync;
  bool aligned = true;
  Slot id = kNoSlot;
  Slot count = kNoSlot;      // absent: the whole CTA
  Slot predicate = kNoSlot;  // of a reduction
};

u32 uniform(Warp& warp, const Instruction& in, LaneMask active, Slot slot, const char* what) {
  const auto* values = warp.lanes<u32>(slot);
  const u32 value = values[std::countr_zero(active)];
  for (int i = 0; i < kWarpSize; ++i)
    if ((active >> i & 1) != 0 && values[i] != value)
      fail(ErrorKind::kBarrier, warp.point(in, i), fmt::format("lanes of one warp give different {}s", what));
  return value;
}

int arrive(Warp& warp, const Instruction& in, LaneMask active) {
  const auto& a = in.data<Arrival>();
  const u32 id = uniform(warp, in, active, a.id, "barrier number");
  if (id >= kBarriers)
    fail(ErrorKind::kBarrier, warp.point(in), fmt::format("barrier {}: there are 0 to 15", id));
  const u32 count = a.count == kNoSlot ? 0 : uniform(warp, in, active, a.count, "thread count");
  if (a.count != kNoSlot && (count == 0 || count % kWarpSize != 0))
    fail(ErrorKind::kBarrier, warp.point(in),
         fmt::format("barrier {} for {} threads: not a multiple of 32", id, count));
  Cta::NamedBarrier& b = warp.cta().barriers[id];
  if (b.open && b.expected != count)
    fail(ErrorKind::kBarrier, warp.point(in),
         fmt::format("barrier {} for {} threads, but its open round is for {}", id,
                     count == 0 ? "all" : std::to_string(count),
                     b.expected == 0 ? "all" : std::to_string(b.expected)));
  b.open = true;
  b.expected = count;
  warp.release(active, b.arrivals);
  if (timing::Recorder* recorder = warp.machine().recorder())
    recorder->arrived(warp.point(in), warp.cta(), timing::PhaseKey::kNamedBarrier | id, b.round);
  // With a thread count, a warp counts in full, whichever of its lanes exist.
  const bool whole = count != 0 && active == warp.live();
  b.arrived += whole ? kWarpSize : static_cast<u32>(std::popcount(active));
  if (count != 0 && b.arrived > count)
    fail(ErrorKind::kBarrier, warp.point(in),
         fmt::format("barrier {}: {} threads arrived, its round is for {}", id, b.arrived, count));
  if (a.predicate != kNoSlot) {
    const LaneMask p = warp.predicate(a.predicate) & active;
    b.reduction_and &= p == active ? 1u : 0u;
    b.reduction_or |= p != 0 ? 1u : 0u;
    b.reduction_count += static_cast<u32>(std::popcount(p));
  }
  return static_cast<int>(id);
}

Step arrive_only(Warp& warp, const Instruction& in, LaneMask active) {
  arrive(warp, in, active);
  warp.cta().settle_barriers();
  return Step::kNext;
}

Step sync(Warp& warp, const Instruction& in, LaneMask active) {
  const int id = arrive(warp, in, active);
  if (timing::Recorder* recorder = warp.machine().recorder())
    recorder->waited(warp.point(in), warp.cta(),
                     timing::PhaseKey::kNamedBarrier | static_cast<std::uint32_t>(id),
                     warp.cta().barriers[id].round);
  auto wait = std::make_unique<BarrierWait>(warp, active, id);
  warp.cta().settle_barriers();
  return wait_or_go_on(warp, std::move(wait));
}

// Behind the sync of a bar.red: its result. The barrier cannot have been reused before every waiter went on,
// as the waiter is one of those the next round needs; unless others use it with a count, which keeps the last
// result.
Step read_reduction(Warp& warp, const Instruction& in, LaneMask active) {
  const auto& a = in.data<Arrival>();
  const u32 id = warp.lanes<u32>(a.id)[std::countr_zero(active)];
  const Cta::NamedBarrier& b = warp.cta().barriers[id];
  if (a.kind == kReduceCount) {
    auto* d = warp.lanes<u32>(in.operand[0]);
    const u32 count = b.result_count;
    for_lanes(active, [=](int i) { d[i] = count; });
  } else {
    warp.set_predicate(in.operand[0], active,
                       (a.kind == kReduceAnd ? b.result_and : b.result_or) != 0 ? kAllLanes : 0);
  }
  return Step::kNext;
}

void decode_barrier(Decoder& d, Kind kind, bool aligned) {
  Arrival a;
  a.kind = kind;
  a.aligned = aligned;
  int next = kind >= kReduceAnd ? 1 : 0;
  a.id = d.source(next++, 32);
  const bool reduces = kind >= kReduceAnd;
  if (next < d.count() - (reduces ? 1 : 0)) a.count = d.source(next++, 32);
  if (kind == kArrive && a.count == kNoSlot) d.fail("an arrive needs a thread count");
  if (reduces) a.predicate = d.source(next, 1);
  if (aligned) d.require_converged();
  const Arrival* data = d.attach(a);
  d.emit(kind == kArrive ? arrive_only : sync).extra = data;
  if (!reduces) return;
  Instruction& in = d.emit(read_reduction);
  in.extra = data;
  in.operand[0] = d.destination(0, kind == kReduceCount ? 32 : 1);
}

// --- barrier.cluster

Step cluster_arrive(Warp& warp, const Instruction& in, LaneMask active) {
  Cluster& cluster = warp.cta().cluster();
  if (warp.cluster_round != cluster.barrier_round) {
    warp.cluster_arrived = 0;
    warp.cluster_round = cluster.barrier_round;
  }
  if ((warp.cluster_arrived & active) != 0)
    fail(ErrorKind::kBarrier, warp.point(in), "a thread arrives twice at the cluster's barrier in one round");
  warp.cluster_arrived |= active;
  if (timing::Recorder* recorder = warp.machine().recorder())
    recorder->arrived(warp.point(in), *cluster.cta(0), timing::PhaseKey::kClusterBarrier,
                      cluster.barrier_round);
  cluster.barrier_arrived += std::popcount(active);
  if (in.small[0] != 0)  // .relaxed
    warp.release_fenced(active, cluster.barrier_arrivals);
  else
    warp.release(active, cluster.barrier_arrivals);
  warp.cta().settle_barriers();
  return Step::kNext;
}

Step cluster_wait(Warp& warp, const Instruction& in, LaneMask active) {
  if ((warp.cluster_arrived & active) != active)
    fail(ErrorKind::kBarrier, warp.point(in),
         "a thread waits at the cluster's barrier without having arrived");
  if (timing::Recorder* recorder = warp.machine().recorder())
    recorder->waited(warp.point(in), *warp.cta().cluster().cta(0), timing::PhaseKey::kClusterBarrier,
                     warp.cluster_round);
  return wait_or_go_on(warp, std::make_unique<ClusterWait>(warp, active));
}

}  // namespace

void register_barrier(InstructionTable& t) {
  const auto row = [&](const char* pattern, Kind kind, bool aligned) {
    t.add(pattern, [=](Decoder& d) { decode_barrier(d, kind, aligned); },
          {.synchronises = {{"bar", "", {.operand = 1, .step = 32}}}});
  };
  row("bar.cta?.sync", kSync, true);
  row("bar.cta?.arrive", kArrive, true);
  row("bar.cta?.red.popc.u32", kReduceCount, true);
  row("bar.cta?.red.and.pred", kReduceAnd, true);
  row("bar.cta?.red.or.pred", kReduceOr, true);
  row("barrier.cta?.sync.aligned", kSync, true);
  row("barrier.cta?.arrive.aligned", kArrive, true);
  row("barrier.cta?.red.popc.aligned.u32", kReduceCount, true);
  row("barrier.cta?.red.and.aligned.pred", kReduceAnd, true);
  row("barrier.cta?.red.or.aligned.pred", kReduceOr, true);
  row("barrier.cta?.sync", kSync, false);
  row("barrier.cta?.arrive", kArrive, false);
  row("barrier.cta?.red.popc.u32", kReduceCount, false);
  row("barrier.cta?.red.and.pred", kReduceAnd, false);
  row("barrier.cta?.red.or.pred", kReduceOr, false);
  t.add("barrier.cluster.arrive.(release|relaxed)?.aligned?",
        [](Decoder& d) {
          if (d.has("aligned")) d.require_converged();
          d.emit(cluster_arrive).small[0] = d.has("relaxed");
        },
        {.synchronises = {{"barrier.cluster"}}});
  t.add("barrier.cluster.wait.acquire?.aligned?",
        [](Decoder& d) {
          if (d.has("aligned")) d.require_converged();
          d.emit(cluster_wait);
        },
        {.synchronises = {{"barrier.cluster"}}});
}

}  // namespace jfa::simulator
