// Tensor memory as the machine holds it: cells and shadow per SM, the warps' and issuing threads' side per
// CTA.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <tuple>
#include <vector>

#include "simulator/checkers/tensor_memory_shadow.h"
#include "simulator/machine/machine.h"
#include "simulator/tensor_core/tensor_memory.h"

namespace jfa::simulator {

class SmTensorMemory : public Extension {
 public:
  explicit SmTensorMemory(Sm& sm);

  TensorMemory memory;
  TensorMemoryShadow shadow;

  /// The Order of products into accumulators of one shape at one address by one cta_group; also their queue
  /// with the scheduler, hence unique in the machine.
  TensorMemoryShadow::Order order(std::uint32_t address, std::uint32_t shape_bits, int cta_group);

 private:
  Sm& sm_;
  std::map<std::tuple<std::uint32_t, std::uint32_t, int>, TensorMemoryShadow::Order> orders_;
};

/// Asynchronous tcgen05 operations that commits wait for. kRefresh: tcgen05.cp of shape 4x256b.
enum class TensorOperation : std::uint8_t { kProduct, kCopy, kRefresh, kShift };

struct TensorTicket {
  TensorOperation operation = TensorOperation::kProduct;
  bool done = false;
  std::vector<FlightRef> flights;  // end when a commit's mbarrier has been observed
  TensorMemoryShadow* shadow = nullptr;
  TensorMemoryShadow::FlightId accumulator =
      0;  // what it writes, among flights: in flight until somebody has observed it
};

using TensorTickets = std::vector<std::shared_ptr<TensorTicket>>;
bool all_done(const TensorTickets& tickets);

class CtaTensorMemory : public Extension {
 public:
  explicit CtaTensorMemory(Cta& cta);

  struct WarpState {
    TensorStrand strand;
    std::vector<TensorMemoryShadow::FlightId> loads;   // until wait::ld
    std::vector<TensorMemoryShadow::FlightId> stores;  // until wait::st
    std::vector<std::uint32_t> loading;  // by register in Entry::watch: load that owns it, + 1; 0: none
    std::vector<ProgramPoint> loads_at;  // the loads, until wait::ld
  };

  TensorMemory& memory() { return sm_.memory; }
  TensorMemoryShadow& shadow() { return sm_.shadow; }
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
  /// Puts a region that a copy or a shift of the strand writes in flight. Throws as its shadow does, and
  /// unless the region is allocated.
  void begin_write(TensorTicket& ticket, const TensorRegion& region, const char* what,
                   const TensorStrand& strand, TensorMemoryShadow::Order order, const ProgramPoint& point);

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
