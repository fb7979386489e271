// Turns: the schedules that decide anew, after every few instructions and every step of an operation, who
// moves next. Each decision is a number, so that a run can be written down and done again.
#include <algorithm>

#include "base/random.h"
#include "simulator/machine/scheduler.h"

namespace jfa::simulator {
namespace {

constexpr std::uint32_t kMostRandomQuantum = 64;
constexpr std::uint64_t kPatienceTurns = 4096;  // without a step, after which operations move all the same
constexpr int kEngines = 3;
// Turns that a warp gets in a row while others could move: it may be polling in a way that does not show.
constexpr std::uint32_t kMostTurnsInARow = 64;

}  // namespace

std::uint64_t Scheduler::next_random() { return splitmix64(random_state_); }

std::uint32_t Scheduler::random_below(std::uint32_t count) {
  return static_cast<std::uint32_t>((next_random() >> 32) * count >> 32);
}

// Between 0, the default, and count - 1; `wanted` unless this is a replay.
std::uint32_t Scheduler::decide(std::uint32_t count, std::uint32_t wanted) {
  const RunOptions& options = machine_.config().options;
  const std::uint64_t position = options.first_choice + machine_.statistics().decisions++;
  if (schedule_ == Schedule::kReplay) {
    const std::vector<Choice>& choices = options.choices;
    while (next_choice_ < choices.size() && choices[next_choice_].position < position) ++next_choice_;
    const bool given = next_choice_ < choices.size() && choices[next_choice_].position == position;
    wanted = given ? std::min(choices[next_choice_].value, count - 1) : 0;
  }
  if (options.record_choices && wanted != 0) machine_.choices().push_back({position, wanted});
  return wanted;
}

bool Scheduler::perhaps(std::uint32_t one_in) {
  if (!takes_turns()) return false;
  const bool wanted = schedule_ == Schedule::kRandom && random_below(one_in) == 0;
  return decide(2, wanted ? 1 : 0) != 0;
}

// Everybody who can move, the default first: the warp that ran last, the other warps in launch order, the
// operations, oldest first; and behind them warps whose poll has failed since anything has moved.
void Scheduler::list_candidates() {
  candidates_.clear();
  std::vector<Candidate>& idle = idle_;
  idle.clear();
  std::size_t current = 0;
  for (std::uint32_t w = 0; w < warps_.size(); ++w) {
    Warp& warp = *warps_[w];
    for (std::size_t s = 0; s < warp.splits.size(); ++s) {
      if (!can_run(warp, s)) continue;
      const Candidate candidate{&warp, s, w, nullptr};
      if (warp.splits[s].idle_since == movements_) {
        idle.push_back(candidate);
        continue;
      }
      if (&warp == last_warp_ && warp.splits[s].mask == last_mask_) current = candidates_.size();
      candidates_.push_back(candidate);
    }
  }
  if (current < candidates_.size())
    std::rotate(candidates_.begin(), candidates_.begin() + static_cast<std::ptrdiff_t>(current),
                candidates_.begin() + static_cast<std::ptrdiff_t>(current) + 1);
  runnable_warps_ = candidates_.size();
  list_runnable();
  for (const std::size_t index : runnable_)
    candidates_.push_back({nullptr, index, 0, operations_[index].get()});
  busy_ = candidates_.size();
  candidates_.insert(candidates_.end(), idle.begin(), idle.end());
}

// The candidate that comes first by `before`.
template <class Before>
std::uint32_t Scheduler::first_by(Before before) const {
  std::uint32_t best = 0;
  const std::size_t count = busy_ != 0 ? busy_ : candidates_.size();
  for (std::uint32_t i = 1; i < count; ++i)
    if (before(candidates_[i], candidates_[best])) best = i;
  return best;
}

bool Scheduler::starved(const Candidate& candidate) const {
  const auto warps =
      static_cast<std::uint64_t>((machine_.config().block.count() + kWarpSize - 1) / kWarpSize);
  const std::uint64_t victim = machine_.config().options.seed % (warps + kEngines);
  if (candidate.operation == nullptr) return victim == static_cast<std::uint64_t>(candidate.warp->index());
  return victim == warps + static_cast<std::uint64_t>(candidate.operation->engine_);
}

std::uint32_t Scheduler::policy_choice() {
  const auto count = static_cast<std::uint32_t>(candidates_.size());
  // Warps in a circle, the next one behind the last; operations by age.
  const auto distance = [&](const Candidate& c) {
    const auto all = static_cast<std::uint32_t>(warps_.size());
    return (c.order + all - last_order_ - 1) % all;
  };
  const auto is_warp = [](const Candidate& c) { return c.operation == nullptr; };
  switch (schedule_) {
    case Schedule::kRandom:
      return random_below(count);
    case Schedule::kReverse:
      return first_by([&](const Candidate& a, const Candidate& b) {
        if (is_warp(a) != is_warp(b)) return is_warp(a);
        return is_warp(a) ? a.order > b.order : a.operation->id() > b.operation->id();
      });
    case Schedule::kStarve:
      return first_by([&](const Candidate& a, const Candidate& b) {
        if (starved(a) != starved(b)) return starved(b);
        if (is_warp(a) != is_warp(b)) return is_warp(b);
        return is_warp(a) ? distance(a) < distance(b) : a.operation->id() < b.operation->id();
      });
    case Schedule::kLate:
      return first_by([&](const Candidate& a, const Candidate& b) {
        // Written as soon as read; then the warps; then what is left to complete; then what is to be read.
        const auto rank = [&](const Candidate& c) {
          if (is_warp(c)) return 1;
          return c.operation->steps_ == 1 ? 0 : c.operation->steps_ > 1 ? 2 : 3;
        };
        if (rank(a) != rank(b)) return rank(a) < rank(b);
        return is_warp(a) ? distance(a) < distance(b) : a.operation->id() > b.operation->id();
      });
    default:
      return 0;
  }
}

// The first candidate that is not the warp which ran last; `otherwise` if there is none.
std::uint32_t Scheduler::somebody_else(std::uint32_t otherwise) const {
  for (std::uint32_t i = 0; i < candidates_.size(); ++i)
    if (candidates_[i].warp != last_warp_) return i;
  return otherwise;
}

void Scheduler::turn() {
  list_candidates();
  if (candidates_.empty()) return stuck();
  std::uint32_t wanted = policy_choice();
  // Warps may wait for an operation in loops too long to be told from progress.
  if (schedule_ != Schedule::kRandom && ++turns_without_step_ > kPatienceTurns && busy_ > runnable_warps_)
    wanted = static_cast<std::uint32_t>(runnable_warps_);
  if (schedule_ != Schedule::kRandom && turns_in_a_row_ >= kMostTurnsInARow) wanted = somebody_else(wanted);
  const auto count = static_cast<std::uint32_t>(candidates_.size());
  const Candidate chosen = candidates_[count > 1 ? decide(count, wanted) : 0];
  if (chosen.operation != nullptr) {
    turns_without_step_ = 0;
    idle_turns_ = 0;
    turns_in_a_row_ = 0;
    ++movements_;
    return advance(chosen.split);
  }
  turns_in_a_row_ = chosen.warp == last_warp_ ? turns_in_a_row_ + 1 : 0;
  const std::uint32_t quantum = decide(
      kMostRandomQuantum + 1, schedule_ == Schedule::kRandom ? random_below(kMostRandomQuantum + 1) : 0);
  last_warp_ = chosen.warp;
  last_order_ = chosen.order;
  last_mask_ = chosen.warp->splits[chosen.split].mask;
  const Turn turn = run_split(*chosen.warp, chosen.split, quantum == 0 ? kQuantum : quantum);
  if (turn == Turn::kRan) {
    idle_turns_ = 0;
    ++movements_;
    return;
  }
  for (Split& split : chosen.warp->splits)
    if (turn == Turn::kPolled && split.mask == last_mask_) split.idle_since = movements_;
  count_idle(++idle_turns_);
}

}  // namespace jfa::simulator
