// Who runs next: warps and asynchronous operations, deterministically.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "simulator/machine/machine.h"

namespace jfa::simulator {

inline constexpr std::uint32_t kQuantum =
    256;  // warp instructions of a turn, if no other number is decided on

class Scheduler {
 public:
  explicit Scheduler(Machine& machine);
  ~Scheduler();

  void run();
  std::uint64_t post(std::unique_ptr<AsyncOperation> operation);
  bool perhaps(std::uint32_t one_in);
  void cta_exited(Cta& cta);
  std::optional<Dim3> cancel_next_cluster();  // see Machine

 private:
  /// Somebody who can move: a split of a warp, or an operation.
  struct Candidate {
    Warp* warp = nullptr;
    std::size_t split = 0;    // or the operation's index
    std::uint32_t order = 0;  // of the warp, in launch order
    const AsyncOperation* operation = nullptr;
  };
  /// How a split's turn ended.
  enum class Turn : std::uint8_t { kRan, kPolled, kStopped };

  class RunSlice;
  Engine engine_of(const AsyncOperation& operation) const;

  // Residency
  void launch_clusters();
  bool launch_cluster(std::uint64_t index);
  bool in_pairs() const;  // whether pairs of CTAs share tensor memory
  Dim3 cluster_id(std::uint64_t index) const;
  void retire_clusters();

  // Warps
  bool can_run(Warp& warp, std::size_t index);  // ends a wait that is over
  Turn run_split(Warp& warp, std::size_t index, std::uint32_t quantum);
  Turn end_turn(Split& split, std::uint64_t executed);
  bool round();  // every runnable split once; true if any did more than poll

  // Turns, one decision after another
  bool takes_turns() const { return schedule_ != Schedule::kEager && schedule_ != Schedule::kLazy; }
  void turn();
  void list_candidates();
  std::uint32_t policy_choice();
  template <class Before>
  std::uint32_t first_by(Before before) const;
  bool starved(const Candidate& candidate) const;
  std::uint32_t somebody_else(std::uint32_t otherwise) const;
  std::uint32_t decide(std::uint32_t count, std::uint32_t wanted);
  std::uint64_t next_random();
  std::uint32_t random_below(std::uint32_t count);

  // Asynchronous operations
  void list_runnable();
  void advance(std::size_t index);
  bool advance_oldest();
  bool drain();  // true if anything moved

  // No one can go on
  void stuck();
  void count_idle(std::uint64_t count);
  bool dissolve_groups();
  void refuse_divergence();
  std::string who_waits() const;
  [[noreturn]] void report_deadlock();
  [[noreturn]] void report_livelock(const std::string& message);
  ProgramPoint standing(const Warp& warp, const Split& split) const;

  // Traces
  void trace_run(const Warp& warp, std::uint64_t since) const;
  void trace_wait(const Warp& warp, const Split& split) const;
  void trace_operation(const AsyncOperation& operation, std::string name) const;

  Machine& machine_;
  const Schedule schedule_;
  std::uint64_t random_state_;
  std::uint64_t budget_;
  std::vector<std::unique_ptr<Cluster>> clusters_;  // resident, or not yet retired
  std::vector<std::unique_ptr<Cta>> ctas_;          // of those
  std::vector<Warp*> warps_;                        // that live, in launch order
  std::uint64_t next_cluster_ = 0;
  std::uint64_t cluster_count_ = 0;
  int capacity_per_sm_ = 1;
  std::vector<std::unique_ptr<AsyncOperation>> operations_;  // by serial number
  std::uint64_t next_operation_ = 1;
  bool posted_ = false;   // by the running instruction
  bool polling_ = false;  // some split ended its turn in the last round with a failed poll
  bool ctas_exited_ = false;
  std::uint64_t idle_turns_ = 0;
  std::size_t next_choice_ = 0;  // of a replay
  const Warp* last_warp_ = nullptr;
  LaneMask last_mask_ = 0;
  std::uint32_t last_order_ = 0;
  std::uint64_t movements_ = 1;  // turns in which somebody did more than poll
  std::uint64_t turns_without_step_ = 0;
  std::uint32_t turns_in_a_row_ = 0;           // of last_warp_, beyond the first
  std::size_t runnable_warps_ = 0, busy_ = 0;  // of the candidates: warps; and with operations
  // Kept between turns for their storage.
  std::vector<Candidate> candidates_, idle_;
  std::vector<std::size_t> runnable_;
  std::vector<std::uint64_t> seen_queues_;
};

}  // namespace jfa::simulator
