// Who watches a machine. Machine, engines, mbarriers and the tensor core tell what happens, in these terms,
// and know no checker; an observer throws SimulationError at what is wrong. There may be several, none of
// which knows of the others: checkers/attach.h brings ours, RunOptions::observers anybody's. Whoever does not
// care for something leaves it out.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "simulator/machine/flight.h"
#include "simulator/machine/memory_order.h"
#include "simulator/machine/report.h"
#include "simulator/machine/tensor_region.h"
#include "simulator/machine/vector_clock.h"
#include "simulator/ptx/types.h"

namespace jfa::simulator {

class Cta;
class HappensBefore;
class Mbarrier;
class Sm;
class Warp;
struct Instruction;

/// Of one mbarrier, which is told of before it changes.
class MbarrierObserver {
 public:
  virtual ~MbarrierObserver() = default;
  /// An arrival that the object can take. `completes`: it may complete the phase (no .noComplete).
  virtual void arrive(const Mbarrier&, std::uint32_t /*count*/, bool /*completes*/, const ProgramPoint&) {}
  /// More arrivals or bytes are expected in the current phase.
  virtual void expect(const Mbarrier&, const ProgramPoint&) {}
  /// No arrival is pending: the phase is complete if no bytes are outstanding.
  virtual void arrivals_in(const Mbarrier&, const ProgramPoint&) {}
  /// A commit of the tensor core is about to arrive.
  virtual void commit(const Mbarrier&, const ProgramPoint&) {}
  /// A warp asks whether the phase of a parity, or of a token of arrive, is complete.
  virtual void await_parity(const Mbarrier&, std::uint32_t /*parity*/, int /*warp*/, const ProgramPoint&) {}
  virtual void await_state(const Mbarrier&, std::uint64_t /*token*/, int /*warp*/, const ProgramPoint&) {}
  /// mbarrier.inval; the object owes and is owed nothing that would touch it later.
  virtual void invalidate(const Mbarrier&, const ProgramPoint&) {}
  /// Its CTA has exited.
  virtual void exit(const Mbarrier&) {}
};

/// Of the shared memory of one CTA. Offsets are CTA-relative; the thread is the lane of the point, 0 if it
/// has none.
class SharedObserver {
 public:
  virtual ~SharedObserver() = default;

  // --- Threads
  virtual void read(std::uint32_t /*offset*/, std::uint32_t /*bytes*/, const ProgramPoint&,
                    const MemoryOrder&) {}
  virtual void write(std::uint32_t /*offset*/, std::uint32_t /*bytes*/, const ProgramPoint&,
                     const MemoryOrder&) {}
  /// A thread accesses bytes that an engine has touched (SharedMemory::kEngineRead, kEngineWritten).
  virtual void check_engines(MemoryAccess, std::uint32_t /*offset*/, std::uint32_t /*bytes*/,
                             const ProgramPoint&) {}
  /// Whether a thread's strong write, which has been checked, stands for what engines did to the bytes, as
  /// any other write does: whoever is ordered behind it need not be asked about them.
  virtual bool replaces_engines(std::uint32_t /*offset*/, std::uint32_t /*bytes*/,
                                const ProgramPoint&) const {
    return true;
  }

  // --- Engines, at the instruction that issues an operation. `what`: "TMA load", for reports.
  /// The bytes are in flight from here on. `generic`: cp.async, which writes through the generic proxy.
  virtual void issue(FlightId, MemoryAccess, std::uint32_t /*offset*/, std::uint32_t /*bytes*/,
                     const char* /*what*/, const ProgramPoint&, bool /*generic*/) {}
  virtual void end_flight(FlightId, const Epoch& /*event*/) {}
  /// Bytes of a source that count: what may lie around them in flight is not looked at.
  virtual void check_source(std::uint32_t /*offset*/, std::uint32_t /*bytes*/, const char* /*what*/,
                            const ProgramPoint&) const {}
  /// Whether check_source would throw nothing for any part of the bytes.
  virtual bool may_read(std::uint32_t /*offset*/, std::uint32_t /*bytes*/, const ProgramPoint&) const {
    return true;
  }
  /// A reduction (red.async), which is in nobody's way but plain accesses': issued, and done, by the event.
  virtual void issue_reduction(std::uint32_t /*offset*/, std::uint32_t /*bytes*/, const char* /*what*/,
                               const ProgramPoint&) {}
  virtual void reduce(std::uint32_t /*offset*/, std::uint32_t /*bytes*/, const char* /*what*/,
                      const ProgramPoint&, const Epoch& /*event*/) {}
  /// What is in flight in the range and since where, for reports; empty if nothing is known.
  virtual std::string explain(std::uint32_t /*offset*/, std::uint32_t /*bytes*/) const { return {}; }

