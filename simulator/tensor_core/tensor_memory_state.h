// Tensor memory as the machine holds it: cells per SM, the warps' and issuing threads' side per CTA.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <tuple>
#include <vector>

#include "simulator/machine/flight.h"
#include "simulator/machine/machine.h"
#include "simulator/machine/observer.h"
#include "simulator/tensor_core/tensor_memory.h"

namespace jfa::simulator {

class SmTensorMemory final : public Extension, public FlightOwner {
 public:
  explicit SmTensorMemory(Sm& sm);

  TensorMemory memory;

  // --- What happens, for observers, as TensorObserver says. Nothing is in flight if there are none.
  FlightRef issue(MemoryAccess access, const TensorRegion& region, const char* what,
                  const TensorStrand& strand, TensorOrder order, const ProgramPoint& point);
  void end_flight(FlightId id, const Epoch& event) override;
  bool in_flight(FlightId id) const;
  void allocate(const TensorRegion& region);
  void check_free(const TensorRegion& region, const char* what, const TensorStrand& strand,
                  const ProgramPoint& point) const;
  void fence_before(TensorStrand& strand);
  void fence_after(TensorStrand& strand, const Warp& warp, LaneMask lanes);

  /// The Order of products into accumulators of one shape at one address by one cta_group; also their queue
  /// with the scheduler, hence unique in the machine.
  TensorOrder order(std::uint32_t address, std::uint32_t shape_bits, int cta_group);

 private:
  Sm& sm_;
  std::vector<std::unique_ptr<TensorObserver>> observers_;
  FlightId last_flight_ = 0;
  std::map<std::tuple<std::uint32_t, std::uint32_t, int>, TensorOrder> orders_;
};

/// Asynchronous tcgen05 operations that commits wait for. kRefresh: tcgen05.cp of shape 4x256b.
enum class TensorOperation : std::uint8_t { kProduct, kCopy, kRefresh, kShift };

struct TensorTicket {
  TensorOperation operation = TensorOperation::kProduct;
  bool done = false;
  std::vector<FlightRef> flights;  // end when a commit's mbarrier has been observed
  const SmTensorMemory* memory = nullptr;
  FlightId accumulator = 0;  // what it writes there, among flights: until somebody has observed it
};

using TensorTickets = std::vector<std::shared_ptr<TensorTicket>>;
bool all_done(const TensorTickets& tickets);

class CtaTensorMemory : public Extension {
 public:
  explicit CtaTensorMemory(Cta& cta);

  struct WarpState {
    TensorStrand strand;
    struct Transfer {
      FlightRef flight;
      const std::vector<std::uint16_t>* registers;  // of a load, by their index in Entry::watch
    };
    std::vector<Transfer> loads;   // until wait::ld
    std::vector<Transfer> stores;  // until wait::st
  };

  TensorMemory& memory() { return sm_.memory; }
  SmTensorMemory& sm() { return sm_; }
  WarpState& warp(int index) { return warps_[static_cast<std::size_t>(index)]; }
  TensorMemory::Owner owner() const { return &cta_; }

  /// A thread issues an operation, whose flights get the event. Returns what the tensor core does before:
  /// what the CTA's threads have issued earlier and is not done.
  TensorTickets issue(int thread, const std::shared_ptr<TensorTicket>& ticket);
  Epoch last_issue(int thread) { return events_[thread]; }
  /// The warp has waited for its loads or stores, which are one operation of all its lanes, as the wait is:
  /// every one of them knows from here on that the whole is over.
  Epoch wait(Warp& warp);
  /// Operations of a thread that nobody is known to have waited for, oldest first.
  TensorTickets& tickets(int thread) { return tickets_[thread]; }
  /// Puts a region that a copy or a shift of the strand writes in flight. Throws as observers do, and unless
  /// the region is allocated.
  void begin_write(TensorTicket& ticket, const TensorRegion& region, const char* what,
                   const TensorStrand& strand, TensorOrder order, const ProgramPoint& point);

  /// The queue of this CTA's products, if they need no waits between them (RunOptions::product_waits).
  std::uint64_t product_queue() const { return reinterpret_cast<std::uintptr_t>(&events_); }
  /// The queue of this CTA's tcgen05.cp.
  std::uint64_t copy_queue() const { return reinterpret_cast<std::uintptr_t>(&tickets_); }

  void on_exit() override;

 private:
  Cta& cta_;
  SmTensorMemory& sm_;
  std::vector<WarpState> warps_;
  std::vector<Epoch> waits_;  // by warp: the last wait::ld or wait::st, by when its transfers were over
  std::map<int, TensorTickets> tickets_;
  std::map<int, Epoch> events_;
};

/// The other CTA of a pair: the ranks differ in bit 0 only. Throws if there is none or it has exited.
Cta& pair_peer(Cta& cta, const ProgramPoint& point);
/// The CTA, and with cta_group::2 its peer behind it.
std::vector<Cta*> ctas_of_group(Cta& cta, int cta_group, const ProgramPoint& point);

}  // namespace jfa::simulator
