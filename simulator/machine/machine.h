// The state of a running grid: Machine → SMs → clusters → CTAs → warps → splits. Instruction handlers and
// asynchronous operations see the machine through these classes.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "simulator/machine/async_operation.h"
#include "simulator/machine/device_memory.h"
#include "simulator/machine/happens_before.h"
#include "simulator/machine/launch.h"
#include "simulator/machine/memory_order.h"
#include "simulator/machine/observer.h"
#include "simulator/machine/program.h"
#include "simulator/machine/report.h"
#include "simulator/machine/shared_memory.h"
#include "simulator/ptx/types.h"

namespace jfa::simulator {

class Cta;
class Machine;
class Scheduler;
class Sm;

/// State that an instruction family keeps per SM, CTA or machine, made on first use:
/// `cta.extension<Mbarriers>()`. T is constructed from a reference to its owner. on_exit runs when every
/// thread of a CTA has left (when the grid is done, for SM and machine) and may throw SimulationError: leaks,
/// operations nobody waited for.
class Extension {
 public:
  virtual ~Extension() = default;
  virtual void on_exit() {}
};

namespace detail {
int next_extension_id();
template <class T>
int extension_id() {
  static const int id = next_extension_id();
  return id;
}
}  // namespace detail

template <class Owner>
class Extensible {
 public:
  template <class T>
  T& extension() {
    const auto id = static_cast<std::size_t>(detail::extension_id<T>());
    if (id >= extensions_.size()) extensions_.resize(id + 1);
    if (!extensions_[id]) extensions_[id] = std::make_unique<T>(static_cast<Owner&>(*this));
    return static_cast<T&>(*extensions_[id]);
  }
  void exit_extensions() {
    for (auto& extension : extensions_)
      if (extension) extension->on_exit();
  }

 private:
  std::vector<std::unique_ptr<Extension>> extensions_;
};

/// What a warp split waits for. The scheduler polls ready(); describe() is for the deadlock report:
/// "mbarrier at shared 0x408 (full+8): phase 3, parity 1 awaited, 1 of 1 arrivals pending, 16384 bytes
/// outstanding".
class Wait {
 public:
  virtual ~Wait() = default;
  virtual bool ready() const = 0;
  virtual std::string describe() const = 0;
  /// True while lanes wait at a warp-wide instruction for the rest of their warp …
  virtual bool gathers() const { return false; }
  /// … which is an `.aligned` one.
  virtual bool needs_convergence() const { return false; }
  /// The wait is over: what the waiter knows by that.
  virtual void finish() {}
};

/// What to do when the wait is over.
enum class Resume : std::uint8_t { kNext, kRetry };

/// Lanes of a warp that run together. Divergent branches make them, reconvergence points merge them.
struct Split {
  std::uint32_t pc = 0;
  LaneMask mask = 0;
  std::uint32_t reconvergence = kNoPc;  // pc at which this split parks until the rest of its group is there
  int group = -1;
  bool parked = false;
  std::unique_ptr<Wait> wait;  // null: can run
  Resume resume = Resume::kNext;
  static constexpr std::uint64_t kLongestPoll = 16;  // warp instructions of a polling loop
  std::uint64_t since_poll = kLongestPoll + 1;       // instructions since the last failed poll, up to that
  std::uint32_t poll_pc = kNoPc;                     // where that was
  std::uint64_t idle_since = 0;  // Scheduler's count of movements when it last did nothing but poll
  std::uint64_t wait_since = 0;  // warp instructions
};

class Warp {
 public:
  Warp(Cta& cta, int index, int threads);
  Warp(const Warp&) = delete;

  Cta& cta() const { return cta_; }
  Machine& machine() const;
  /// Index of the warp in its CTA; its threads are 32 * index + lane.
  int index() const { return index_; }
  int thread(int lane) const { return index_ * kWarpSize + lane; }
  /// Lanes that exist and have not exited.
  LaneMask live() const { return live_; }