  // --- mbarriers
  /// A new one for a CTA of so many warps; null: nobody watches it.
  virtual std::unique_ptr<MbarrierObserver> add_barrier(int /*warps*/) { return nullptr; }
  /// One is used; its mbarrier.init was the event.
  virtual void use_barrier(std::uint32_t /*offset*/, const Epoch& /*init*/, const ProgramPoint&) const {}

  /// The CTA has exited.
  virtual void exit() {}
};

/// The ordering a warp has established by tcgen05.fence: in the observer's own time, and by clocks.
struct TensorStrand {
  std::uint64_t before_thread_sync = 0;  ///< time of its last fence::before_thread_sync
  std::uint64_t after_thread_sync = 0;   ///< time of its last fence::after_thread_sync
  int warp = -1;                         ///< for reports
  VectorClock acquired{};  ///< what happened before its last fence::after_thread_sync; nothing without clocks
};

/// Accumulators of one shape at one address, by one cta_group: products into them run in the order of issue,
/// and behind copies and shifts that were issued before (kTensorCopyOrder and the like). 0: none.
using TensorOrder = std::uint64_t;
/// Of every tcgen05.cp, of those of shape 4x256b (a refresh) and of the others, and of every tcgen05.shift.
inline constexpr TensorOrder kTensorRefreshOrder = 1, kTensorCopyOrder = 2, kTensorShiftOrder = 3;

/// Of the tensor memory of one SM.
class TensorObserver {
 public:
  virtual ~TensorObserver() = default;
  /// An instruction puts the region in flight. `what`: "tcgen05.ld", for reports. The strand lives as long as
  /// the machine.
  virtual void issue(FlightId, MemoryAccess, const TensorRegion&, const char* /*what*/,
                     const TensorStrand& /*by*/, TensorOrder, const ProgramPoint&) {}
  /// By wait::ld, wait::st, or the mbarrier of a commit.
  virtual void end_flight(FlightId, const Epoch& /*event*/) {}
  /// Whether nobody has observed its completion yet, as far as is known.
  virtual bool in_flight(FlightId) const { return false; }
  virtual void allocate(const TensorRegion&) {}
  /// The region is about to be deallocated.
  virtual void free(const TensorRegion&, const char* /*what*/, const TensorStrand& /*by*/,
                    const ProgramPoint&) const {}
  /// tcgen05.fence, the second by the lanes of the warp (null: nobody keeps clocks).
  virtual void fence_before(TensorStrand&) {}
  virtual void fence_after(TensorStrand&, const Warp*, LaneMask /*lanes*/) {}
};

/// Of the registers of one warp that engines own for a while, by their index in Entry::watch.
class RegisterObserver {
 public:
  using Indices = std::vector<std::uint16_t>;

  /// One wgmma as its registers see it.
  struct Product {
    ProgramPoint point;
    const Indices* accumulator = nullptr;
    const Indices* a = nullptr;  // empty: A lies in shared memory
    std::uint32_t shape = 0;     // of the accumulator: products of one shape follow each other unfenced
    std::uint64_t sequence = 0;  // of the warpgroup's products, from 1
  };

