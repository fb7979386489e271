// What PTX leaves undefined of an mbarrier, and what of it depends on the schedule: phases that nobody has
// observed, waits that come too late to tell which phase they are for, bytes and commits that are left
// behind.
#pragma once

#include <cstdint>
#include <vector>

#include "simulator/machine/launch.h"
#include "simulator/machine/observer.h"

namespace jfa::simulator {

class MbarrierChecks final : public MbarrierObserver {
 public:
  MbarrierChecks(int warps, const RunOptions& options)
      : commit_waits_(options.commit_waits),
        exit_bytes_(options.exit_bytes),
        watchers_(static_cast<std::size_t>(warps)) {}

  // These throw kBarrier or kTransaction about the point.
  void arrive(const Mbarrier& barrier, std::uint32_t count, bool completes,
              const ProgramPoint& point) override;
  void expect(const Mbarrier& barrier, const ProgramPoint& point) override;
  void arrivals_in(const Mbarrier& barrier, const ProgramPoint& point) override;
  void commit(const Mbarrier& barrier, const ProgramPoint& point) override;
  /// A warp that, as far as it can be told, waits for a phase whose successor has completed too is an error:
  /// parities cannot tell those apart.
  void await_parity(const Mbarrier& barrier, std::uint32_t parity, int warp,
                    const ProgramPoint& point) override;
  void await_state(const Mbarrier& barrier, std::uint64_t token, int warp,
                   const ProgramPoint& point) override;
  void invalidate(const Mbarrier& barrier, const ProgramPoint& point) override;
  /// Throws kInFlight for what is outstanding, and if nobody has waited for the last commit's arrival: it may
  /// yet be to come.
  void exit(const Mbarrier& barrier) override;

 private:
  struct Watcher {               // what one warp knows
    std::uint64_t observed = 0;  // completed phases at its last successful wait
    std::uint64_t awaited = 0;   // completed phases its unsuccessful wait is for; 0 none
    bool has_observed = false;
  };
  struct Commit {
    ProgramPoint point;
    std::uint64_t completed = 0;  // phases, when the one in which it arrived is; 0: there was none
  };
  void check_observed(const Mbarrier& barrier, const ProgramPoint& point) const;
  void check_bytes(const Mbarrier& barrier, const char* when, const ProgramPoint& point) const;
  void observe(const Mbarrier& barrier, bool done, std::uint64_t wanted, int warp, const ProgramPoint& point);

  bool commit_waits_, exit_bytes_;
  std::uint64_t observed_ = 0;     // completed phases that some warp has observed
  std::vector<Watcher> watchers_;  // by warp
  Commit last_commit_;
};

}  // namespace jfa::simulator
