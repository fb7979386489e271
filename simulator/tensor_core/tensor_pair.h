// tcgen05.alloc, dealloc and relinquish_alloc_permit of cta_group::2: operations of the two CTAs of a pair on
// both their tensor memories. Each is executed by a warp of either CTA; the first waits for the second, as
// the PTX ISA says that it may. Columns are allocated and given back in both at once, so that a pair has one
// address for each allocation. Kernels may not count on the wait: an alloc has to know that the peer runs, a
// dealloc that the peer's alloc is complete and its accesses are over, by other means.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "simulator/machine/machine.h"
#include "simulator/tensor_core/tensor_memory_state.h"

namespace jfa::simulator {

class TensorPair {
 public:
  TensorPair(Cta& even, Cta& odd);

  /// tcgen05.alloc by a warp: the first column, once both CTAs have asked and so many are free in both
  /// memories. Until then nothing; call again after wait_to_allocate. Throws kTensorMemory for what
  /// TensorMemory::allocate refuses, if the CTAs ask for different numbers, and if nothing tells the warp
  /// that the peer runs.
  std::optional<std::uint32_t> allocate(Warp& warp, std::uint32_t columns, const ProgramPoint& point);
  std::unique_ptr<Wait> wait_to_allocate(Warp& warp);

  /// tcgen05.dealloc by a warp; null if both CTAs have executed it, else the wait for the other. Throws as
  /// TensorMemory::deallocate and SmTensorMemory::check_free do, about both memories, and kTensorMemory
  /// if nothing tells the warp that the peer's tcgen05.alloc is complete.
  std::unique_ptr<Wait> deallocate(Warp& warp, TensorAddress address, std::uint32_t columns,
                                   const ProgramPoint& point);

  /// tcgen05.relinquish_alloc_permit, likewise.
  std::unique_ptr<Wait> relinquish(Warp& warp, const ProgramPoint& point);

 private:
  class AllocateWait;
  class DeallocateWait;
  class RelinquishWait;
  struct Request {
    const Warp* warp = nullptr;
    std::uint32_t columns = 0;
    ProgramPoint point;
    std::optional<std::uint32_t> granted;  // its first column
  };
  struct Side {
    Cta* cta = nullptr;
    std::optional<Request> request;
    std::optional<ProgramPoint> relinquished;
    Epoch allocation;  // the last one: an event of its own strand
    CtaTensorMemory& memory() const { return cta->extension<CtaTensorMemory>(); }
  };
  struct Allocation {
    std::uint32_t first_column = 0, columns = 0;
    std::uint64_t serial = 0;
    std::array<Epoch, 2> complete;                     // by side: its tcgen05.alloc; none before
    std::array<std::optional<ProgramPoint>, 2> freed;  // by side
  };
  static std::size_t side_of(const Cta& cta) { return cta.rank() & 1; }
  bool both_ask() const;
  void grant(const ProgramPoint& point);
  Allocation* find(std::uint64_t serial);
  std::string name_peer(std::size_t side, const char* instruction) const;
  void check_free(Warp& warp, const Allocation& allocation, const ProgramPoint& point) const;

  std::array<Side, 2> sides_;
  std::vector<Allocation> allocations_;
  std::uint64_t last_serial_ = 0;
};

/// The pairs of a cluster.
class TensorPairs : public Extension {
 public:
  explicit TensorPairs(Cluster& cluster) : cluster_(cluster) {}
  /// The pair of a CTA. Throws if it has no peer, or one that has exited.
  TensorPair& of(Cta& cta, const ProgramPoint& point);

 private:
  Cluster& cluster_;
  std::vector<std::unique_ptr<TensorPair>> pairs_;  // by rank of the even CTA, halved
};

}  // namespace jfa::simulator
