// Who watches a machine. The machine tells what happens, in these terms, and knows no checker; an observer
// throws SimulationError at what is wrong. attach_checkers (checkers/attach.h) brings ours.
#pragma once

#include <cstdint>
#include <memory>

#include "simulator/machine/memory_order.h"
#include "simulator/machine/report.h"

namespace jfa::simulator {

class Cta;
class HappensBefore;

/// Of the shared memory of one CTA. Offsets are CTA-relative; the thread is the lane of the point, 0 if it
/// has none.
class SharedObserver {
 public:
  virtual ~SharedObserver() = default;
  virtual void read(std::uint32_t offset, std::uint32_t bytes, const ProgramPoint& point,
                    const MemoryOrder& order) = 0;
  virtual void write(std::uint32_t offset, std::uint32_t bytes, const ProgramPoint& point,
                     const MemoryOrder& order) = 0;
  /// A thread accesses bytes that an engine has touched (SharedMemory::kEngineRead, kEngineWritten).
  virtual void check_engines(MemoryAccess access, std::uint32_t offset, std::uint32_t bytes,
                             const ProgramPoint& point) = 0;
  /// Whether a thread's strong write, which has been checked, stands for what engines did to the bytes, as
  /// any other write does: whoever is ordered behind it need not be asked about them.
  virtual bool replaces_engines(std::uint32_t offset, std::uint32_t bytes,
                                const ProgramPoint& point) const = 0;
};

/// Of a grid.
class Observer {
 public:
  virtual ~Observer() = default;
  /// A cluster starts; its clocks stay until the grid has ended.
  virtual void add_cluster(std::shared_ptr<HappensBefore> order) = 0;
  /// A CTA of it, which has its shared memory and no warps yet: who watches that memory. Never null.
  virtual std::unique_ptr<SharedObserver> add_cta(const Cta& cta) = 0;
  // Threads access global memory: the lane of the point, 0 if it has none.
  virtual void read(std::uint64_t address, std::uint32_t bytes, const ProgramPoint& point,
                    const MemoryOrder& order) = 0;
  virtual void write(std::uint64_t address, std::uint32_t bytes, const ProgramPoint& point,
                     const MemoryOrder& order) = 0;
};

}  // namespace jfa::simulator
