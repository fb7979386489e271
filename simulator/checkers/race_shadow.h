// Races in the shared memory of a CTA: two accesses of the same bytes, one of them a write, that nothing
// orders. Found by clocks, so that it does not matter which of them came first on this schedule.
//
// What threads access is recorded in cells. What engines access comes in large pieces and is recorded as
// intervals.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "simulator/checkers/memory_meetings.h"
#include "simulator/checkers/race_cells.h"
#include "simulator/machine/happens_before.h"
#include "simulator/machine/memory_order.h"
#include "simulator/machine/report.h"
#include "simulator/machine/shared_memory.h"

namespace jfa::simulator {

class RaceShadow {
 public:
  using Access = MemoryAccess;
  /// What engines touch in smaller pieces is recorded like accesses of threads.
  static constexpr std::uint32_t kLeastInterval = 512;

  RaceShadow(const Cta& cta, HappensBefore& order, std::uint32_t size_bytes);

  // --- Threads: the lane of the point (0 if it has none). Throw kRace.
  void read(std::uint32_t offset, std::uint32_t bytes, const ProgramPoint& point, const MemoryOrder& order);
  void write(std::uint32_t offset, std::uint32_t bytes, const ProgramPoint& point, const MemoryOrder& order);
  /// Of bytes that engines have touched, as SharedObserver says.
  void check_engines(Access access, std::uint32_t offset, std::uint32_t bytes, const ProgramPoint& point);
  bool replaces_engines(std::uint32_t offset, std::uint32_t bytes, const ProgramPoint& point) const;
  /// An mbarrier is used: its mbarrier.init must have happened before, as a write or as the event that
  /// fence.mbarrier_init releases.
  void check_initialised(std::uint32_t offset, const Epoch& init, const ProgramPoint& point) const;

  // --- Engines. `what`: "TMA load", for reports.
  /// At the instruction that starts an operation, on whose behalf it accesses the bytes. Throws kRace, and
  /// kMissingFence for a read of what a thread wrote without a proxy fence. A write forgets the past of the
  /// bytes.
  void check_engine(Access access, std::uint32_t offset, std::uint32_t bytes, const char* what,
                    const ProgramPoint& point);
  /// Whether check_engine of a read would throw nothing.
  bool engine_may_read(std::uint32_t offset, std::uint32_t bytes, const ProgramPoint& point);
  /// The operation's completion is the event; `generic`: a cp.async, which writes through the generic proxy.
  void note_engine(Access access, std::uint32_t offset, std::uint32_t bytes, const char* what,
                   const ProgramPoint& point, const Epoch& event, bool generic);
  /// The same two for a reduction: it reads and writes, and does not race with others and with atomics. To be
  /// noted when it is done.
  void check_reduction(std::uint32_t offset, std::uint32_t bytes, const char* what,
                       const ProgramPoint& point);
  void note_reduction(std::uint32_t offset, std::uint32_t bytes, const ProgramPoint& point,
                      const Epoch& event);

 private:
  using Record = RaceCells::Record;
  struct Interval {
    std::uint32_t begin, end;
    Access access;
    Epoch event;
    const char* what;
    ProgramPoint point;
    bool overlaps(std::uint32_t first, std::uint32_t last) const { return begin < last && first < end; }
  };

  /// What an engine was found free to read. It stays so for the one that asked until somebody writes, since a
  /// strand only ever learns.
  struct AllowedRead {
    std::uint32_t offset = 0, bytes = 0;
    Strand strand = 0;
    int lane = 0;
    std::uint64_t writes_before = 0;
    bool operator==(const AllowedRead&) const = default;
  };

  /// Who accesses cells side by side.
  struct Accessor {
    Access access;
    bool strong;
    const WarpClock& clock;
    int lane;
    Epoch ordered{}, fenced{};  // the last events found to be so: neighbours often have the same
  };

  Record record_of(const ProgramPoint& point, const WarpClock& clock, int lane, bool strong) const;
  Record record_of(Access access, const ProgramPoint& point, const Epoch& event, bool generic) const;
  bool ordered(const Record& record, const WarpClock& clock, int lane, Access access) const {
    return order_.ordered(record.event(), clock, lane, access == Access::kWrite);
  }
  bool ordered(const Record& record, Accessor& accessor) const;
  bool fenced(const Record& write, std::uint8_t bytes, Accessor& accessor) const;
  /// The first of the cell's writes that the asynchronous proxy may not read, or null.
  const Record* unfenced(RaceCells::Cell cell, std::uint8_t bytes, Accessor& accessor) const;
  void write_cell(RaceCells::Cell cell, Record record, Accessor& accessor, const ProgramPoint& point);
  bool stands_for(const Record& write, const Record& earlier, const Accessor& accessor) const;
  /// The first record among the cell's that is not ordered before the access, or null. `but_write`: its write
  /// aside.
  const Record* unordered(RaceCells::Cell cell, std::uint8_t bytes, Accessor& accessor,
                          bool but_write = false) const;
  [[noreturn]] void refuse(Access access, std::uint32_t offset, const char* what, Access earlier,
                           const ProgramPoint& other, const char* other_what,
                           const ProgramPoint& point) const;
  [[noreturn]] void refuse(Access access, std::uint32_t offset, const char* what, const Record& record,
                           const ProgramPoint& point) const;
  ProgramPoint point_of(const Record& record) const;
  const Interval* unordered_interval(Access access, std::uint32_t offset, std::uint32_t bytes,
                                     const WarpClock& clock, int lane) const;
  bool remains(const Interval& interval, std::uint32_t offset, std::uint32_t bytes) const;
  void forget_intervals(std::uint32_t offset, std::uint32_t bytes);
  /// Whether the lane overwrites what is over (VectorClock::settled) and it has not seen: whoever reads what
  /// it writes cannot have seen the other by way of it.
  bool overwrites_unseen(const Epoch& earlier, const WarpClock& clock, int lane) const {
    return !order_.ordered(earlier, clock, lane, false);
  }
  const Cta& cta_;
  HappensBefore& order_;
  RaceCells cells_;
  std::uint64_t writes_so_far_ = 0;
  std::array<AllowedRead, 4> allowed_;  // the last: a few operands, asked for at every step of K
  std::size_t next_allowed_ = 0;
  std::vector<Interval> intervals_;  // some dozens at most
  MemoryMeetings meetings_;
};

/// For reports: "reads" or "writes".
const char* verb(RaceShadow::Access access);

}  // namespace jfa::simulator
