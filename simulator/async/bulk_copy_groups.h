// Groups of asynchronous copies: how a thread waits for those it started.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "simulator/machine/flight.h"
#include "simulator/machine/machine.h"

namespace jfa::simulator {

/// How far one operation of a group has come; shared by the operation and the group.
struct BulkProgress {
  bool source_read = false;
  bool done = false;
  FlightRef flight;   // what a wait on the group ends: a store's source, a cp.async's destination
  FlightRef written;  // what no .read wait ends: a store's destination
};

class BulkGroups : public Extension {
 public:
  explicit BulkGroups(Cta& cta) : threads_(static_cast<std::size_t>(cta.threads())) {}

  /// Adds an operation to the thread's open group.
  void add(int thread, std::shared_ptr<BulkProgress> progress);
  /// cp.async.bulk.commit_group: closes the open group, also an empty one.
  void commit(int thread);
  /// Whether all groups but the `keep` most recent have read their sources (read_only) or completed.
  bool finished(int thread, std::uint32_t keep, bool read_only) const;
  /// A wait, the event, has found that: what they had in flight is the thread's again.
  void observe(int thread, std::uint32_t keep, bool read_only, const Epoch& event);
  /// Every operation the thread has started, as far as no wait has observed it.
  std::vector<std::shared_ptr<BulkProgress>> unobserved(int thread) const;

 private:
  using Group = std::vector<std::shared_ptr<BulkProgress>>;
  struct Thread {
    Group open;
    std::deque<Group> committed;  // oldest first; leaves when complete and observed
  };
  std::vector<Thread> threads_;
};

}  // namespace jfa::simulator