  // --- Registers. Registers of 8, 16 and 32 bits (and .f32, .f16x2 …) are 32 std::uint32_t, narrow ones kept
  // zero-extended; 64-bit ones 32 std::uint64_t; 128-bit ones 32 low halves, then 32 high halves
  // (std::uint64_t). T is any 4- or 8-byte type that matches.
  template <class T>
  T* lanes(Slot slot) {
    static_assert(sizeof(T) == 4 || sizeof(T) == 8);
    return reinterpret_cast<T*>(registers_ + slot);
  }
  /// A predicate register: one bit a lane.
  LaneMask& predicate(Slot slot) { return *reinterpret_cast<LaneMask*>(registers_ + slot); }
  void set_predicate(Slot slot, LaneMask active, LaneMask value) {
    LaneMask& p = predicate(slot);
    p = (p & ~active) | (value & active);
  }

  // --- For handlers.
  /// Blocks the active lanes' split: `return warp.wait_for(std::make_unique<MyWait>(…), Resume::kRetry);`
  /// kRetry runs the same instruction again when ready, kNext goes on behind it. Never for a part of a
  /// split's lanes: the lanes that a guard switched off wait too.
  Step wait_for(std::unique_ptr<Wait> wait, Resume resume);
  /// This warp at this instruction; lane -1 for all of it. Cheap.
  ProgramPoint point(const Instruction& instruction, int lane = -1) const {
    return {&instruction, &cta_, index_, lane};
  }

  // --- Memory of one thread, by PTX address; checked, generic proxy. Not for hot loops.
  void read(Space space, std::uint64_t address, std::uint32_t bytes, void* out, const ProgramPoint& point);
  void write(Space space, std::uint64_t address, std::uint32_t bytes, const void* in,
             const ProgramPoint& point);

  /// Host memory behind it, checked for `bytes` (a power of two up to 32), aligned to them, and for races.
  std::byte* locate(Space space, std::uint64_t address, std::uint32_t bytes, bool write,
                    const ProgramPoint& point, const MemoryOrder& order = {});

  /// The same of a global address.
  std::byte* locate_global(std::uint64_t address, std::uint32_t bytes, bool write, const ProgramPoint& point,
                           const MemoryOrder& order);

  std::byte* local(int lane) { return local_.get() + static_cast<std::size_t>(lane) * local_bytes_; }
  std::uint32_t local_bytes() const { return local_bytes_; }

  /// Who watches its registers: Entry::watch.
  std::vector<std::unique_ptr<RegisterObserver>> register_observers;

  // --- What happened before what; nothing without checks.
  WarpClock* clock = nullptr;
  /// The lanes publish what they have done so far.
  void release(LaneMask lanes, VectorClock& to);
  void acquire(LaneMask lanes, const VectorClock& from);
  void acquire(LaneMask lanes, const Epoch& event);
  /// The same of a relaxed arrival or wait: by way of fences alone.
  void release_fenced(LaneMask lanes, VectorClock& to);
  void observe(LaneMask lanes, const VectorClock& from);
  /// What the lanes do now.
  Epoch event(LaneMask lanes) const {
    return clock == nullptr ? Epoch{} : Epoch{clock->strand(), clock->now(), lanes};
  }

  // --- For the scheduler, control flow and warp-wide instructions.
  LaneMask cluster_arrived = 0;     // lanes that arrived at barrier.cluster …
  std::uint64_t cluster_round = 0;  // … in this round
  std::vector<Split> splits;
  Split& current() { return splits[current_]; }
  /// Sends the active lanes to the instruction's target and the others of the split to the next instruction.
  Step branch(const Instruction& instruction, LaneMask active);
  /// The lanes leave the kernel.
  Step exit(LaneMask lanes);
  /// For `.sync` instructions with a member mask: true if every live member is among `active`. If not, merges
  /// the members that stand at this instruction, or waits for them; the handler then returns `step`:
  ///   Step step;
  ///   if (!warp.converge(members, instruction, active, step)) return step;
  bool converge(LaneMask members, const Instruction& instruction, LaneMask active, Step& step);

 private:
  friend class Scheduler;
  friend class Cta;
  void fill_specials();
  struct Group {
    std::uint32_t pc = 0;   // where its lanes meet
    LaneMask expected = 0;  // lanes that have yet to meet there or wait there
    LaneMask arrived = 0;
    int parent = -1;
    bool in_use = false;
  };
  void enter_group(Split& split, int group);
  int common_group(int a, int b) const;
  void leave_groups(int group, int until, LaneMask lanes);
  void settle_groups();
  void merge_into_current(std::size_t other);
  void remove_split(std::size_t index);
  bool arrive_at_reconvergence();  // parks the current split, or merges its group
  void dissolve_groups();          // forgets all reconvergence: the last resort before a deadlock is reported

