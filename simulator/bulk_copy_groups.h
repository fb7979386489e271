// Bulk groups: how a thread waits for its copies out of shared memory.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "simulator/async_shadow.h"
#include "simulator/machine.h"

namespace jfa::simulator {

/// How far one operation of a group has come; shared by the operation and the group.
struct BulkProgress {
  bool source_read = false;
  bool done = false;
  FlightRef source;  // in flight until a wait has observed source_read
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
  /// A wait has found that: their sources are the thread's again.
  void observe(int thread, std::uint32_t keep);

 private:
  using Group = std::vector<std::shared_ptr<BulkProgress>>;
  struct Thread {
    Group open;
    std::deque<Group> committed;  // oldest first; leaves when complete and observed
  };
  std::vector<Thread> threads_;
};

}  // namespace jfa::simulator
