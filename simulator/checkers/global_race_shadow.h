// Races in global memory: two accesses of the same bytes by one grid, one of them a write, that nothing
// orders. Threads of different clusters are ordered by fences and atomics only; the end of a grid orders all.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "simulator/checkers/global_access.h"
#include "simulator/checkers/global_race_cells.h"
#include "simulator/checkers/memory_meetings.h"
#include "simulator/checkers/race_shadow.h"
#include "simulator/machine/flight.h"
#include "simulator/machine/happens_before.h"
#include "simulator/machine/machine.h"
#include "simulator/machine/memory_order.h"
#include "simulator/machine/remote_clock.h"

namespace jfa::simulator {

/// Of one grid. An asynchronous operation is a flight: its accesses are ordered before nobody's until its
/// completion has been observed.
class GlobalRaceShadow {
 public:
  using Access = RaceShadow::Access;

  explicit GlobalRaceShadow(Machine& machine);
  ~GlobalRaceShadow();

  /// A cluster starts; its clocks stay until the grid has ended.
  void add_cluster(std::shared_ptr<HappensBefore> order);

  // --- Threads: the lane of the point (0 if it has none). Throw kRace.
  void read(std::uint64_t address, std::uint32_t bytes, const ProgramPoint& point, const MemoryOrder& order);
  void write(std::uint64_t address, std::uint32_t bytes, const ProgramPoint& point, const MemoryOrder& order);

  // --- Asynchronous operations, at the instruction that starts one. `what`: "TMA load", for reports.
  /// A new operation in flight: ids follow each other, from 1.
  void begin(FlightId id);
  /// The operation accesses the bytes on behalf of the point's thread. Throws kRace, and kMissingFence for a
  /// read of what a thread of the grid wrote without a proxy fence. `reduces`: an atomic.
  void access(FlightId operation, Access access, std::uint64_t address, std::uint32_t bytes, const char* what,
              const ProgramPoint& point, bool reduces);
  /// Its completion was observed, by way of the event; once more is fine.
  void end(FlightId operation, const Epoch& event);

 private:
  using Record = GlobalAccess;
  using Cell = GlobalRaceCells::Cell;
  using Accessor = MemoryAccessor;
  struct Operation {
    Epoch completion;  // tick 0: in flight
    const char* what = "";
  };

  Record record_of(const Accessor& accessor, const ProgramPoint& point, const MemoryOrder& order) const;
  Epoch event_of(const Record& record) const;
  bool strong_together(const Record& record, const Accessor& accessor, const MemoryOrder& order) const;
  bool ordered(const Record& record, const Accessor& accessor, Access access) const;
  bool fenced(const Record& record, const Accessor& accessor) const;
  const Record* conflict(const Cell& cell, std::uint8_t bytes, Access access, const Accessor& accessor,
                         const MemoryOrder& order, bool but_write = false) const;
  const Record* unfenced(const Cell& cell, std::uint8_t bytes, const Accessor& accessor) const;
  bool stands_for(const Record& record, const Record& older, const Accessor& accessor) const;
  void set_writer(Cell& cell, const Record& record, const Accessor& accessor);
  [[noreturn]] void refuse(Access access, std::uint64_t address, const char* what, const Record& record,
                           const ProgramPoint& point) const;
  std::string place(std::uint64_t address) const;
  std::string describe(const Record& record) const;

  Machine& machine_;
  std::vector<std::shared_ptr<HappensBefore>> clusters_;
  GlobalRaceCells cells_;
  std::vector<Operation> operations_;  // by id - 1
  MemoryMeetings meetings_;
};

}  // namespace jfa::simulator