  Cta& cta_;
  int index_;
  LaneMask live_ = 0;
  static constexpr std::size_t kNoSplit = ~std::size_t{0};
  std::size_t current_ = 0;
  std::byte* registers_ = nullptr;
  std::unique_ptr<std::byte[]> storage_;
  std::unique_ptr<std::byte[]> local_;
  std::uint32_t local_bytes_ = 0;
  std::vector<Group> groups_;
};

/// CTAs that were launched together and reach each other's shared memory. Without cluster dimensions: one
/// CTA.
class Cluster : public Extensible<Cluster> {
 public:
  Dim3 id;                 // index of the cluster in the grid (%clusterid)
  std::vector<Cta*> ctas;  // by rank
  Cta* cta(std::uint32_t rank) const { return rank < ctas.size() ? ctas[rank] : nullptr; }
  std::uint32_t size() const { return static_cast<std::uint32_t>(ctas.size()); }

  const std::shared_ptr<HappensBefore> shared_order = std::make_shared<HappensBefore>();
  HappensBefore& order = *shared_order;  // which the grid's races in global memory keep beyond the cluster

  // barrier.cluster
  int barrier_arrived = 0;  // threads that arrived in this round and live
  std::uint64_t barrier_round = 0;
  VectorClock barrier_arrivals, barrier_clock;  // of the open round; of completed ones
  int live_threads() const;
};

class Cta : public Extensible<Cta> {
 public:
  Cta(Machine& machine, Sm& sm, Cluster& cluster, std::uint32_t rank, Dim3 index);
  ~Cta();

  Machine& machine() const { return machine_; }
  Sm& sm() const { return sm_; }
  Cluster& cluster() const { return cluster_; }
  std::uint32_t rank() const { return rank_; }
  const Dim3& index() const { return index_; }  // %ctaid
  int threads() const { return threads_; }

  SharedMemory& shared() { return shared_; }
  const SharedMemory& shared() const { return shared_; }
  /// Offset of the dynamic arena; aligned to what the entry declares and to no more.
  std::uint32_t dynamic_shared_offset() const { return dynamic_shared_offset_; }
  /// The symbol that covers a shared offset, with the distance: "smem+1024". Empty if none.
  std::string shared_symbol(std::uint32_t offset) const;

  std::vector<std::unique_ptr<Warp>>& warps() { return warps_; }
  Warp& warp(int index) const { return *warps_[static_cast<std::size_t>(index)]; }
  bool exited() const { return exited_; }
  /// Makes the warps, once the cluster is complete.
  void start();
  /// Before all that its warps do: who knows of it knows that the CTA runs. None without checks, or alone in
  /// its cluster.
  const Epoch& started() const { return started_; }

  /// bar / barrier, by number 0..15.
  struct NamedBarrier {
    std::uint32_t expected = 0;  // threads of the open round; 0: all of the CTA that live
    bool open = false;
    std::uint32_t arrived = 0;
    std::uint64_t round = 0;
    std::uint32_t reduction_and = 1, reduction_or = 0, reduction_count = 0;  // of the open round
    std::uint32_t result_and = 0, result_or = 0, result_count = 0;           // of the last one
    VectorClock arrivals, clock;  // what the open round's threads know; what those of completed rounds did
  };
  NamedBarrier barriers[16];
  int live_threads() const { return live_threads_; }
  /// Closes the round of a barrier, or of the cluster's, whose last awaited thread has come or left.
  void settle_barriers();

 private:
  friend class Scheduler;
  friend class Warp;
  void note_exit(Warp& warp, LaneMask lanes);
  Machine& machine_;
  Sm& sm_;
  Cluster& cluster_;
  std::uint32_t rank_;
  Dim3 index_;
  int threads_;
  std::uint32_t dynamic_shared_offset_ = 0;
  SharedMemory shared_;
  std::vector<std::unique_ptr<Warp>> warps_;
  int live_threads_ = 0;
  bool exited_ = false;
  Epoch started_;
};

/// One streaming multiprocessor: where CTAs are resident. Tensor memory is its extension.
class Sm : public Extensible<Sm> {
 public:
  Sm(Machine& machine, int index) : machine_(machine), index_(index) {}
  Machine& machine() const { return machine_; }
  int index() const { return index_; }
  int resident_ctas = 0;

