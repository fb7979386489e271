#include "simulator/timing/sm_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "simulator/timing/engines.h"
#include "simulator/timing/machine_op.h"

namespace jfa::simulator::timing {
namespace {

using machine_code::Instruction;
using machine_code::Pipe;

constexpr int kQuarters = 4;
constexpr int kScoreboards = 6;
constexpr double kNever = std::numeric_limits<double>::infinity();
constexpr std::uint32_t kNobody = Happening::kNone;

// A time, and what happened that made it so late.
struct Moment {
  double time = 0;
  std::uint32_t because = kNobody;
  Cause cause = Cause::start;

  void not_before(const Moment& other) {
    if (other.time > time) *this = other;
  }
};

// A phase of a barrier: complete once everybody who has a part in it has arrived.
struct Phase {
  std::uint32_t awaited = 0;  // arrivals of the recording that have not been made
  Moment complete;
  bool by_engine = false;  // the last arrival is a commit's or a copy's, whose latency has the wait in it
};

struct Scoreboard {
  Moment free;
  std::vector<const Phase*> phases;  // beside that
  double wake = 0;
};

struct WarpState {
  const WarpWork* work = nullptr;
  std::size_t next = 0;  // of the way's steps
  Moment ready;          // by stall counts and blocking barriers
  std::array<Scoreboard, kScoreboards> scoreboards;
  const Phase* blocked_by = nullptr;
  Moment tensor_stores;  // all that were issued are done
  double products_done = 0;
  std::uint32_t last_product = kNobody;
  std::vector<CopyOut> open_copies;  // since the last commit_group
  std::vector<std::vector<CopyOut>> copy_groups;
  std::uint64_t turn = 0;  // when it issued last
  bool done = false;
};

struct Quarter {
  double slot_free = 0;
  std::uint32_t slot_by = kNobody;
  struct Busy {
    double until = 0;
    std::uint32_t by = kNobody;
  };
  Busy fma, alu, mufu, tensor_memory;
};

struct Sm {
  explicit Sm(const Constants& c) : engines(c) {}
  Engines engines;
  std::array<Quarter, kQuarters> quarters;
};

class Player {
 public:
  Player(const Entry& entry, const MachineEntry& machine, const std::vector<WarpWork>& work,
         const Constants& c)
      : machine_(machine), c_(c), ops_(machine_ops(entry, machine, c)) {
    for (const WarpWork& one : work) {
      WarpState& warp = warps_.emplace_back();
      warp.work = &one;
      sms_.try_emplace(one.actor.sm, c);
      sm_of_cta_[one.cta] = one.actor.sm;
      for (const Detail& detail : one.recorded->details)
        if (detail.kind == Detail::Kind::arrive || detail.kind == Detail::Kind::transaction)
          ++phases_[detail.phase].awaited;
    }
  }

  Result<Played> run() {
    for (;;) {
      WarpState* chosen = nullptr;
      Moment when;
      bool left = false;
      for (WarpState& warp : warps_) {
        if (warp.done) continue;
        left = true;
        const Moment moment = next_issue(warp);
        if (moment.time == kNever) continue;
        if (chosen == nullptr || moment.time < when.time ||
            (moment.time == when.time && warp.turn < chosen->turn)) {
          chosen = &warp;
          when = moment;
        }
      }
      if (!left) break;
      if (chosen == nullptr) return nobody_can_go_on();
      issue(*chosen, when);
    }
    for (auto& [index, sm] : sms_) {
      played_.tensor_busy[index] = sm.engines.tensor_busy();
      played_.shared_busy[index] = sm.engines.shared_busy();
      played_.copy_busy[index] = sm.engines.copy_busy();
    }
    return std::move(played_);
  }

 private:
  Status nobody_can_go_on() const {
    std::string who;
    for (const WarpState& warp : warps_) {
      if (warp.done) continue;
      const Step& step = warp.work->way->steps[warp.next];
      who += fmt::format("\n  warp {} at {:#x} {}", warp.work->actor.warp,
                         step.instruction * machine_code::kInstructionBytes,
                         machine_.code[step.instruction].name());
    }
    return {jfa::ErrorKind::kInternal, "the timing model: no warp can go on", who};
  }

  Quarter& quarter(const WarpState& warp) {
    return sms_.at(warp.work->actor.sm).quarters[static_cast<std::size_t>(warp.work->actor.warp % kQuarters)];
  }

  // When a phase lets go whoever waits, `wake` after its last arrival.
  static Moment release(const Phase& phase, double wake) {
    if (phase.awaited != 0) return {kNever, kNobody, Cause::sync};
    Moment moment = phase.complete;
    if (!phase.by_engine) moment.time += wake, moment.cause = Cause::sync;
    return moment;
  }

