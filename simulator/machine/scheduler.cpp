#include "simulator/machine/scheduler.h"

#include <fmt/format.h>

#include <algorithm>

#include "simulator/machine/cluster_placement.h"
#include "simulator/machine/recorder.h"

namespace jfa::simulator {
namespace {

constexpr std::uint64_t kLongestPoll = 16;  // warp instructions
constexpr std::uint64_t kPatienceRounds =
    4096;  // rounds after which lazy operations move all the same, and groups dissolve
constexpr std::uint64_t kMostIdleRounds =
    200'000;  // of nothing but failed polls, before it is called a livelock

}  // namespace

Scheduler::Scheduler(Machine& machine)
    : machine_(machine),
      schedule_(machine.config().options.schedule),
      random_state_(machine.config().options.seed * 0x9e3779b97f4a7c15u + 0x853c49e6748fea9bu),
      budget_(machine.config().options.instruction_budget) {
  if (budget_ == 0) budget_ = ~std::uint64_t{0};
}

Scheduler::~Scheduler() {
  operations_.clear();  // they refer to CTAs
}

// Which engine runs an operation, by the instruction that posted it.
Engine Scheduler::engine_of(const AsyncOperation& operation) const {
  const Instruction* instruction = operation.issue().instruction;
  if (instruction == nullptr) return Engine::kCopy;
  return machine_.entry().statements[instruction->statement].engine;
}

// --- Residency

void Scheduler::run() {
  const LaunchConfig& config = machine_.config();
  cluster_count_ = config.grid.count() / config.cluster.count();
  capacity_per_sm_ = resident_ctas_per_sm(machine_.entry(), static_cast<std::uint32_t>(config.block.count()),
                                          config.dynamic_shared_bytes);
  launch_clusters();
  std::uint64_t idle_rounds = 0, rounds_without_step = 0;
  while (!warps_.empty()) {
    if (ctas_exited_) {
      retire_clusters();
      launch_clusters();
      continue;
    }
    if (takes_turns()) {
      turn();
      continue;
    }
    if (round()) {
      idle_rounds = 0;
      if (schedule_ == Schedule::kLazy && !operations_.empty() && ++rounds_without_step > kPatienceRounds) {
        rounds_without_step = 0;
        advance_oldest();
      }
      continue;
    }
    if (ctas_exited_) continue;
    if (advance_oldest()) {
      rounds_without_step = 0;
      idle_rounds = 0;
    } else if (polling_) {
      count_idle(++idle_rounds);
    } else {
      stuck();
    }
  }
  while (!operations_.empty())
    if (!advance_oldest()) report_deadlock();
  for (auto& sm : machine_.sms()) sm->exit_extensions();
  machine_.exit_extensions();
}

void Scheduler::launch_clusters() {
  while (next_cluster_ < cluster_count_ && launch_cluster(next_cluster_)) ++next_cluster_;
  if (warps_.empty() && next_cluster_ < cluster_count_)
    fail(ErrorKind::kLaunch, {},
         fmt::format("a cluster of {} CTAs does not fit {} SMs of {} CTAs each{}",
                     machine_.config().cluster.count(), machine_.sms().size(), capacity_per_sm_,
                     in_pairs()
                         ? ": cta_group::2 needs two SMs side by side for each pair of CTAs (option sms)"
                         : ""));
}

bool Scheduler::in_pairs() const { return machine_.entry().cta_group == 2; }

Dim3 Scheduler::cluster_id(std::uint64_t index) const {
  const LaunchConfig& config = machine_.config();
  const auto i = static_cast<std::uint32_t>(index);
  const Dim3 clusters{config.grid.x / config.cluster.x, config.grid.y / config.cluster.y,
                      config.grid.z / config.cluster.z};
  return {i % clusters.x, i / clusters.x % clusters.y, i / clusters.x / clusters.y};
}

std::optional<Dim3> Scheduler::cancel_next_cluster() {
  if (next_cluster_ >= cluster_count_) return std::nullopt;
  const Dim3 id = cluster_id(next_cluster_++);
  const Dim3& size = machine_.config().cluster;
  return Dim3{id.x * size.x, id.y * size.y, id.z * size.z};
}

bool Scheduler::launch_cluster(std::uint64_t index) {
  const LaunchConfig& config = machine_.config();
  const auto size = static_cast<int>(config.cluster.count());
  const std::vector<Sm*> places = place_cluster(machine_.sms(), size, capacity_per_sm_, in_pairs());
  if (places.empty()) return false;
  auto cluster = std::make_unique<Cluster>();
  cluster->id = cluster_id(index);
  for (Observer* observer : machine_.observers()) observer->add_cluster(cluster->shared_order);
  const std::size_t first = ctas_.size();
  for (int rank = 0; rank < size; ++rank) {
    const auto r = static_cast<std::uint32_t>(rank);
    const Dim3 at{cluster->id.x * config.cluster.x + r % config.cluster.x,
                  cluster->id.y * config.cluster.y + r / config.cluster.x % config.cluster.y,
                  cluster->id.z * config.cluster.z + r / config.cluster.x / config.cluster.y};
    ctas_.push_back(
        std::make_unique<Cta>(machine_, *places[static_cast<std::size_t>(rank)], *cluster, r, at));
  }
  for (std::size_t c = first; c < ctas_.size(); ++c) {
    ctas_[c]->start();
    ++machine_.statistics().ctas;
    for (auto& warp : ctas_[c]->warps()) warps_.push_back(warp.get());
  }
  clusters_.push_back(std::move(cluster));
  return true;
}

void Scheduler::cta_exited(Cta& cta) {
  --cta.sm().resident_ctas;
  ctas_exited_ = true;
  cta.exit_extensions();
  for (const auto& observer : cta.shared().observers()) observer->exit();
}

void Scheduler::retire_clusters() {
  ctas_exited_ = false;
  warps_.erase(std::remove_if(warps_.begin(), warps_.end(), [](Warp* w) { return w->cta().exited(); }),
               warps_.end());
  const auto busy = [&](const Cluster& cluster) {
    for (const Cta* cta : cluster.ctas)
      if (!cta->exited()) return true;
    for (const auto& operation : operations_)
      if (operation->issue().cta != nullptr && &operation->issue().cta->cluster() == &cluster) return true;
    return false;
  };
  for (std::size_t c = clusters_.size(); c-- > 0;) {
    if (busy(*clusters_[c])) continue;
    const Cluster* dead = clusters_[c].get();
    ctas_.erase(
        std::remove_if(ctas_.begin(), ctas_.end(), [&](auto& cta) { return &cta->cluster() == dead; }),
        ctas_.end());
    clusters_.erase(clusters_.begin() + static_cast<std::ptrdiff_t>(c));
  }
}

// --- Warps

// Traces what a warp did in a turn, however the turn ends.
class Scheduler::RunSlice {
 public:
  RunSlice(const Scheduler& scheduler, const Warp& warp)
      : scheduler_(scheduler), warp_(warp), since_(scheduler.machine_.clock()) {}
  ~RunSlice() {
    if (scheduler_.machine_.trace() != nullptr) scheduler_.trace_run(warp_, since_);
  }
  RunSlice(const RunSlice&) = delete;

