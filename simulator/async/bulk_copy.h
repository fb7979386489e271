// Bulk copies without a tensor map: one contiguous range each way.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "simulator/async/bulk_copy_reduction.h"
#include "simulator/async/mbarrier.h"
#include "simulator/machine/flight.h"
#include "simulator/machine/machine.h"

namespace jfa::simulator {

/// Where a copy into shared memory goes, and the mbarrier that gets its bytes.
struct BulkDestination {
  Cta* cta = nullptr;
  std::uint32_t offset = 0;
  Mbarrier* barrier = nullptr;
};

/// Destinations in flight, with their operation tracked by their barriers: the start and end common to all
/// copies into shared memory.
class BulkArrivals {
 public:
  /// Every destination gets shared_bytes in flight and transaction_bytes on its barrier; `also_in_flight`, if
  /// any, ends with the first.
  BulkArrivals(const std::vector<BulkDestination>& destinations, std::uint32_t shared_bytes,
               std::uint32_t transaction_bytes, const char* what, const ProgramPoint& point,
               FlightRef also_in_flight = {});
  const std::vector<BulkDestination>& destinations() const { return destinations_; }
  /// complete_tx on every barrier.
  void complete() const;

 private:
  std::vector<BulkDestination> destinations_;
  std::vector<std::uint64_t> tracked_;
};

struct ReductionKind {
  ReductionOp op;
  ReductionType type;
};

/// cp.async.bulk from global memory. Addresses are multiples of 16, as is `bytes`; all are checked.
void start_bulk_load(Machine& machine, std::uint64_t global, std::uint32_t bytes,
                     const std::vector<BulkDestination>& destinations, const ProgramPoint& point);
/// cp.async.bulk to global memory, or cp.reduce.async.bulk. byte_mask: which bytes of every 16 are written.
void start_bulk_store(Machine& machine, Cta& cta, std::uint32_t offset, std::uint64_t global,
                      std::uint32_t bytes, std::optional<ReductionKind> reduction, std::uint16_t byte_mask,
                      const ProgramPoint& point);
/// cp.async.bulk from the shared memory of `cta` to that of another CTA of its cluster.
void start_bulk_peer_copy(Machine& machine, Cta& cta, std::uint32_t offset, std::uint32_t bytes,
                          const BulkDestination& destination, const ProgramPoint& point);

}  // namespace jfa::simulator