  virtual ~RegisterObserver() = default;
  /// Another instruction reads or writes registers of some wgmma, or of some tcgen05.ld that no wait::ld has
  /// followed.
  virtual void access(const Indices&, const ProgramPoint&) {}
  virtual void access_loaded(const Indices&, const ProgramPoint&) {}
  /// wgmma.fence: accesses so far are ordered before the products behind it.
  virtual void fence() {}
  /// A product takes its registers, at its point.
  virtual void take(const Product&) {}
  /// The warp has waited for all products up to this one.
  virtual void release(std::uint64_t /*sequence*/) {}
  /// A tcgen05.ld writes the registers; the warp has waited for all such loads.
  virtual void load(const Indices&, const ProgramPoint&) {}
  virtual void wait_loads() {}
};

/// Of a grid.
class Observer {
 public:
  virtual ~Observer() = default;
  /// A cluster starts; its clocks stay until the grid has ended.
  virtual void add_cluster(std::shared_ptr<HappensBefore> /*order*/) {}

  // --- Who watches what is new; null: nobody does.
  /// The shared memory of a CTA, which has no warps yet.
  virtual std::unique_ptr<SharedObserver> add_cta(Cta&) { return nullptr; }
  virtual std::unique_ptr<TensorObserver> add_tensor_memory(Sm&) { return nullptr; }
  /// Registers of a warp of an entry that has watched ones.
  virtual std::unique_ptr<RegisterObserver> add_warp(Warp&) { return nullptr; }

  // --- Warps
  /// Whether execute() is called, which costs every instruction.
  virtual bool watches_instructions() const { return false; }
  /// The warp has executed the instruction, with these lanes. A wait that goes on is executed again.
  virtual void execute(const Warp&, const Instruction&, LaneMask /*active*/) {}

  // --- Global memory. Threads: the lane of the point, 0 if it has none.
  virtual void read(std::uint64_t /*address*/, std::uint32_t /*bytes*/, const ProgramPoint&,
                    const MemoryOrder&) {}
  virtual void write(std::uint64_t /*address*/, std::uint32_t /*bytes*/, const ProgramPoint&,
                     const MemoryOrder&) {}
  /// A new operation in flight: ids follow each other, from 1. What it accesses on behalf of the point's
  /// thread is told then, at the instruction that issues it. `what`: "TMA load", for reports; `reduces`: an
  /// atomic.
  virtual void issue(FlightId) {}
  virtual void access(FlightId, MemoryAccess, std::uint64_t /*address*/, std::uint32_t /*bytes*/,
                      const char* /*what*/, const ProgramPoint&, bool /*reduces*/) {}
  virtual void end_flight(FlightId, const Epoch& /*event*/) {}

  // --- Tensor maps in global memory
  /// `lane` has changed the map at the address by tensormap.replace or tensormap.cp_fenceproxy. `released`:
  /// with its release in the same instruction.
  virtual void change_map(const Warp&, int /*lane*/, std::uint64_t /*address*/, bool /*released*/) {}
  /// fence.proxy.tensormap::generic.release; .acquire of one lane.
  virtual void release_maps(const Warp&, LaneMask) {}
  virtual void acquire_map(const Warp&, int /*lane*/, std::uint64_t /*address*/) {}
  /// A copy uses the map.
  virtual void use_map(const Warp&, std::uint64_t /*address*/, const ProgramPoint&) const {}
};

/// Those of a grid, who are not owned; and its global memory as they see it.
class Observers final : public FlightOwner {
 public:
  void add(Observer& observer) {
    all_.push_back(&observer);
    if (observer.watches_instructions()) of_instructions_.push_back(&observer);
  }
  auto begin() const { return all_.begin(); }
  auto end() const { return all_.end(); }
  const std::vector<Observer*>& of_instructions() const { return of_instructions_; }

  /// A new operation in flight; nothing if nobody watches.
  FlightRef issue();
  /// It accesses the bytes; does nothing if nobody watches.
  void access(const FlightRef& operation, MemoryAccess access, std::uint64_t address, std::uint32_t bytes,
              const char* what, const ProgramPoint& point, bool reduces = false);
  /// Both, of an operation that accesses one range.
  FlightRef issue(MemoryAccess access, std::uint64_t address, std::uint32_t bytes, const char* what,
                  const ProgramPoint& point, bool reduces = false);
  void end_flight(FlightId id, const Epoch& event) override;

 private:
  std::vector<Observer*> all_, of_instructions_;
  FlightId last_flight_ = 0;
};

}  // namespace jfa::simulator