  Quarter::Busy* pipe_of(Quarter& quarter, const MachineOp& op) {
    switch (op.pipe) {
      case Pipe::fma:
        return &quarter.fma;
      case Pipe::alu:
        return &quarter.alu;
      case Pipe::xu:
        return &quarter.mufu;
      default:
        return nullptr;
    }
  }
  static Cause cause_of(Pipe pipe) {
    return pipe == Pipe::fma ? Cause::fma : pipe == Pipe::alu ? Cause::alu : Cause::mufu;
  }

  Moment next_issue(WarpState& warp) {
    const Step& step = warp.work->way->steps[warp.next];
    const Instruction& in = machine_.code[step.instruction];
    Moment moment = warp.ready;
    if (warp.blocked_by != nullptr) {
      const Moment released = release(*warp.blocked_by, c_.barrier_latency);
      if (released.time == kNever) return released;
      moment.not_before(released);
    }
    for (int b = 0; b < kScoreboards; ++b) {
      if ((in.waits >> b & 1) == 0) continue;
      const Scoreboard& board = warp.scoreboards[static_cast<std::size_t>(b)];
      moment.not_before(board.free);
      for (const Phase* phase : board.phases) {
        const Moment released = release(*phase, board.wake);
        if (released.time == kNever) return released;
        moment.not_before(released);
      }
    }
    Quarter& q = quarter(warp);
    const MachineOp& op = ops_[step.instruction];
    if (const Quarter::Busy* pipe = pipe_of(q, op))
      moment.not_before({pipe->until, pipe->by, cause_of(op.pipe)});
    moment.not_before({q.slot_free, q.slot_by, Cause::slot});
    return moment;
  }

  std::uint32_t note(Happening happening) {
    played_.by_actor[happening.actor].push_back(static_cast<std::uint32_t>(played_.happenings.size()));
    played_.happenings.push_back(happening);
    return static_cast<std::uint32_t>(played_.happenings.size()) - 1;
  }

  void arrive(const PhaseKey& key, const Moment& moment, bool by_engine) {
    Phase& phase = phases_[key];
    if (phase.awaited > 0) --phase.awaited;
    if (moment.time < phase.complete.time) return;
    phase.complete = moment;
    phase.by_engine = by_engine;
  }

  // The details of what a step realizes.
  template <class Visit>
  void for_each_detail(WarpState& warp, std::uint32_t event, Visit&& visit) {
    const std::vector<Detail>& details = warp.work->recorded->details;
    if (event == Step::kNoEvent) return;
    auto detail = std::lower_bound(details.begin(), details.end(), event,
                                   [](const Detail& one, std::uint32_t at) { return one.at < at; });
    for (; detail != details.end() && detail->at == event; ++detail) visit(*detail);
  }

  void issue(WarpState& warp, const Moment& when) {
    const Step step = warp.work->way->steps[warp.next];
    const Instruction& in = machine_.code[step.instruction];
    const MachineOp& op = ops_[step.instruction];
    const double t = when.time;
    const std::uint32_t self = note({t, t, warp.work->actor, when.cause, when.because, step.instruction});
    Quarter& q = quarter(warp);
    q.slot_free = t + 1;
    q.slot_by = self;
    if (Quarter::Busy* pipe = pipe_of(q, op)) *pipe = {t + op.pipe_cycles, self};
    warp.blocked_by = nullptr;
    for (int b = 0; b < kScoreboards; ++b)
      if ((in.waits >> b & 1) != 0) warp.scoreboards[static_cast<std::size_t>(b)] = {};
    const double stall = std::max(1.0, static_cast<double>(in.stall));
    warp.ready = {t + stall, self, Cause::issue};
    warp.turn = ++turns_;

    Moment result{t + op.latency, self, op.cause};
    Moment operands{t + kOperandCycles, self, Cause::issue};
    std::vector<const Phase*> awaited;
    act(warp, step, op, self, t, result, operands, awaited);
    if (in.write_scoreboard < kScoreboards) {
      Scoreboard& board = warp.scoreboards[in.write_scoreboard];
      board.free.not_before(result);
      board.phases.insert(board.phases.end(), awaited.begin(), awaited.end());
      board.wake = c_.mbarrier_wake_latency;
    }
    if (in.read_scoreboard < kScoreboards) warp.scoreboards[in.read_scoreboard].free.not_before(operands);
    if (++warp.next == warp.work->way->steps.size()) {
      warp.done = true;
      played_.cycles = std::max(played_.cycles, t);
    }
  }

