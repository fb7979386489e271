// Races in the shared memory of a CTA: two accesses of the same bytes, one of them a write, that nothing
// orders. Found by clocks, so that it does not matter which of them came first on this schedule.
//
// What threads access is recorded per four bytes, by the last writer and the others since. What engines
// access comes in large pieces and is recorded as intervals.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <memory>
#include <unordered_map>
#include <vector>

#include "simulator/happens_before.h"
#include "simulator/report.h"

namespace jfa::simulator {

class RaceShadow {
 public:
  enum class Access : std::uint8_t { kRead, kWrite };
  /// What engines touch in smaller pieces is recorded like accesses of threads.
  static constexpr std::uint32_t kLeastInterval = 512;

  RaceShadow(const Cta& cta, HappensBefore& order, std::uint32_t size_bytes);

  // --- Threads: the lane of the point (0 if it has none). `strong`: volatile, relaxed, acquire, release or
  // atomic: such accesses do not race with each other, and order what is around them.
  void read(std::uint32_t offset, std::uint32_t bytes, const ProgramPoint& point, bool strong);
  void write(std::uint32_t offset, std::uint32_t bytes, const ProgramPoint& point, bool strong);
  /// A thread accesses bytes that an engine has touched (SharedMemory::kEngineRead, kEngineWritten).
  void check_engines(Access access, std::uint32_t offset, std::uint32_t bytes, const ProgramPoint& point);
  /// An mbarrier is used: its mbarrier.init must have happened before.
  void check_initialised(std::uint32_t offset, const ProgramPoint& point) const;

  // --- Engines. `what`: "TMA load", for reports.
  /// At the instruction that starts an operation, on whose behalf it accesses the bytes. Throws kRace, and
  /// kMissingFence for a read of what a thread wrote without a proxy fence. A write forgets the past of the
  /// bytes.
  void check_engine(Access access, std::uint32_t offset, std::uint32_t bytes, const char* what,
                    const ProgramPoint& point);
  /// Whether check_engine of a read would throw nothing.
  bool engine_may_read(std::uint32_t offset, std::uint32_t bytes, const ProgramPoint& point) const;
  /// The operation's completion is the event; `generic`: a cp.async, which writes through the generic proxy.
  void note_engine(Access access, std::uint32_t offset, std::uint32_t bytes, const char* what,
                   const ProgramPoint& point, const Epoch& event, bool generic);

 private:
  /// Accesses of some lanes of a warp in one tick; or of an engine, with no lanes.
  struct Record {
    std::uint32_t tick = 0;  // 0: none
    LaneMask lanes = 0;
    std::uint32_t pc = 0;
    Strand strand = 0;
    std::uint8_t bytes : 4 = 0;  // a bit each
    bool strong : 1 = false;
    bool generic : 1 = true;
    bool wrote : 1 = false;       // among the readers: a writer of bytes that the last one did not write
    bool has_others : 1 = false;  // of a cell's last write: the cell has records in others_
    Epoch event() const { return {strand, tick, lanes}; }
  };
  /// Who has accessed a cell since its last write, and older writers of some of its bytes.
  struct Others {
    Record first;            // the only one …
    std::uint32_t more = 0;  // … or index + 1 into more_others_
  };
  struct Interval {
    std::uint32_t begin, end;
    Access access;
    Epoch event;
    const char* what;
    ProgramPoint point;
    bool overlaps(std::uint32_t first, std::uint32_t last) const { return begin < last && first < end; }
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
  bool ordered(const Record& record, const WarpClock& clock, int lane, Access access) const {
    return order_.ordered(record.event(), clock, lane, access == Access::kWrite);
  }
  bool ordered(const Record& record, Accessor& accessor) const;
  bool fenced(const Record& write, std::uint8_t bytes, Accessor& accessor) const;
  void add(std::uint32_t cell, const Record& record, const WarpClock& clock);
  void forget_others(std::uint32_t cell);
  void forget(std::uint32_t offset, std::uint32_t bytes);
  /// The first record among the cell's that is not ordered before the access, or null. `but_write`: its write
  /// aside.
  const Record* unordered(std::uint32_t cell, std::uint8_t bytes, Accessor& accessor,
                          bool but_write = false) const;
  void order_strong(std::uint32_t cell, const ProgramPoint& point, WarpClock& clock, int lane);
  [[noreturn]] void refuse(Access access, std::uint32_t offset, const char* what, Access earlier,
                           const ProgramPoint& other, const char* other_what,
                           const ProgramPoint& point) const;
  [[noreturn]] void refuse(Access access, std::uint32_t offset, const char* what, const Record& record,
                           const ProgramPoint& point) const;
  ProgramPoint point_of(const Record& record) const;
  const Interval* unordered_interval(Access access, std::uint32_t offset, std::uint32_t bytes,
                                     const WarpClock& clock, int lane) const;
  template <class Visit>
  bool for_each_used_cell(std::uint32_t offset, std::uint32_t bytes, Visit visit) const;

  struct Free {
    void operator()(void* memory) const { std::free(memory); }
  };
  template <class T>
  using ZeroPages = std::unique_ptr<T[], Free>;  // which cost nothing until they are used

  const Cta& cta_;
  HappensBefore& order_;
  // By cell. Apart, so that who only writes need not touch the others.
  ZeroPages<Record> writes_;
  ZeroPages<Others> others_;
  std::vector<std::uint8_t> used_;  // by block of cells: whether some of its cells have records
  std::vector<std::vector<Record>> more_others_;
  std::vector<std::uint32_t> free_more_;
  std::vector<Interval> intervals_;                        // some dozens at most
  std::unordered_map<std::uint32_t, VectorClock> strong_;  // by cell
};

}  // namespace jfa::simulator