 private:
  const Scheduler& scheduler_;
  const Warp& warp_;
  std::uint64_t since_;
};

bool Scheduler::can_run(Warp& warp, std::size_t index) {
  Split& split = warp.splits[index];
  if (split.parked) return false;
  if (split.wait == nullptr) return true;
  if (!split.wait->ready()) return false;
  split.wait->finish();
  if (machine_.trace() != nullptr) trace_wait(warp, split);
  split.wait.reset();
  if (split.resume == Resume::kNext) ++split.pc;
  return true;
}

Scheduler::Turn Scheduler::run_split(Warp& warp, std::size_t index, std::uint32_t quantum) {
  warp.current_ = index;
  const RunSlice slice(*this, warp);
  const Instruction* code = machine_.entry().code.data();
  std::uint64_t& executed = machine_.statistics().warp_instructions;
  if (executed > budget_)
    report_livelock(fmt::format("more than {} warp instructions have been executed", budget_));
  const std::uint64_t before = executed;
  const std::vector<Observer*>& observers = machine_.observers().of_instructions();
  timing::Recorder* const recorder = machine_.recorder();
  Turn turn = Turn::kStopped;
  while (quantum-- > 0) {
    Split& split = warp.splits[warp.current_];
    if (split.pc == split.reconvergence && !warp.arrive_at_reconvergence()) return Turn::kRan;
    Split& s = warp.current();
    const Instruction& in = code[s.pc];
    LaneMask active = s.mask;
    if (in.guard != kNoSlot) {
      const LaneMask p = warp.predicate(in.guard);
      active &= in.guard_negated ? ~p : p;
      if (active == 0) {
        ++s.pc;
        turn = Turn::kRan;
        continue;
      }
    }
    Step step = Step::kRetry;
    if (!in.converged || active == warp.live_ || warp.converge(warp.live_, in, active, step)) {
      if (recorder != nullptr) recorder->begin(warp, s.pc, active);
      step = in.handler(warp, in, active);
      ++executed;
      for (Observer* observer : observers) observer->execute(warp, in, active);
      if (recorder != nullptr && (step == Step::kRetry || step == Step::kYield ||
                                  (step == Step::kWait && warp.current().resume == Resume::kRetry)))
        recorder->take_back(warp);
    }
    switch (step) {
      case Step::kNext:
        ++warp.current().pc;
        break;
      case Step::kYield:
        ++warp.current().pc;
        turn = end_turn(warp.current(), executed - before);
        warp.current().since_poll = 0;
        warp.current().poll_pc = warp.current().pc - 1;
        return turn;
      case Step::kMoved:
      case Step::kRetry:
        break;
      case Step::kWait:
        return turn;
      case Step::kExit:
        return Turn::kRan;
    }
    turn = Turn::kRan;
    if (posted_) {
      posted_ = false;
      if (schedule_ == Schedule::kEager) drain();
      if (takes_turns()) return turn;
    }
    if (ctas_exited_) return turn;
  }
  return end_turn(warp.current(), executed - before);
}

// Polling loops are short: a split that has done more since its last poll is getting somewhere.
Scheduler::Turn Scheduler::end_turn(Split& split, std::uint64_t executed) {
  split.since_poll = std::min(split.since_poll + executed, kLongestPoll + 1);
  return split.since_poll > kLongestPoll ? Turn::kRan : Turn::kPolled;
}

bool Scheduler::round() {
  bool progress = false;
  polling_ = false;
  for (std::size_t w = 0; w < warps_.size(); ++w) {
    Warp& warp = *warps_[w];
    for (std::size_t s = 0; s < warp.splits.size(); ++s) {
      if (!can_run(warp, s)) continue;
      const Turn turn = run_split(warp, s, kQuantum);
      progress |= turn == Turn::kRan;
      polling_ |= turn == Turn::kPolled;
    }
  }
  if (schedule_ == Schedule::kEager) progress |= drain();
  return progress;
}

// --- Asynchronous operations

std::uint64_t Scheduler::post(std::unique_ptr<AsyncOperation> operation) {
  operation->id_ = next_operation_++;
  operation->engine_ = engine_of(*operation);
  operation->posted_at_ = machine_.clock();
  posted_ = true;
  const std::uint64_t id = operation->id_;
  operations_.push_back(std::move(operation));
  return id;
}

// Into runnable_: the first operation of each queue, and those without one, as far as they are ready.
void Scheduler::list_runnable() {
  runnable_.clear();
  seen_queues_.clear();
  for (std::size_t i = 0; i < operations_.size(); ++i) {
    const std::uint64_t queue = operations_[i]->queue();
    if (queue != 0) {
      if (std::find(seen_queues_.begin(), seen_queues_.end(), queue) != seen_queues_.end()) continue;
      seen_queues_.push_back(queue);
    }
    if (operations_[i]->ready()) runnable_.push_back(i);
  }
}

void Scheduler::advance(std::size_t index) {
  ++machine_.statistics().async_steps;
  AsyncOperation& operation = *operations_[index];
  ++operation.steps_;
  std::string name = machine_.trace() != nullptr ? operation.describe() : std::string();
  if (!operation.advance(machine_)) return;
  if (machine_.trace() != nullptr) trace_operation(operation, std::move(name));
  // The operation may have posted others behind it; its own index is unchanged.
  operations_.erase(operations_.begin() + static_cast<std::ptrdiff_t>(index));
}

bool Scheduler::advance_oldest() {
  list_runnable();
  if (runnable_.empty()) return false;
  advance(runnable_.front());
  return true;
}

bool Scheduler::drain() {
  bool any = false;
  while (!operations_.empty() && advance_oldest()) any = true;
  return any;
}

// --- No one can go on

// Lanes that wait for each other where branches meet may owe each other progress behind it. False if none do.
bool Scheduler::dissolve_groups() {
  bool any = false;
  for (Warp* warp : warps_) {
    for (const Split& split : warp->splits) any |= split.parked;
    warp->dissolve_groups();
  }
  return any;
}

void Scheduler::stuck() {
  refuse_divergence();
  if (!dissolve_groups()) report_deadlock();
}

// Nobody did more than poll, for the count-th time in a row.
void Scheduler::count_idle(std::uint64_t count) {
  if (count % kPatienceRounds == 0 && dissolve_groups()) return;
  if (count > kMostIdleRounds) report_livelock("every warp polls for something that nobody will do");
}

ProgramPoint Scheduler::standing(const Warp& warp, const Split& split) const {
  return warp.point(machine_.entry().code[split.pc]);
}

void Scheduler::refuse_divergence() {
  for (Warp* warp : warps_)
    for (const Split& split : warp->splits) {
      if (split.wait == nullptr || !split.wait->needs_convergence()) continue;
      std::string others;
      for (const Split& other : warp->splits)
        if (&other != &split)
          others +=
              fmt::format("  lanes {:#010x} stand at {}{}\n", other.mask, standing(*warp, other).describe(),
                          other.wait != nullptr ? ", waiting for " + other.wait->describe() : "");
      fail(ErrorKind::kDivergence, standing(*warp, split),
           fmt::format(
               "an aligned instruction is executed by lanes {:#010x} of a warp whose live lanes are {:#010x}",
               split.mask, warp->live()),
           others);
    }
}

std::string Scheduler::who_waits() const {
  constexpr int kMostLines = 100;
  std::string text;
  int lines = 0;
  for (const Warp* warp : warps_)
    for (const Split& split : warp->splits) {
      if (++lines > kMostLines) continue;
      text += fmt::format("  lanes {:#010x} at {}\n", split.mask, standing(*warp, split).describe());
      if (split.wait != nullptr) text += fmt::format("    wait for {}\n", split.wait->describe());
      if (split.wait == nullptr && split.since_poll <= kLongestPoll && split.poll_pc != kNoPc)
        text +=
            fmt::format("    polls at {}\n", warp->point(machine_.entry().code[split.poll_pc]).describe());
      if (split.parked) text += "    wait for the other lanes of their warp at a point where branches meet\n";
    }
  if (lines > kMostLines) text += fmt::format("  … and {} more\n", lines - kMostLines);
  for (const auto& operation : operations_)
    text +=
        fmt::format("  pending: {}, issued at {}\n", operation->describe(), operation->issue().describe());
  return text;
}

void Scheduler::report_deadlock() {
  const ProgramPoint at =
      warps_.empty() ? operations_.front()->issue() : standing(*warps_[0], warps_[0]->splits[0]);
  fail(ErrorKind::kDeadlock, at,
       fmt::format("deadlock: none of {} warps and {} asynchronous operations can go on", warps_.size(),
                   operations_.size()),
       who_waits());
}

void Scheduler::report_livelock(const std::string& message) {
  const ProgramPoint at = warps_.empty() ? ProgramPoint{} : standing(*warps_[0], warps_[0]->splits[0]);
  fail(ErrorKind::kLivelock, at, message, who_waits());
}

}  // namespace jfa::simulator