  // What an instruction does beyond being issued.
  void act(WarpState& warp, const Step& step, const MachineOp& op, std::uint32_t self, double t,
           Moment& result, Moment& operands, std::vector<const Phase*>& awaited) {
    const int sm_index = warp.work->actor.sm;
    Sm& sm = sms_.at(sm_index);
    Engines& engines = sm.engines;
    switch (op.treatment) {
      case Treatment::plain:
      case Treatment::global:
      case Treatment::cluster_arrive:
      case Treatment::arrive:
        for_each_detail(warp, step.event, [&](const Detail& detail) {
          if (detail.kind == Detail::Kind::arrive)
            arrive(detail.phase, {t + c_.mbarrier_arrive_latency, self, Cause::sync}, false);
        });
        return;
      case Treatment::shared: {
        double bytes = 0;
        bool remote = false;
        for_each_detail(warp, step.event, [&](const Detail& detail) {
          if (detail.kind == Detail::Kind::access) bytes = detail.bytes, remote = detail.remote;
        });
        if (step.event == Step::kNoEvent) bytes = op.bytes;
        if (remote) result.time += c_.remote_latency;
        const double done = engines.thread_access(t, bytes);
        result.time = done + c_.shared_latency;
        operands = {done, self, Cause::shared};
        return;
      }
      case Treatment::tensor_load:
      case Treatment::tensor_store: {
        Quarter::Busy& port = quarter(warp).tensor_memory;
        const double begin = std::max(t, port.until);
        port = {begin + op.bytes / c_.tensor_memory_bytes, self};
        const bool store = op.treatment == Treatment::tensor_store;
        result.time = port.until + (store ? c_.tensor_store_latency : c_.tensor_load_latency);
        operands = {port.until, self, Cause::tensor_memory};
        if (store) warp.tensor_stores.not_before(result);
        return;
      }
      case Treatment::tensor_store_wait:
        result.not_before(warp.tensor_stores);
        return;
      case Treatment::fence:
        operands = result;
        return;
      case Treatment::product:
        for_each_detail(warp, step.event, [&](const Detail& detail) {
          if (detail.kind == Detail::Kind::product) multiply(warp, detail, self, t, step.instruction);
        });
        return;
      case Treatment::commit:
        for_each_detail(warp, step.event, [&](const Detail& detail) {
          if (detail.kind != Detail::Kind::arrive) return;
          const bool elsewhere = sm_of_cta(detail.phase.cta) != sm_index;
          const double extra = c_.commit_latency + (elsewhere ? c_.pair_commit_extra : 0);
          const bool products = warp.last_product != kNobody && warp.products_done > t;
          arrive(
              detail.phase,
              {std::max(t, warp.products_done) + extra, products ? warp.last_product : self, Cause::tensor},
              true);
        });
        return;
      case Treatment::wait:
        result.time = t + c_.mbarrier_try_latency;
        for_each_detail(warp, step.event, [&](const Detail& detail) {
          if (detail.kind == Detail::Kind::wait) awaited.push_back(&phases_[detail.phase]);
        });
        return;
      case Treatment::barrier:
        for_each_detail(warp, step.event, [&](const Detail& detail) {
          if (detail.kind == Detail::Kind::arrive) arrive(detail.phase, {t, self, Cause::sync}, false);
        });
        for_each_detail(warp, step.event, [&](const Detail& detail) {
          if (detail.kind == Detail::Kind::wait) warp.blocked_by = &phases_[detail.phase];
        });
        return;
      case Treatment::cluster_wait:
        for_each_detail(warp, step.event, [&](const Detail& detail) {
          if (detail.kind == Detail::Kind::wait) warp.blocked_by = &phases_[detail.phase];
        });
        return;
      case Treatment::copy_in:
        for_each_detail(warp, step.event, [&](const Detail& detail) {
          if (detail.kind == Detail::Kind::transaction) copy_in(detail, self, t, sm_index, step.instruction);
        });
        return;
      case Treatment::copy_out:
        for_each_detail(warp, step.event, [&](const Detail& detail) {
          if (detail.kind != Detail::Kind::store) return;
          const CopyOut copy = engines.copy_out(t, detail.bytes);
          const std::uint32_t node = note(
              {copy.begin, copy.complete, {sm_index, Actor::kCopies}, Cause::copy, self, step.instruction});
          warp.open_copies.push_back({copy.begin, copy.read, copy.complete, node});
        });
        return;
      case Treatment::copy_commit:
        warp.copy_groups.push_back(std::move(warp.open_copies));
        warp.open_copies.clear();
        return;
      case Treatment::copy_wait: {
        const std::size_t groups =
            warp.copy_groups.size() > op.groups_left ? warp.copy_groups.size() - op.groups_left : 0;
        Moment done = warp.ready;
        for (std::size_t g = 0; g < groups; ++g)
          for (const CopyOut& copy : warp.copy_groups[g])
            done.not_before({op.reads_only ? copy.read : copy.complete, copy.node, Cause::copy});
        warp.ready = done;
        return;
      }
    }
  }