 private:
  Machine& machine_;
  int index_;
};

/// A shared::cluster or generic shared address, resolved.
struct SharedPlace {
  Cta* cta = nullptr;
  std::uint32_t offset = 0;
};

class Machine : public Extensible<Machine> {
 public:
  Machine(const Module& module, const Entry& entry, const LaunchConfig& config, DeviceMemory& memory);
  ~Machine();
  /// Runs the grid to its end. Throws SimulationError.
  void run();

  const Module& module() const { return module_; }
  const Entry& entry() const { return entry_; }
  const LaunchConfig& config() const { return config_; }
  DeviceMemory& memory() const { return memory_; }
  bool checks() const { return config_.options.checks; }
  LaunchStatistics& statistics() { return statistics_; }
  /// What the kernel's printf writes.
  void print(const std::string& text) { printed_ += text; }
  const std::string& printed() const { return printed_; }

  /// Hands an operation to the scheduler; see AsyncOperation. Never runs a step before the posting
  /// instruction has ended. Returns its serial number.
  std::uint64_t post(std::unique_ptr<AsyncOperation> operation);
  /// Takes the next cluster that has not started off the grid: the index of its first CTA. None if all have.
  std::optional<Dim3> cancel_next_cluster();

  /// Who watches. To be said before the machine runs.
  Observers& observers() { return observers_; }

  /// What the schedule may let happen inside an instruction: about one time in so many if it is random.
  bool perhaps(std::uint32_t one_in);
  /// The schedule's choices that were recorded.
  std::vector<Choice>& choices() { return choices_; }
  /// Where events go; null: nowhere.
  Trace* trace() const { return config_.options.trace; }
  /// Gets what warps do; null: nobody does.
  timing::Recorder* recorder() const { return config_.options.recorder; }

  // --- Addresses, for handlers and engines.
  /// The CTA and offset of a 32-bit shared::cluster address (or the low half of a generic one), as seen from
  /// `cta`. Throws if the rank has no CTA or that CTA has exited.
  SharedPlace shared_place(const Cta& cta, std::uint32_t address, const ProgramPoint& point) const;
  /// Same for a 32-bit or generic 64-bit address operand of an instruction that takes either.
  SharedPlace shared_place_any(const Cta& cta, std::uint64_t address, bool is_64_bit,
                               const ProgramPoint& point) const;
  /// Global or param memory behind a generic address: what tensor maps are read from. Checked.
  const std::byte* read_generic(std::uint64_t address, std::uint64_t bytes, std::uint64_t alignment,
                                const ProgramPoint& point) const;

  std::vector<std::unique_ptr<Sm>>& sms() { return sms_; }
  /// Warp instructions so far: the clock of %clock64.
  std::uint64_t clock() const { return statistics_.warp_instructions; }

 private:
  friend class Scheduler;
  friend class Cta;
  friend class Warp;
  const Module& module_;
  const Entry& entry_;
  const LaunchConfig& config_;
  DeviceMemory& memory_;
  LaunchStatistics statistics_;
  std::string printed_;
  std::vector<Choice> choices_;
  std::vector<std::byte> register_image_;  // of a fresh warp: poison and constants
  Observers observers_;
  std::vector<std::unique_ptr<Sm>> sms_;
  std::unique_ptr<Scheduler> scheduler_;
};

inline Machine& Warp::machine() const { return cta_.machine(); }

inline void Warp::release(LaneMask lanes, VectorClock& to) {
  if (clock != nullptr) cta_.cluster().order.release(*clock, lanes, live_, to);
}

inline void Warp::release_fenced(LaneMask lanes, VectorClock& to) {
  if (clock != nullptr) cta_.cluster().order.release_fenced(*clock, lanes, to);
}

inline void Warp::observe(LaneMask lanes, const VectorClock& from) {
  if (clock != nullptr) cta_.cluster().order.observe(*clock, lanes, from);
}

inline void Warp::acquire(LaneMask lanes, const Epoch& event) {
  if (clock != nullptr) cta_.cluster().order.acquire(*clock, lanes, live_, event);
}

inline void Warp::acquire(LaneMask lanes, const VectorClock& from) {
  if (clock != nullptr) cta_.cluster().order.acquire(*clock, lanes, live_, from);
}

}  // namespace jfa::simulator