  int sm_of_cta(std::uint32_t cta) const {
    const auto found = sm_of_cta_.find(cta);
    return found == sm_of_cta_.end() ? 0 : found->second;
  }

  void multiply(WarpState& warp, const Detail& detail, std::uint32_t self, double t,
                std::uint32_t instruction) {
    ProductShape shape;
    shape.m = detail.m;
    shape.n = detail.n;
    shape.cta_group = detail.cta_group;
    shape.a_in_tensor_memory = detail.a_in_tensor_memory;
    const ProductTime time = product_time(shape, c_.shared_bytes);
    // A pair's product keeps the tensor cores of both SMs busy.
    std::vector<Engines*> engines{&sms_.at(warp.work->actor.sm).engines};
    if (detail.cta_group == 2)
      if (const auto other = sms_.find(warp.work->actor.sm ^ 1); other != sms_.end())
        engines.push_back(&other->second.engines);
    double begin = t;
    std::uint32_t because = self;
    Cause cause = Cause::issue;
    for (const Engines* one : engines) {
      if (one->product_ready() <= begin) continue;
      begin = one->product_ready();
      because = one->last_product();
      cause = Cause::tensor;
    }
    const std::uint32_t node =
        note({begin, begin, {warp.work->actor.sm, Actor::kTensorCore}, cause, because, instruction});
    double end = begin;
    for (Engines* one : engines) end = std::max(end, one->multiply(begin, t, time, node));
    played_.happenings[node].end = end;
    const double late = end - (begin + time.interval);  // shared memory was busy
    warp.products_done = std::max(warp.products_done, begin + time.latency + std::max(0.0, late));
    warp.last_product = node;
  }

  void copy_in(const Detail& detail, std::uint32_t self, double t, int sm_index, std::uint32_t instruction) {
    Engines& engines = sms_.at(sm_index).engines;
    const CopyIn copy = engines.copy_in(t, detail.bytes, detail.first_touch);
    const bool queued = copy.last != kNobody && copy.waited_for_bandwidth;
    const std::uint32_t node = note({copy.begin,
                                     copy.complete,
                                     {sm_index, Actor::kCopies},
                                     queued ? Cause::bandwidth : Cause::issue,
                                     queued ? copy.last : self,
                                     instruction});
    engines.note_copy(node);
    arrive(detail.phase, {copy.complete, node, queued ? Cause::bandwidth : Cause::copy}, true);
  }

  // Cycles until an instruction without a pipe of its own has read its operands.
  static constexpr double kOperandCycles = 6;

  const MachineEntry& machine_;
  const Constants& c_;
  const std::vector<MachineOp> ops_;
  std::vector<WarpState> warps_;
  std::map<int, Sm> sms_;
  std::map<std::uint32_t, int> sm_of_cta_;
  std::map<PhaseKey, Phase> phases_;
  std::uint64_t turns_ = 0;
  Played played_;
};

}  // namespace

std::string_view to_string(Cause cause) {
  static constexpr std::string_view kNames[kCauseCount] = {
      "start",  "issue",         "slot",   "fma",  "alu",    "mufu", "arithmetic",
      "shared", "tensor memory", "global", "sync", "tensor", "copy", "bandwidth"};
  return kNames[static_cast<std::size_t>(cause)];
}

double Played::cycles_of_all_sms() const {
  std::map<int, double> last;
  for (const auto& [actor, indices] : by_actor)
    if (actor.warp >= 0) last[actor.sm] = std::max(last[actor.sm], happenings[indices.back()].time);
  double sum = 0;
  for (const auto& [sm, time] : last) sum += time;
  return sum;
}

bool Played::has_products() const {
  return std::any_of(tensor_busy.begin(), tensor_busy.end(), [](const auto& sm) { return sm.second > 0; });
}

Result<Played> play(const Entry& entry, const MachineEntry& machine, const std::vector<WarpWork>& work,
                    const Constants& constants) {
  return Player(entry, machine, work, constants).run();
}

}  // namespace jfa::simulator::timing
